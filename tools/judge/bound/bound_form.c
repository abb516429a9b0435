/* bound_form.c - the gated delta rule in a program that may use either form: T-67. */
#include "tools/judge/bound/bound.h"

#include <stdlib.h>

#include "ref/base/mem.h"

/* T-67: "the smallest ball that contains the balls of both forms". The result replaces `one`. */
static void join(sb_ball *one, const sb_ball *other, size_t count)
{
    for (size_t i = 0; one && i < count; i++)
        one[i] = sb_ball_hull(one[i], other[i]);
}

sb_status sb_bound_delta_rule_any_form(const sb_knobs *knobs, const sb_delta_rule_args *a,
                                       const sb_delta_side *side)
{
    size_t outputs = a->rows * a->v_heads * a->dv, columns = a->v_heads * a->dv,
           state = columns * a->dk;
    sb_ball *balls = sb_alloc(outputs + state, sizeof *balls);
    double *column = sb_alloc(columns, sizeof *column);
    sb_status status = balls && column ? SB_OK : SB_ERR_MEMORY;
    sb_delta_side chunks = *side;
    chunks.out = balls;
    chunks.state = balls ? balls + outputs : NULL;
    chunks.column = column;
    if (!status)
        status = sb_bound_delta_rule_sides(knobs, a, side, 1);
    if (!status)
        status = sb_bound_delta_rule_chunk_side(knobs, a, &chunks);
    if (!status) {
        join(side->out, chunks.out, outputs);
        join(side->state, chunks.state, state);
    }
    for (size_t j = 0; j < columns && side->column && !status; j++)
        side->column[j] = side->column[j] > column[j] ? side->column[j] : column[j];
    free(column);
    free(balls);
    return status;
}
