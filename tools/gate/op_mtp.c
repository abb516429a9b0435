/* op_mtp.c - what stands in front of the one layer of the MTP head: two norms, side by side, and a
 * linear layer. */
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "tools/compare/bound.h"
#include "tools/gate/weights.h"
#include "tools/gate/whole.h"

static const float eps = 1e-6f;

enum { ROWS, N };
enum { HALVES = 2 };

static const sb_gate_param params[] = {
    {"rows", 3, 1, 4096, "tokens"},
    {"n", 64, 1, 16384, "hidden size, H"},
};

static const char *const shapes[] = {"rows=1",      "rows=1,n=1",   "rows=9,n=63", "rows=2,n=65",
                                     "rows=5,n=96", "rows=2,n=256", NULL};

static const sb_op uses[] = {SB_OP_rmsnorm, SB_OP_linear};

/* The embedding half first, as everywhere below. */
static const char *const half[HALVES] = {"embedding", "hidden"};
static const char *const norm_weight[HALVES] = {"pre_fc_norm_embedding", "pre_fc_norm_hidden"};

typedef struct shape {
    size_t rows, n, count;
} shape;

static shape shape_of(const sb_gate_case *c)
{
    return (shape){.rows = c->size[ROWS], .n = c->size[N], .count = c->size[ROWS] * c->size[N]};
}

static sb_status expect(sb_gate_case *c)
{
    const uint64_t out[] = {c->size[ROWS], c->size[N]};
    return sb_gate_expect(c, "", SB_GATE_VALUES, "row,column", 2, out);
}

/* Where values say their column, those of the hidden half count from behind: a factor would not
 * tell it from the embedding, norms take it out. */
static void turn_round(float *x, size_t rows, size_t n)
{
    for (float *row = x; row < x + rows * n; row += n)
        for (size_t i = 0; i < n / 2; i++) {
            float other = row[i];
            row[i] = row[n - 1 - i];
            row[n - 1 - i] = other;
        }
}

static sb_status make(sb_gate_case *c, sb_error *err)
{
    (void)err;
    const shape s = shape_of(c);
    const uint64_t rows[] = {s.rows, s.n}, one[] = {s.n}, fc[] = {s.n, HALVES * s.n};
    float *x = sb_alloc(s.count + (HALVES * s.n + 1) * s.n, sizeof *x);
    if (!x)
        return SB_ERR_MEMORY;
    float *w = x + s.count, *fc_values = w + s.n;
    sb_status status = SB_OK;
    for (size_t i = 0; i < HALVES && !status; i++) {
        sb_gate_draw(c, half[i], SB_GATE_ACTIVATION, s.rows, s.n, x);
        sb_gate_draw(c, norm_weight[i], SB_GATE_NORM_WEIGHT, 1, s.n, w);
        if (i && c->regime == SB_GATE_REGIME_index) {
            turn_round(x, s.rows, s.n);
            turn_round(w, 1, s.n);
        }
        status = sb_gate_add_values(c, half[i], "row,column", 2, rows, x);
        if (!status)
            status = sb_gate_add_values(c, norm_weight[i], "column", 1, one, w);
    }
    sb_gate_draw(c, "fc", SB_GATE_WEIGHT, s.n, HALVES * s.n, fc_values);
    for (size_t i = 0; i < s.n * HALVES * s.n && c->regime == SB_GATE_REGIME_index; i++)
        fc_values[i] *= i / s.n % HALVES ? 2.0f : 1.0f; /* codes repeat after 64 columns */
    if (!status)
        status = sb_gate_add_values(c, "fc", "column,input", 2, fc, fc_values);
    free(x);
    return status ? status : expect(c);
}

