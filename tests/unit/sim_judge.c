#include "tests/unit/sim_judge.h"

#include "tests/lib/cmocka.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/ops/values.h"
#include "tools/judge/bound/bound.h"

static sb_status bound(const sb_arithmetic *ar, const sb_op_call *call, sb_ball *out,
                       sb_ball *second)
{
    switch (call->op) {
#define SB_OP(name, clause)                                                                        \
    case SB_OP_##name:                                                                             \
        return sb_bound_##name(ar, call->knobs, call->args, out, second);
#include "ref/ops/ops.def"
#undef SB_OP
    default:
        return SB_ERR_USAGE;
    }
}

/* One array that an op writes: an output (at most two) or the state. */
typedef struct piece {
    float *at, *before, *of_ref; /* in the arguments; copies */
    sb_ball *balls;              /* NULL: not bounded */
    size_t count;
} piece;

enum { PIECES = 4 };

static size_t gather(const sb_op_call *call, piece *out)
{
    sb_op_values v = sb_op_values_of(call->op, call->args);
    size_t n = 0;
    for (size_t i = 0; i < v.outputs; i++)
        if (v.out[i].data) /* the router: only the weights */
            out[n++] = (piece){.at = v.out[i].data, .count = v.out[i].rows * v.out[i].cols};
    if (v.state.data)
        out[n++] = (piece){.at = v.state.data, .count = v.state.rows * v.state.cols};
    for (size_t i = 0; i < n; i++) {
        out[i].before = malloc(2 * out[i].count * sizeof(float));
        assert_non_null(out[i].before);
        out[i].of_ref = out[i].before + out[i].count;
        memcpy(out[i].before, out[i].at, out[i].count * sizeof(float));
        out[i].balls = calloc(out[i].count, sizeof(sb_ball));
    }
    return n;
}

/* Runs the reference on the same arguments, then restores the arrays. */
static void run_reference(const sb_op_call *call, piece *pieces, size_t n)
{
    sb_op_call other = *call;
    other.table = &sb_backend_ref()->ops;
    assert_int_equal(sb_op_run(&other), SB_OK);
    for (size_t i = 0; i < n; i++) {
        memcpy(pieces[i].of_ref, pieces[i].at, pieces[i].count * sizeof(float));
        memcpy(pieces[i].at, pieces[i].before, pieces[i].count * sizeof(float));
    }
}

static void judge_piece(sim_judge *j, const sb_op_call *call, const piece *p)
{
    sim_op_count *count = &j->ops[call->op];
    for (size_t i = 0; i < p->count; i++) {
        count->elements++;
        count->differ += sb_bits_f32(p->at[i]) != sb_bits_f32(p->of_ref[i]);
        const sb_ball *b = &p->balls[i];
        double error = fabs((double)p->at[i] - b->mid), radius = SB_BOUND_SLACK * b->rad;
        if (b->rad > 0 && error > 0)
            count->worst = fmax(count->worst, error / radius);
        if (error <= radius)
            continue;
        if (!count->outside++ && !j->first[0])
            snprintf(j->first, sizeof j->first,
                     "%s of layer %u, position %u, element %zu: %.9g, %.9g +- %.3g", call->name,
                     (unsigned)call->layer, (unsigned)call->position, i, (double)p->at[i], b->mid,
                     radius);
    }
}

/* A layer of each kind, the MTP layer, and calls outside of layers. The other layers are like
 * these. */
static int is_judged(const sb_op_call *call)
{
    return call->layer == 0 || call->layer == 3 || call->layer > 7 || call->layer == SB_NO_LAYER;
}

sb_status sim_judge_op(void *ctx, const sb_op_call *call)
{
    sim_judge *j = ctx;
    if (!is_judged(call))
        return sb_op_run(call);
    piece pieces[PIECES] = {{0}};
    size_t n = gather(call, pieces);
    j->ops[call->op].calls++;
    j->ops[call->op].inherited += sb_sim_inherits(j->sim, call->op, call->knobs) != 0;
    if (call->op != SB_OP_router) /* the bound of the router needs the ids, which the call writes */
        assert_int_equal(bound(j->arithmetic, call, pieces[0].balls, pieces[1].balls), SB_OK);
    run_reference(call, pieces, n);
    sb_status status = sb_op_run(call);
    assert_int_equal(status, SB_OK);
    if (call->op == SB_OP_router)
        assert_int_equal(bound(j->arithmetic, call, pieces[0].balls, NULL), SB_OK);
    for (size_t i = 0; i < n; i++) {
        judge_piece(j, call, &pieces[i]);
        free(pieces[i].before);
        free(pieces[i].balls);
    }
    return status;
}
