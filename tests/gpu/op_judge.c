#include "tests/gpu/op_judge.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/rng.h"
#include "ref/formats/format.h"
#include "ref/ops/values.h"
#include "tests/lib/cmocka.h"
#include "tools/judge/bound/bound.h"

/* --- running an op by its number -------------------------------------------------------------- */
sb_status op_run(const sb_op_table *table, sb_op op, const sb_knobs *knobs, const void *args)
{
    switch (op) {
#define SB_OP(name, clause)                                                                        \
    case SB_OP_##name:                                                                             \
        return table->name(knobs, args);
#include "ref/ops/ops.def"
#undef SB_OP
    default:
        return SB_ERR_USAGE;
    }
}

static const sb_op_table reference = {
#define SB_OP(name, clause) .name = sb_##name##_ref,
#include "ref/ops/ops.def"
#undef SB_OP
};

static sb_status bound(const sb_arithmetic *ar, sb_op op, const sb_knobs *knobs, const void *args,
                       sb_ball *out, sb_ball *second)
{
    switch (op) {
#define SB_OP(name, clause)                                                                        \
    case SB_OP_##name:                                                                             \
        return sb_bound_##name(ar, knobs, args, out, second);
#include "ref/ops/ops.def"
#undef SB_OP
    default:
        return SB_ERR_USAGE;
    }
}

/* --- the arrays that an op writes ------------------------------------------------------------- */
typedef struct piece {
    const char *name;
    float *at, *before, *wanted; /* in the arguments; copies */
    uint32_t *ids, *wanted_ids;
    sb_ball *balls, *own; /* allowed to the engine, and to the reference */
    size_t count;
} piece;

enum { PIECES = SB_OP_OUTPUTS + 1 };

static void *room(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size);
    assert_non_null(p);
    return p;
}

static piece piece_of(const sb_op_value *v)
{
    size_t n = v->rows * v->cols;
    piece p = {.name = v->name, .at = v->data, .ids = v->ids, .count = n};
    p.before = room(n, sizeof *p.before);
    p.wanted = room(n, sizeof *p.wanted);
    p.wanted_ids = room(n, sizeof *p.wanted_ids);
    p.balls = room(n, sizeof *p.balls);
    p.own = room(n, sizeof *p.own);
    if (p.at)
        memcpy(p.before, p.at, n * sizeof *p.before);
    return p;
}

static size_t gather(sb_op op, const void *args, piece *out)
{
    sb_op_values v = sb_op_values_of(op, args);
    size_t n = 0;
    for (size_t i = 0; i < v.outputs; i++)
        if (v.out[i].data)
            out[n++] = piece_of(&v.out[i]);
    if (v.state.data)
        out[n++] = piece_of(&v.state);
    for (size_t i = 0; i < v.outputs; i++)
        if (v.out[i].ids)
            out[n++] = piece_of(&v.out[i]);
    return n;
}

/* Keeps the results of the reference, and restores the arrays. */
static void keep(piece *p)
{
    if (p->ids) {
        memcpy(p->wanted_ids, p->ids, p->count * sizeof *p->ids);
        memset(p->ids, 0xff, p->count * sizeof *p->ids);
        return;
    }
    memcpy(p->wanted, p->at, p->count * sizeof *p->at);
    memcpy(p->at, p->before, p->count * sizeof *p->at);
}

static void drop(piece *p)
{
    free(p->before);
    free(p->wanted);
    free(p->wanted_ids);
    free(p->balls);
    free(p->own);
}

/* The states after each row, if the caller wants them. */
static float *trail_of(sb_op op, const void *args, size_t *rows)
{
    const sb_conv_args *conv = args;
    const sb_delta_rule_args *delta = args;
    *rows = op == SB_OP_conv ? conv->rows : delta->rows;
    return op == SB_OP_conv                                         ? conv->trail
           : op == SB_OP_delta_rule || op == SB_OP_delta_rule_chunk ? delta->trail
                                                                    : NULL;
}

/* --- the comparison --------------------------------------------------------------------------- */
static void note(op_judged *out, const piece *p, size_t i, double radius)
{
    if (out->first[0])
        return;
    if (p->ids)
        snprintf(out->first, sizeof out->first, "%s, element %zu: %u, not %u", p->name, i,
                 (unsigned)p->ids[i], (unsigned)p->wanted_ids[i]);
    else
        snprintf(out->first, sizeof out->first, "%s, element %zu: %a (%.9g), not %a (%.9g) +- %.3g",
                 p->name, i, (double)p->at[i], (double)p->at[i], (double)p->wanted[i],
                 (double)p->wanted[i], radius);
}

