/* sampler_balls.h - the tokens that a sampler may keep, their probabilities, and the tokens that it
 * may draw. */
#ifndef SB_GATE_SAMPLER_BALLS_H
#define SB_GATE_SAMPLER_BALLS_H

#include <stddef.h>
#include <stdint.h>

#include "ref/run/sample.h"
#include "tools/judge/bound/ball.h"

typedef enum sb_gate_fate { SB_GATE_CUT, SB_GATE_MAY_STAY, SB_GATE_STAYS } sb_gate_fate;

/* One row of V tokens. */
typedef struct sb_gate_row {
    sb_sampling settings;
    const float *logits, *uniform; /* (V); u of P-9 */
    uint32_t n;
    const uint32_t *order; /* (V) of P-2 */
} sb_gate_row;

/* V-57: fate and p (V). */
void sb_gate_sampler_balls(const sb_arithmetic *ar, const sb_gate_row *row, sb_gate_fate *fate,
                           sb_ball *p);

/* V-58: true if `token` may have the largest score. */
int sb_gate_may_draw(const sb_arithmetic *ar, const sb_gate_row *row, const sb_gate_fate *fate,
                     const sb_ball *p, uint32_t token);

#endif
