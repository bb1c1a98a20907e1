/* Planted bugs: known mistakes that tests switch on to see that the checkers catch them.
 *
 * In every build but the test one, PLANTED(x) is the constant 0 and the mistake is not in the object
 * code. The test build (TRAM_PLANTED=1, program tram-planted) has one of them switched on at a time.
 *
 * A mistake that takes more than a line is a function in the planted.c of its folder, so that the code that it is planted
 * in reads as it runs. What is switched on is a number, not a mask: there may be any number of them. */
#ifndef BASE_PLANTED_H
#define BASE_PLANTED_H

/* name, where it comes from in the papers' gaps, the protocol whose simulation must catch it, what the
 * mistake is. What needs a coincidence that no drawn seed brings about is "stepped": a schedule stepped by hand
 * (tests/log_schedules*.c, tests/tree_schedules*.c) must catch it. */
#define PLANTED_LIST(X)                                                                            \
    X(late_stale, "T1", log,                                                                       \
      "a late follower keeps its old suffix instead of being resynchronised")                      \
    X(skip_first, "T2", log,                                                                       \
      "the first entry recovered in a take-over is not applied by the leader")                     \
    X(failed_cursor, "T3", log, "entries repaired in a failed take-over count as applied")         \
    X(own_not_fenced, "T4", log, "a candidate reads its own memory before that has promised")      \
    X(no_self_ack, "T5", log, "a candidate does not count itself")                                 \
    X(lost_request, "T6", log, "a candidate waits for ever for answers that were lost")            \
    X(one_ballot, "T7", log,                                                                       \
      "entries are stamped with the promise of the moment, not the own ballot")                    \
    X(cursor_ahead, "T8", log,                                                                     \
      "what was taken from a source is remembered, not derived from the log")                      \
    X(nonzero_present, "T12", log, "an entry is present if its bytes look like one")               \
    X(read_ungranted, "T14", log, "recovery reads replicas that have not promised")                \
    X(self_unchecked, "T15", log, "the leader's own copy counts whoever it has promised since")    \
    X(no_fence, "FW1", log, "the permission is judged before the write has landed")                \
    X(quorum_f, "F3", log, "a commit needs one copy too few")                                      \
    X(commit_beyond, "F4", log, "a follower is told the commit index beyond what it holds")        \
    X(no_filter, "F2", log, "an entry is applied though its source position was taken before")     \
    X(no_restamp, "F2", log, "recovered entries keep their old ballots")                           \
    X(amnesia_votes, "F8", log, "a replica that lost its memory promises at once")                 \
    X(early_serve, "F2", log, "a leader serves before its start marker is committed")              \
    X(overrun, "F6", log, "a log position is reused before every attached replica has applied it") \
    X(hung_again, "F6", log, "a replica that was detached is written to again while it hangs")     \
    X(snap_no_sources, "F8", log, "a snapshot leaves out what was taken from the sources")         \
    X(backlog_gap, "S1", log, "an entry decided while a state was sent is left out behind it")     \
    X(load_late, "S2", log, "entries behind a state are applied before the state is in use")       \
    X(hold_none, "S3", log, "the log is not held while a replica goes over to its lane")           \
    X(busy_unheard, "S4", log, "a leader that said it would be busy is deposed for it")            \
    X(resume_behind, "S5", log, "after a loss a transfer goes on behind what it sent")             \
    X(retract_decided, "P2", stepped, "a leader that comes back erases what it had decided")       \
    X(past_promises, "A1", stepped, "promises of a past life of a replica count")                  \
    X(counts_unlive, "A2", stepped, "copies of a replica that takes no writes any more count")     \
    X(run_before_guard, "A3", stepped, "a run is continued with RUN before GUARD")                 \
    X(guard_stays, "A4", stepped, "a run is continued and its GUARD is not taken back")            \
    X(reuse_alone, "A5", stepped, "a position is used again though no quorum has applied it")      \
    X(lane_unchecked, "A6", stepped, "a lane may change while recovery reads it")                  \
    X(overrun_unseen, "A7", stepped, "a lane may be overrun while it is read")                     \
    X(start_unchecked, "A8", stepped, "a follower reads a run that begins beyond what it has")     \
    X(run_unchecked, "A9", stepped, "a follower reads a lane whatever run is in it")               \
    X(mid_entry, "A10", stepped, "recovery reads from where no entry may begin")                   \
    X(unverified, "A11", stepped, "a promise is not looked at again after its memory was read")    \
    X(start_vouches, "P3", stepped, "where a run begins tells which run decided what is before")   \
    X(renewal_vouches, "P4", stepped,                                                              \
      "a renewed run vouches for what its owner applied from another leader")                      \
    X(run_read_once, "P5", stepped, "the run of a lane is not read again after its other words")   \
    X(raise_untold, "O1", log, "a raise is answered before those who write there were told of it") \
    X(tries_once, "O2", log, "a replica that is not connected is not tried again")                 \
    X(compare_early, "O3", log,                                                                    \
      "a leader goes on from its own copy before that is known to stand")                          \
    X(lost_counts, "O4", log, "a write whose outcome is unknown counts as done")                   \
    X(lost_resumes, "O5", log, "after a loss a leader goes on behind what it sent")                \
    X(forward_early, "F5", tree, "a leader applies and forwards before the entry is committed")    \
    X(edge_forgets, "T3", tree, "a new leader does not write again what its predecessor left")     \
    X(parent_ahead, "T8", tree,                                                                    \
      "what was taken from the parent is remembered, not derived from the log")                    \
    X(waits_for_all, "T9", tree, "a sender waits until it can reach every replica of the group")   \
    X(last_waits, "T10", tree, "the last message of a burst is committed only with the next")      \
    X(edge_old_lap, "T11", tree,                                                                   \
      "a child takes from a ring what stands there from the lap before")                           \
    X(edge_unguarded, "T12", tree, "a child takes what looks like the next message of a ring")     \
    X(ring_searched, "T13", tree,                                                                  \
      "a new leader looks in its own rings for what was taken, not in the log")                    \
    X(credit_over, "F5", tree, "a sender writes one message more than there is room for")          \
    X(forward_all, "F5", tree, "a message is forwarded to children that have no destination")      \
    X(source_filter, "F2", stepped, "what a source sent twice is delivered twice")                 \
    X(replies_forgotten, "F7", tree,                                                               \
      "a new leader does not write again the replies that its predecessor left")                   \
    X(life_missed, "2.5", tree, "a leader does not see that a new process has a client's place")   \
    X(position_split, "L1", tree, "the upper bits of a position in a stream are taken for a life") \
    X(life_believed, "L2", tree, "a client is believed in which life of its place it is")          \
    X(ack_of_another, "L3", tree, "what was taken of a client's earlier life counts for this one") \
    X(reply_of_another, "L4", tree, "a client takes replies to its predecessor for its own")       \
    X(snap_no_edges, "F8", tree, "a snapshot leaves out what children have not yet taken")         \
    X(blind_deliver, "R1", genuine, "a message that waits for stamps holds up no other")           \
    X(ack_only, "R2", genuine, "that a group has stamped counts, which stamp it gave does not")    \
    X(clock_own, "R3", genuine, "the clock is raised by the own stamps only")                      \
    X(clock_volatile, "R5", genuine,                                                               \
      "a snapshot leaves out what others' stamps raised the clock to")                             \
    X(stamp_early, "R6", genuine, "a stamp is told before it is decided")                          \
    X(stamps_forgotten, "R7", genuine, "a new leader does not tell again what waits for others")   \
    X(relay_twice, "R10", genuine, "a relayed message is taken though it was delivered")           \
    X(slot_stale, "R11", genuine, "a message inherits the stamps of the one before in its place")  \
    X(body_unreplicated, "R12", genuine,                                                           \
      "a message to one group is delivered when only its leader has it")                           \
    X(backlog_waits, "L5", genuine,                                                                \
      "a group with a full backlog applies nothing until another group has taken of it")           \
    X(tell_all, "genuine", genuine, "groups that are no destinations are told of a message")

enum planted {
    PLANTED_none,
#define PLANTED_ENUM_(name, tag, protocol, text) PLANTED_##name,
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