static void judge_element(const piece *p, size_t i, int exact, op_judged *out)
{
    out->elements++;
    if (p->ids) {
        int wrong = p->ids[i] != p->wanted_ids[i];
        if (wrong)
            note(out, p, i, 0);
        out->differ += (size_t)wrong;
        out->outside += (size_t)wrong;
        return;
    }
    float x = p->at[i], y = p->wanted[i];
    int same = sb_bits_f32(x) == sb_bits_f32(y) || (isnan(x) && isnan(y));
    out->differ += !same;
    if (exact && !same)
        note(out, p, i, 0);
    if (exact || same)
        return;
    double radius = SB_BOUND_SLACK * sb_ball_distance(p->balls[i], p->own[i]);
    double error = fabs((double)x - (double)y);
    if (!(error <= radius)) {
        note(out, p, i, radius);
        out->outside++;
    } else if (radius > 0) {
        out->worst = fmax(out->worst, error / radius);
    }
}

/* The last state of the trail must equal the state, bit for bit. */
static void judge_trail(const float *last, const piece *state, op_judged *out)
{
    size_t wrong = 0;
    for (size_t i = 0; i < state->count; i++)
        wrong += sb_bits_f32(last[i]) != sb_bits_f32(state->at[i]);
    if (wrong && !out->first[0])
        snprintf(out->first, sizeof out->first, "%zu values of the trail are not the state's",
                 wrong);
    out->differ += wrong;
    out->outside += wrong;
}

/* The arithmetic of the kernels: sums in any order on the bf16 unit, functions as in the
 * reference. */
static const sb_arithmetic *own_arithmetic(void)
{
    static sb_arithmetic own;
    const sb_arithmetic *engine = sb_arithmetic_of("sm120_f16");
    assert_non_null(engine);
    own = *engine;
    own.functions = &sb_functions_table[SB_FUNCTIONS_exact];
    return &own;
}

static void bound_all(sb_op op, const void *args, const sb_knobs *knobs, piece *p, size_t n)
{
    int two = n > 1 && !p[1].ids;
    assert_int_equal(bound(own_arithmetic(), op, knobs, args, p[0].balls, two ? p[1].balls : NULL),
                     SB_OK);
    assert_int_equal(
        bound(&sb_arithmetic_reference, op, knobs, args, p[0].own, two ? p[1].own : NULL), SB_OK);
}

sb_status op_judge(const sb_op_table *table, sb_op op, const void *args, const sb_knobs *knobs,
                   int exact, op_judged *out)
{
    piece pieces[PIECES];
    size_t n = gather(op, args, pieces);
    if (!exact && op != SB_OP_router)
        bound_all(op, args, knobs, pieces, n);
    assert_int_equal(op_run(&reference, op, knobs, args), SB_OK);
    if (!exact && op == SB_OP_router) /* the bounds of the chosen experts */
        bound_all(op, args, knobs, pieces, n);
    for (size_t i = 0; i < n; i++)
        keep(&pieces[i]);
    const piece *state = &pieces[n - 1];
    size_t rows;
    float *trail = trail_of(op, args, &rows);
    if (trail)
        memset(trail, 0xff, rows * state->count * sizeof *trail);
    sb_status status = op_run(table, op, knobs, args);
    if (trail && !status)
        judge_trail(trail + (rows - 1) * state->count, state, out);
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < pieces[i].count && !status; k++)
            judge_element(&pieces[i], k, exact, out);
        drop(&pieces[i]);
    }
    return status;
}

/* --- the arrays that an op reads -------------------------------------------------------------- */
void op_draw(const char *name, uint64_t seed, float scale, size_t count, float *out)
{
    uint64_t key = sb_rng_key(seed, name);
    for (size_t i = 0; i < count; i++)
        out[i] = sb_round_to(SB_FORMAT_bf16, scale * sb_rng_normal(key, i));
}

sb_matrix op_matrix(const char *name, uint64_t seed, float scale, sb_format format, uint32_t rows,
                    uint32_t cols)
{
    size_t count = (size_t)rows * cols;
    float *values = room(count, sizeof *values);
    unsigned char *bytes = room(count, sb_format_bytes(format));
    op_draw(name, seed, scale, count, values);
    sb_encode(format, values, count, bytes);
    free(values);
    return (sb_matrix){.data = bytes, .format = format, .rows = rows, .cols = cols};
}
