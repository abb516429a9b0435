/* forced_later.c - calls of one row that fill an array together (experts). When the array is
 * complete, the balls of all calls with the same matrix are computed together, so that the matrix
 * is decoded once. */
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "tools/judge/compare/forced_twin.h"

struct forced_later {
    sb_op_call call;
    sb_linear_args args;
    sb_ball *balls[4]; /* NULL: not computed yet */
};

void forced_drop_later(sb_forced *f)
{
    for (size_t i = 0; i < f->later_count; i++)
        for (size_t j = 0; j < 4; j++)
            free(f->later[i].balls[j]);
    f->later_count = 0;
}

sb_status forced_put_later(sb_forced *f, const sb_op_call *call)
{
    struct forced_later *more = sb_grow(f->later, f->later_count, &f->later_room, sizeof *more);
    if (!more)
        return SB_ERR_MEMORY;
    f->later = more;
    struct forced_later *last = &f->later[f->later_count++];
    *last = (struct forced_later){.call = *call, .args = *(const sb_linear_args *)call->args};
    if (!forced_twin_acts(f, call))
        return SB_OK;
    for (size_t i = 0; i < 4; i += 2) {
        last->balls[i] = sb_alloc(last->args.weight->rows, sizeof **last->balls);
        if (!last->balls[i])
            return SB_ERR_MEMORY;
    }
    return forced_twin_balls(f, call, last->balls);
}

int forced_joins_later(const sb_forced *f, const sb_op_call *call)
{
    const sb_op_call *last = f->later_count ? &f->later[f->later_count - 1].call : NULL;
    return last && call->single && call->name == last->name && call->layer == last->layer;
}

/* Lists the calls with the same matrix as call number `first`; returns their count. */
static size_t alike(const sb_forced *f, size_t first, size_t *which)
{
    const sb_linear_args *a = &f->later[first].args;
    size_t count = 0;
    for (size_t i = first; i < f->later_count; i++)
        if (!f->later[i].balls[0] && f->later[i].args.weight == a->weight &&
            f->later[i].args.kind == a->kind)
            which[count++] = i;
    return count;
}

static sb_status hand_out(struct forced_later *later, const sb_ball *ours, const sb_ball *theirs)
{
    const sb_ball *const from[2] = {ours, theirs};
    size_t n = later->args.weight->rows;
    for (size_t side = 0; side < 2; side++) {
        sb_ball *balls = sb_alloc(n, sizeof *balls);
        if (!balls)
            return SB_ERR_MEMORY;
        memcpy(balls, from[side], n * sizeof *balls);
        later->balls[2 * side] = balls;
    }
    return SB_OK;
}

/* Computes the balls of several calls together. Each output is a sum over one row of inputs, and
 * inputs are quantized row by row. So the balls do not depend on whether calls are computed
 * together. */
static sb_status bound_alike(sb_forced *f, const size_t *which, size_t count)
{
    sb_linear_args a = f->later[which[0]].args;
    size_t n = a.weight->rows, k = a.weight->cols;
    float *in = sb_alloc(count * k, sizeof *in);
    sb_ball *balls = sb_alloc(2 * count * n, sizeof *balls);
    sb_status status = in && balls ? SB_OK : SB_ERR_MEMORY;
    for (size_t i = 0; i < count && !status; i++)
        memcpy(in + i * k, f->later[which[i]].args.in, k * sizeof *in);
    a.in = in;
    a.rows = count;
    const sb_bound_side sides[2] = {
        {.ar = &sb_arithmetic_reference, .out = balls},
        {.ar = f->options.arithmetic, .out = balls ? balls + count * n : NULL}};
    if (!status)
        status = sb_bound_linear_sides(f->later[which[0]].call.knobs, &a, sides, 2);
    for (size_t i = 0; i < count && !status; i++)
        status = hand_out(&f->later[which[i]], balls + i * n, balls + (count + i) * n);
    free(in);
    free(balls);
    return status;
}

sb_status forced_do_later(sb_forced *f)
{
    size_t *which = f->later_count ? sb_alloc(f->later_count, sizeof *which) : NULL;
    sb_status status = f->later_count && !which ? SB_ERR_MEMORY : SB_OK;
    for (size_t i = 0; i < f->later_count && !status; i++)
        if (!f->later[i].balls[0])
            status = bound_alike(f, which, alike(f, i, which));
    for (size_t i = 0; i < f->later_count && !status; i++) {
        struct forced_later *later = &f->later[i];
        later->call.args = &later->args;
        status = forced_made(f, &later->call, later->balls, 0);
        memset(later->balls, 0, sizeof later->balls); /* forced_made has taken them over */
    }
    forced_drop_later(f);
    free(which);
    return status;
}