static sb_status declare(sb_gate_case *c, sb_error *err)
{
    const shape s = shape_of(c);
    const uint64_t rows[] = {s.rows, s.n}, one[] = {s.n}, fc[] = {s.n, HALVES * s.n};
    sb_status status = sb_gate_need(c, "fc", 2, fc, err);
    for (size_t i = 0; i < HALVES && !status; i++) {
        status = sb_gate_need(c, half[i], 2, rows, err);
        if (!status)
            status = sb_gate_need(c, norm_weight[i], 1, one, err);
        if (!status)
            status = sb_gate_need_finite(c, half[i], s.count, err);
        if (!status)
            status = sb_gate_need_finite(c, norm_weight[i], s.n, err);
    }
    if (!status)
        status = sb_gate_need_finite(c, "fc", s.n * HALVES * s.n, err);
    return status ? status : expect(c);
}

/* "the embedding half first": row t of what fc reads, of values of any size. */
static void join(const void *const part[HALVES], const shape *s, size_t size, void *out)
{
    char *to = out;
    for (size_t t = 0; t < s->rows; t++)
        for (size_t i = 0; i < HALVES; i++, to += s->n * size)
            memcpy(to, (const char *)part[i] + t * s->n * size, s->n * size);
}

static sb_rmsnorm_args norm_of(const shape *s, const sb_matrix *weight, const float *in, float *out)
{
    return (sb_rmsnorm_args){
        .in = in, .weight = weight, .eps = eps, .rows = s->rows, .n = s->n, .out = out};
}

/* V-59: "u = linear( [ rmsnorm(embedding) ; rmsnorm(hidden) ], fc )" */
static sb_status exact(const sb_gate_case *c, const sb_knobs *knobs, const sb_op_table *ops,
                       float *const out[])
{
    const shape s = shape_of(c);
    const sb_matrix fc = sb_gate_matrix(c, "fc", (uint32_t)s.n, (uint32_t)(HALVES * s.n));
    float *normed = sb_alloc(s.count, 2 * HALVES * sizeof *normed);
    if (!normed)
        return SB_ERR_MEMORY;
    const void *const part[HALVES] = {normed, normed + s.count};
    float *joined = normed + HALVES * s.count;
    sb_status status = SB_OK;
    for (size_t i = 0; i < HALVES && !status; i++) {
        const sb_matrix weight = sb_gate_matrix(c, norm_weight[i], 1, (uint32_t)s.n);
        float *x = sb_gate_values(c, half[i]);
        const sb_rmsnorm_args norm = norm_of(&s, &weight, x, normed + i * s.count);
        status = x ? ops->rmsnorm(knobs, &norm) : SB_ERR_MEMORY;
        free(x);
    }
    join(part, &s, sizeof *joined, joined);
    const sb_linear_args linear = {
        .weight = &fc, .kind = SB_LINEAR_layer, .in = joined, .rows = s.rows, .out = out[0]};
    if (!status)
        status = ops->linear(knobs, &linear);
    free(normed);
    return status;
}

/* x rsqrt( mean of the squares + eps ) (1 + w), rows of one half. */
static void norm(const shape *s, const float *x, const float *weight, sb_dd *out)
{
    for (size_t t = 0; t < s->rows; t++, x += s->n, out += s->n) {
        sb_dd squares = sb_dd_of(0.0);
        for (size_t i = 0; i < s->n; i++)
            squares = sb_dd_fma(squares, sb_dd_of((double)x[i]), sb_dd_of((double)x[i]));
        sb_dd mean = sb_dd_div(squares, sb_dd_of((double)s->n));
        sb_dd root = sb_dd_sqrt(sb_dd_add(mean, sb_dd_of((double)eps)));
        for (size_t i = 0; i < s->n; i++) {
            sb_dd factor = sb_dd_add(sb_dd_of(1.0), sb_dd_of((double)weight[i]));
            out[i] = sb_dd_div(sb_dd_mul(sb_dd_of((double)x[i]), factor), root);
        }
    }
}

