/* drafter_of.h - a random EAGLE-3 drafter in memory, for any target. */
#ifndef SB_FAULT_DRAFTER_OF_H
#define SB_FAULT_DRAFTER_OF_H

#include "ref/run/eagle3_weights.h"

typedef struct sb_made_drafter {
    sb_eagle3 drafter; /* not to be closed with sb_eagle3_close */
    uint16_t *weights; /* bfloat16 */
    size_t count, room;
} sb_made_drafter;

/* kind: words out of "llama qwen3 residual norm_output fc_norm norm_before_fc"; the flags are those
 * of R-23. It has an embedding of its own, and a head of three quarters of the vocabulary. */
sb_status sb_made_drafter_new(const sb_model *target, const char *kind, uint64_t seed,
                              sb_made_drafter **out, sb_error *err);
void sb_made_drafter_free(sb_made_drafter *made);

#endif
