/* Planted bugs: known mistakes that tests switch on to see that the checkers catch them.
 *
 * In every build but the test one, PLANTED(x) is the constant 0 and the mistake is not in the object
 * code. The test build (TRAM_PLANTED=1, program tram-planted) has one of them switched on at a time.
 *
 * A mistake that takes more than a line is a function in the planted.c of its folder, so that the code that it is planted
 * in reads as it runs. What is switched on is a number, not a mask: there may be any number of them. */
#ifndef BASE_PLANTED_H
#define BASE_PLANTED_H

/* The name, the protocol whose simulation must catch it, what the mistake is. Many are what the papers leave open or
 * get wrong, if one follows them to the letter. What needs a coincidence that no drawn seed brings about is "stepped": a schedule stepped by hand
 * (tests/log_schedules*.c, tests/tree_schedules*.c; for the two of tcp, tests/unit/mem_sim_stream.c; for
 * those of the disk, tests/unit/disk_planted.c; of views, tests/unit/group_keeper.c; of broadcasts and of logs among liars, which have worlds
 * of their own, tests/unit/agree_bft_neb.c and agree_bft_core.c) must catch it. */
#define PLANTED_LIST(X)                                                                            \
    X(late_stale, log, "a late follower keeps its old suffix instead of being resynchronised")     \
    X(skip_first, log, "the first entry recovered in a take-over is not applied by the leader")    \
    X(failed_cursor, log, "entries repaired in a failed take-over count as applied")               \
    X(own_not_fenced, log, "a candidate reads its own memory before that has promised")            \
    X(no_self_ack, log, "a candidate does not count itself")                                       \
    X(lost_request, log, "a candidate waits for ever for answers that were lost")                  \
    X(one_ballot, log, "entries are stamped with the promise of the moment, not the own ballot")   \
    X(cursor_ahead, log, "what was taken from a source is remembered, not derived from the log")   \
    X(nonzero_present, log, "an entry is present if its bytes look like one")                      \
    X(read_ungranted, log, "recovery reads replicas that have not promised")                       \
    X(self_unchecked, log, "the leader's own copy counts whoever it has promised since")           \
    X(no_fence, log, "the permission is judged before the write has landed")                       \
    X(quorum_f, log, "a commit needs one copy too few")                                            \
    X(commit_beyond, log, "a follower is told the commit index beyond what it holds")              \
    X(no_filter, log, "an entry is applied though its source position was taken before")           \
    X(no_restamp, log, "recovered entries keep their old ballots")                                 \
    X(amnesia_votes, log, "a replica that lost its memory promises at once")                       \
    X(grant_early, log, "B14: a memory that lost what it had is let in before that is decided")    \
    X(quorum_of_replicas, log, "B25: copies at replicas that do not vote make a commit")           \
    X(memory_from_applied, log, "B26: a memory's lane begins where its leader has applied")        \
    X(memory_from_unkept, durable, "a memory gives up what a replica has applied and not on disk") \
    X(early_serve, log, "a leader serves before its start marker is committed")                    \
    X(overrun, log, "a log position is reused before every attached replica has applied it")       \
    X(hung_again, log, "a replica that was detached is written to again while it hangs")           \
    X(snap_no_sources, log, "a snapshot leaves out what was taken from the sources")               \
    X(backlog_gap, log, "an entry decided while a state was sent is left out behind it")           \
    X(load_late, log, "entries behind a state are applied before the state is in use")             \
    X(hold_none, log, "the log is not held while a replica goes over to its lane")                 \
    X(busy_unheard, log, "a leader that said it would be busy is deposed for it")                  \
    X(resume_behind, log, "after a loss a transfer goes on behind what it sent")                   \
    X(retract_decided, stepped, "a leader that comes back erases what it had decided")             \
    X(past_promises, stepped, "promises of a past life of a replica count")                        \
    X(counts_unlive, stepped, "copies of a replica that takes no writes any more count")           \
    X(run_before_guard, stepped, "a run is continued with RUN before GUARD")                       \
    X(guard_stays, stepped, "a run is continued and its GUARD is not taken back")                  \
    X(reuse_alone, stepped, "a position is used again though no quorum has applied it")            \
    X(lane_unchecked, stepped, "a lane may change while recovery reads it")                        \
    X(overrun_unseen, stepped, "a lane may be overrun while it is read")                           \
    X(start_unchecked, stepped, "a follower reads a run that begins beyond what it has")           \
    X(run_unchecked, stepped, "a follower reads a lane whatever run is in it")                     \
    X(mid_entry, stepped, "recovery reads from where no entry may begin")                          \
    X(unverified, stepped, "a promise is not looked at again after its memory was read")           \
    X(start_vouches, stepped, "where a run begins tells which run decided what is before")         \
    X(renewal_vouches, stepped,                                                                    \
      "a renewed run vouches for what its owner applied from another leader")                      \
    X(run_read_once, stepped, "the run of a lane is not read again after its other words")         \
    X(raise_untold, log, "a raise is answered before those who write there were told of it")       \
    X(tcp_unjudged, log, "the owner lets a write land whatever ballot it is under")                \
    X(tcp_done_early, log, "an owner answers for what it has received and not yet let land")       \
    X(tcp_raise_early, log, "an owner answers a raise before it is in force")                      \
    X(tcp_revives, stepped,                                                                        \
      "a flow that was denied goes on when its ballot is promised after all")                      \
    X(tcp_old_lands, log, "frames of an old connection land behind those of the new one")          \
    X(tcp_mistaken, stepped,                                                                       \
      "an answer to a closed flow counts for the one that has its number now")                     \
    X(tries_once, log, "a replica that is not connected is not tried again")                       \
    X(compare_early, log, "a leader goes on from its own copy before that is known to stand")      \
    X(lost_counts, log, "a write whose outcome is unknown counts as done")                         \
    X(lost_resumes, log, "after a loss a leader goes on behind what it sent")                      \
    X(memory_is_disk, durable, "the leader's own memory counts as its disk")                       \
    X(pledge_unawaited, durable, "a promise counts before it is on disk")                          \
    X(own_pledge_unawaited, durable,                                                               \
      "a candidate does not wait for its own promise to be on disk")                               \
    X(kept_at_submit, durable, "what is given to the disk counts as being there")                  \
    X(kept_over_reset, durable, "entries behind a state that is not on disk count")                \
    X(replay_to_commit, durable, "what was decided and not applied is replayed as if it were")     \
    X(lane_unawaited, durable, "what a disk had counts before it is in memory")                    \
    X(old_stamps_awaited, durable, "decided entries with old stamps are not kept")                 \
    X(copy_unchecked, stepped, "the promise is not looked at again when entries were copied")      \
    X(suffix_dropped, stepped, "what is kept again under a new stamp drops what follows it")       \
    X(solid_ignored, stepped, "all of a restored lane counts as of its run")                       \
    X(disk_words_unchecked, stepped, "words of a row about its disk count as they land")           \
    X(disk_blank_is_new, durable, "a disk that was exchanged counts as one of a first life")       \
    X(snap_drops_beyond, durable, "a snapshot drops what was accepted beyond it")                  \
    X(run_of_the_rest, stepped, "a restored lane is of the highest stamp that is left in it")      \
    X(below_forgets, stepped, "damage below the commit takes the commit with it")                  \
    X(commit_said_ahead, stepped, "the commit is said of what a chain has of older runs")          \
    X(says_what_is_loaded, stepped, "while a state is taken, what it has is said of the disk")     \
    X(peek_for_flow, stepped, "a promise stands if the word is right, whose memory it is in")      \
    X(replay_gives_up, durable, "what had no room is given up when it comes from the disk")        \
    X(forward_early, tree, "a leader applies and forwards before the entry is committed")          \
    X(edge_forgets, tree, "a new leader does not write again what its predecessor left")           \
    X(parent_ahead, tree,                                                                          \
      "what was taken from the parent is remembered, not derived from the log")                    \
    X(waits_for_all, tree, "a sender waits until it can reach every replica of the group")         \
    X(last_waits, tree, "the last message of a burst is committed only with the next")             \
    X(edge_old_lap, tree, "a child takes from a ring what stands there from the lap before")       \
    X(edge_unguarded, tree, "a child takes what looks like the next message of a ring")            \
    X(ring_searched, tree,                                                                         \
      "a new leader looks in its own rings for what was taken, not in the log")                    \
    X(credit_over, tree, "a sender writes one message more than there is room for")                \
    X(forward_all, tree, "a message is forwarded to children that have no destination")            \
    X(source_filter, stepped, "what a source sent twice is delivered twice")                       \
    X(replies_forgotten, tree,                                                                     \
      "a new leader does not write again the replies that its predecessor left")                   \
    X(life_missed, tree, "a leader does not see that a new process has a client's place")          \
    X(position_split, tree, "the upper bits of a position in a stream are taken for a life")       \
    X(life_believed, tree, "a client is believed in which life of its place it is")                \
    X(ack_of_another, tree, "what was taken of a client's earlier life counts for this one")       \
    X(reply_of_another, tree, "a client takes replies to its predecessor for its own")             \
    X(replies_overrun, stepped, "more is cast to a group than its ring of replies holds")          \
    X(snap_no_edges, tree, "a snapshot leaves out what children have not yet taken")               \
    X(blind_deliver, genuine, "a message that waits for stamps holds up no other")                 \
    X(ack_only, genuine, "that a group has stamped counts, which stamp it gave does not")          \
    X(clock_own, genuine, "the clock is raised by the own stamps only")                            \
    X(clock_volatile, genuine, "a snapshot leaves out what others' stamps raised the clock to")    \
    X(stamp_early, genuine, "a stamp is told before it is decided")                                \
    X(stamps_forgotten, genuine, "a new leader does not tell again what waits for others")         \
    X(relay_twice, genuine, "a relayed message is taken though it was delivered")                  \
    X(slot_stale, genuine, "a message inherits the stamps of the one before in its place")         \
    X(body_unreplicated, genuine,                                                                  \
      "a message to one group is delivered when only its leader has it")                           \
    X(backlog_waits, genuine,                                                                      \
      "a group with a full backlog applies nothing until another group has taken of it")           \
    X(tell_all, genuine, "groups that are no destinations are told of a message")                  \
    X(disk_done_early, stepped, "a batch counts as durable when it is handed over")                \
    X(disk_retried, stepped, "a flush that failed is tried again, and then succeeds")              \
    X(disk_tail_no_crc, stepped, "what was read is believed whatever its CRC says")                \
    X(disk_damage_is_tail, stepped, "the journal is cut where a batch is damaged")                 \
    X(disk_snap_unnamed, stepped, "a snapshot counts before its name is durable")                  \
    X(disk_life_early, stepped, "a life counts before it is on disk")                              \
    X(disk_no_table, stepped, "a segment does not begin with what the groups have")                \
    X(disk_old_counts, stepped, "what a segment had before it was overwritten counts")             \
    X(disk_snap_ahead, stepped, "a snapshot says a later position than it holds")                  \
    X(disk_told_early, stepped, "what was read counts before it is flushed")                       \
    X(disk_places_forgotten, stepped, "lives of clients' places begin anew with the process")      \
    X(neb_own_sig, bft, "B1: a copy counts if whoever has it has signed it, not its sender")       \
    X(neb_read_first, bft, "B2: others' rows are read before the own copy is written")             \
    X(neb_no_lap, stepped, "B3: a cell of a later lap is taken for none")                          \
    X(neb_hides_two, stepped, "B4: a row of which two memories differ has nothing")                \
    X(neb_skips_torn, stepped, "B29: a cell that is not good is taken for none")                   \
    X(neb_waits_torn, stepped, "B30: a cell that is not good is waited for")                       \
    X(bft_checked_in_place, bft, "B5: what was checked is read again from the ring")               \
    X(bft_cert_f, bft, "B17: f members make a certificate")                                        \
    X(bft_vouch_blind, stepped, "B18: who vouches for a STATE does not compare it")                \
    X(bft_late_commit, bft, "B19: a COMMIT below a promised view counts")                          \
    X(bft_join_old_state, stepped, "B20: a NEW-VIEW uses what was said in a life before a JOIN")   \
    X(bft_timeout_fixed, bft, "B24: views do not grow longer")                                     \
    X(bft_led_on, stepped, "who is ahead of f+1 others follows a liar further")                    \
    X(bft_jump_blank, bft, "B27: who jumps forgets what its sender has proposed")                  \
    X(bft_trusts_leader, bft,                                                                      \
      "B22: what a leader proposes is not compared with what clients sent")                        \
    X(bft_censored, stepped,                                                                       \
      "a leader that leaves clients out is kept as long as it orders others")                      \
    X(bft_cut_no_margin, stepped, "B6: statements that conflict are not counted")                  \
    X(bft_cut_one_round, bft, "B7: a batch is decided by ECHO of all")                             \
    X(bft_freeze_leaks, bft, "B9: who has frozen goes on")                                         \
    X(bft_cut_far, stepped, "B28: a statement may be any number of batches ahead of others")       \
    X(bft_reply_f, bft, "B21: a client believes what f members say alike")                         \
    X(bft_sig_no_domain, bft, "B11: a signature does not say what it is for")                      \
    X(group_guard_first, group, "V10: a guard is told before END")                                 \
    X(group_one_null, group, "V12: one null answers a batch of messages")                          \
    X(group_nulls_for_ever, group, "V14: nulls are answered with nulls")                           \
    X(group_old_stamps, group, "V15: what a trim left out keeps its stamps")                       \
    X(group_lost_goes_on, group, "V27: after a loss a stream goes on behind what was sent")        \
    X(group_reuse_under_reader, group,                                                             \
      "V32: a ring is written over though one who is out reads it")                                \
    X(group_trim_max, group,                                                                       \
      "V3: a view ends where the first of its members has come, not the last")                     \
    X(group_view_twice, stepped, "V5: a second view of the same number counts")                    \
    X(group_life_twice, group, "V35: a life is let into views twice")                              \
    X(group_stateless_stay, group, "V36: who has not got a cell's state yet counts as having it")  \
    X(group_leave_untrimmed, group, "V37: a cell that all leave is not trimmed")                   \
    X(group_received_after_wedge, group, "V1: RECEIVED rises after the wedge")                     \
    X(group_report_early, group, "V2: a report is made before the wedge")                          \
    X(group_trim_uncommitted, group, "V4: the leader acts on its view before the commit")          \
    X(group_life_ignored, group, "V6: a new life takes itself for the old member")                 \
    X(group_reuse_majority, group, "V7: a ring is reused when a majority has delivered")           \
    X(group_delivered_early, group, "V9: DELIVERED is told before the upcall")                     \
    X(group_record_looks, group, "V11: a record is there if it looks so")                          \
    X(group_index_at_reserve, stepped, "V13: a message has its index from when room is reserved")  \
    X(group_new_first, group, "V16: new messages go before those that a trim left out")            \
    X(group_copy_before_trim, group, "V19: a joiner's copy is of before the trim")                 \
    X(group_joiner_counts, group, "V20: who joins counts in the view that ends")                   \
    X(group_rest_forgotten, group,                                                                 \
      "D8: who has learnt a state begins without the rest of the view before")                     \
    X(group_passed_silent, group,                                                                  \
      "who has a call in its state, and passes over it, does not tell the caller")                 \
    X(group_asked_early, group, "a question of a later view is answered in an earlier one")        \
    X(group_relay_twice, group,                                                                    \
      "V26: what a client sends again through another member is delivered again")                  \
    X(group_raw_again, group,                                                                      \
      "raw cells deliver again what a trim cut off and they had delivered")                        \
    X(group_joiner_unwritten, group, "V38: a joiner counts before its copy is on its disk")        \
    X(group_restart_commit, stepped,                                                               \
      "V22: cells go on from where the last view began, not from what disks have")                 \
    X(group_restart_older, stepped, "V23: an older view than the last one is gone on from")        \
    X(group_restart_old_log, stepped, "V39: a log counts that a member has of an earlier life")    \
    X(group_persisted_early, group, "V24: PERSISTED is told before the flush is over")             \
    X(group_drop_early, group, "old segments of a log go before the state is in later ones")       \
    X(group_persisted_unheard, group, "a durable message is delivered when all have received it")  \
    X(group_tail_uncut, group, "what a log has beyond the trim is not cut when the view ends")     \
    X(group_held_unflushed, group, "what is received counts as held before it is on the disk")     \
    X(group_delivered_over_trim, group, "V29: DELIVERED rises over what the trim leaves out")      \
    X(group_before_start, group,                                                                   \
      "V31: bytes before START are reused while one is in the last view")                          \
    X(group_out_forgets_readers, group, "V33: who is put out forgets who reads its ring")          \
    X(group_part_held, group, "V17: a large message counts as held before all of it is here")      \
    X(group_old_block, group, "V18: a block of another view is taken")                             \
    X(group_next_life_early, group,                                                                \
      "V34: the lane of a new life is taken before the view is finished")                          \
    X(group_deliver_unfenced, group,                                                               \
      "V28: without a fence between GUARDs and CLOSE own messages are delivered")                  \
    X(group_wedge_unfenced, group, "GUARDs are noted before others can see CLOSE")                 \
    X(group_close_not, group, "a member that wedges does not close the view")                      \
    X(group_keepers_close, group, "the view is open until a keeper has closed it")                 \
    X(group_open_early, stepped, "a view opens before all have found its senders")                 \
    X(group_keepers_go_on, group, "V25: keepers go on deciding behind the view that names others") \
    X(group_keeper_forgets, group,                                                                 \
      "a keeper that lost its memory begins its log as if it had never had it")

enum planted {
    PLANTED_none,
#define PLANTED_ENUM_(name, protocol, text) PLANTED_##name,
    PLANTED_LIST(PLANTED_ENUM_)
#undef PLANTED_ENUM_
        PLANTED_COUNT
};

#if TRAM_PLANTED
extern enum planted planted_bug;
#define PLANTED(name) (planted_bug == PLANTED_##name)
#define PLANTED_ANY (planted_bug != PLANTED_none)
#else
#define PLANTED(name) 0
#define PLANTED_ANY 0
#endif

#endif
