/* Schedules of groups whose replicas come back from disks that have what a schedule says; see log_schedules.h. */
#ifndef TESTS_LOG_SCHEDULES_DISKS_H
#define TESTS_LOG_SCHEDULES_DISKS_H

#include <stdbool.h>
#include <stdint.h>

const char *kept_again_in_part(void);
const char *gap_closed_in_part(void);
const char *rest_of_an_older_run(uint64_t seed);
const char *commit_of_a_later_ballot(void);
const char *decided_and_damaged(void);
const char *all_come_back(bool twice);
const char *raised_while_it_copies(void);
const char *commit_beyond_what_was_copied(void);
const char *torn_words_of_a_disk(void);
const char *restored_under_its_ballot(void);
const char *hung_disk(bool leads);
const char *full_disk(bool leads);
const char *full_disks_of_all(void);
const char *state_not_on_disk(void);
const char *nothing_before_start_is_kept(void);
const char *raised_while_it_loads(bool loaded);
const char *two_flushes_without_a_leader(void);
const char *rings_who_keeps(void);

#endif
