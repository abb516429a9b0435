/* diff_propose.h - prompts that reach what a comparison did not reach (coverage.h). */
#ifndef SB_CLI_DIFF_PROPOSE_H
#define SB_CLI_DIFF_PROPOSE_H

#include <jansson.h>
#include <stdio.h>

#include "ref/run/model.h"
#include "tools/cli/tokens.h"
#include "tools/judge/compare/coverage.h"

enum { SB_PROPOSALS = 16, SB_PROPOSED_WORDS = 240 };

typedef struct sb_proposals {
    sb_sequence prompt[SB_PROPOSALS];
    char adds[SB_PROPOSALS][SB_PROPOSED_WORDS]; /* "softplus beyond 20, 5 experts" */
    size_t count, tried;
    char missing[SB_PROPOSED_WORDS]; /* what no tried prompt reached; "" if nothing */
} sb_proposals;

/* Runs the reference on up to 48 random prompts (seed) and keeps those that reach something new. No
 * prompt alone reaches a count of accepted drafts. */
sb_status sb_propose(const sb_model *model, const sb_knobs *knobs, const sb_coverage *have,
                     uint64_t seed, sb_proposals *out, sb_error *err);
void sb_proposals_free(sb_proposals *proposals);

/* As lines that --tokens-file reads; as [{"tokens": [...], "adds": "..."}]. */
void sb_proposals_print(const sb_proposals *proposals, FILE *out);
json_t *sb_proposals_json(const sb_proposals *proposals);

#endif
