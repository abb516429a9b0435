/* acceptance.h - counts of accepted drafts over all rounds of a sequence (docs/mtp.md). */
#ifndef SB_CLI_ACCEPTANCE_H
#define SB_CLI_ACCEPTANCE_H

#include <jansson.h>

#include "ref/run/round.h"

typedef struct sb_acceptance_counts {
    uint64_t rounds; /* rounds with at least one draft; the others do not test the head */
    uint64_t drafted, accepted;
    struct {
        uint64_t drafted, accepted;
    } depth[SB_MAX_DRAFTS]; /* rounds with a draft of depth 1, of depth 2, ... */
    size_t depths;          /* the largest number of drafts on a path */
} sb_acceptance_counts;

void sb_acceptance_add(sb_acceptance_counts *counts, const sb_round *round);

/* {"rounds": 13, "drafted": 24, "accepted": 18, "by_depth": [{"drafted": 13, "accepted": 11}, ...],
 * "mean_accepted": "1.3846", "mean_with_bonus": "2.3846"}; the means are null without a round. */
json_t *sb_acceptance_json(const sb_acceptance_counts *counts);

void sb_acceptance_print(const sb_acceptance_counts *counts);

#endif