static sb_status real(const sb_gate_case *c, sb_dd *const out[])
{
    const shape s = shape_of(c);
    const size_t k = HALVES * s.n;
    sb_dd *normed = sb_alloc(s.count, 2 * HALVES * sizeof *normed);
    float *fc = sb_gate_values(c, "fc");
    sb_status status = normed && fc ? SB_OK : SB_ERR_MEMORY;
    for (size_t i = 0; i < HALVES && !status; i++) {
        float *x = sb_gate_values(c, half[i]), *w = sb_gate_values(c, norm_weight[i]);
        if (x && w)
            norm(&s, x, w, normed + i * s.count);
        else
            status = SB_ERR_MEMORY;
        free(x);
        free(w);
    }
    if (!status) {
        const void *const part[HALVES] = {normed, normed + s.count};
        sb_dd *joined = normed + HALVES * s.count;
        join(part, &s, sizeof *joined, joined);
        for (size_t i = 0; i < s.count; i++) {
            sb_dd sum = sb_dd_of(0.0);
            for (size_t j = 0; j < k; j++)
                sum =
                    sb_dd_fma(sum, joined[i / s.n * k + j], sb_dd_of((double)fc[i % s.n * k + j]));
            out[0][i] = sum;
        }
    }
    free(normed);
    free(fc);
    return status;
}

/* The balls of what fc reads; `normed` and `joined` have 2 T H. */
static sb_status norms(const sb_gate_case *c, const sb_arithmetic *ar, const sb_knobs *knobs,
                       sb_ball *normed, sb_ball *joined)
{
    const shape s = shape_of(c);
    const void *const part[HALVES] = {normed, normed + s.count};
    sb_status status = SB_OK;
    for (size_t i = 0; i < HALVES && !status; i++) {
        const sb_matrix weight = sb_gate_matrix(c, norm_weight[i], 1, (uint32_t)s.n);
        float *x = sb_gate_values(c, half[i]);
        const sb_rmsnorm_args args = norm_of(&s, &weight, x, NULL);
        status = x ? sb_bound_rmsnorm(ar, knobs, &args, normed + i * s.count, NULL) : SB_ERR_MEMORY;
        free(x);
    }
    if (!status)
        join(part, &s, sizeof *joined, joined);
    return status;
}

static sb_status bound(const sb_gate_case *c, const sb_gate_arith *ar, sb_ball *const out[])
{
    const shape s = shape_of(c);
    const sb_matrix fc = sb_gate_matrix(c, "fc", (uint32_t)s.n, (uint32_t)(HALVES * s.n));
    const sb_knobs inside[2] = {ar->knobs, sb_gate_unrounded(&ar->knobs)};
    sb_ball *normed = sb_alloc(s.count, (2 * HALVES + 1) * sizeof *normed);
    if (!normed)
        return SB_ERR_MEMORY;
    sb_ball *joined = normed + HALVES * s.count, *u = joined + HALVES * s.count;
    sb_status status = SB_OK;
    /* V-51: "each of the roundings between the ops may be there or not" */
    for (size_t way = 0; way < 2 && !status; way++) {
        status = norms(c, ar->ar, &inside[way], normed, joined);
        if (!status)
            status = sb_gate_bound_linear(c, ar, &fc, SB_LINEAR_layer, joined, s.rows, u);
        if (!status)
            sb_gate_cover(out[0], u, s.count, way == 0);
    }
    free(normed);
    return status;
}

const sb_gate_op *sb_gate_op_mtp(void)
{
    static const sb_gate_op op = {
        .name = "mtp",
        .clause = "V-59",
        .what = "input of the MTP head: fc of the normed embedding and hidden",
        .params = params,
        .param_count = sizeof params / sizeof *params,
        .shapes = shapes,
        .not_regimes = "subnormal padding",
        .uses = uses,
        .use_count = sizeof uses / sizeof *uses,
        .make = make,
        .declare = declare,
        .exact = exact,
        .real = real,
        .bound = bound,
        .row_arrays = "embedding,hidden",
        .rows_independent = 1};
    return &op;
}
