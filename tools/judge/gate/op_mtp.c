/* op_mtp.c - the part before the one layer of the MTP head: two norms side by side, and a linear
 * layer. */
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "tools/judge/bound/bound.h"
#include "tools/judge/gate/weights.h"
#include "tools/judge/gate/whole.h"

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

/* The embedding half comes first here and below. */
static const char *const half[HALVES] = {"embedding", "hidden"};
static const char *const norm_weight[HALVES] = {"pre_fc_norm_embedding", "pre_fc_norm_hidden"};

typedef struct shape {
    size_t rows, n, count;
} shape;

static shape shape_of(const sb_gate_case *c)
{
    return (shape){.rows = c->size[ROWS], .n = c->size[N], .count = c->size[ROWS] * c->size[N]};
}

/* Half i and its norm are inputs 2 i and 2 i + 1. */
enum { FC = 2 * HALVES };

static sb_gate_list list(const sb_gate_case *c)
{
    const uint64_t rows = c->size[ROWS], n = c->size[N];
    sb_gate_list all = {.output = {{"", "row,column", .shape = {rows, n}}}};
    for (size_t i = 0; i < HALVES; i++) {
        all.input[2 * i] = (sb_gate_member){half[i], "row,column", .shape = {rows, n}};
        all.input[2 * i + 1] =
            (sb_gate_member){norm_weight[i], "column", .shape = {n}, .role = SB_GATE_NORM_WEIGHT};
    }
    all.input[FC] =
        (sb_gate_member){"fc", "column,input", .shape = {n, HALVES * n}, .role = SB_GATE_WEIGHT};
    return all;
}

/* In regime index, the columns of the hidden half are reversed, to distinguish it from the
 * embedding. A factor would not do: the norms remove it. */
static void turn_round(float *x, size_t rows, size_t n)
{
    for (float *row = x; row < x + rows * n; row += n)
        for (size_t i = 0; i < n / 2; i++) {
            float other = row[i];
            row[i] = row[n - 1 - i];
            row[n - 1 - i] = other;
        }
}

/* The index codes repeat after 64 columns, so a factor distinguishes the halves of fc. */
static void adapt(const sb_gate_case *c, float *const x[])
{
    const shape s = shape_of(c);
    if (c->regime != SB_GATE_REGIME_index)
        return;
    turn_round(x[2], s.rows, s.n);
    turn_round(x[3], 1, s.n);
    for (size_t i = 0; i < s.n * HALVES * s.n; i++)
        x[FC][i] *= i / s.n % HALVES ? 2.0f : 1.0f;
}

/* "the embedding half first" - joins the rows that fc reads, of elements of any size. */
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
static sb_status exact(const sb_gate_case *c, float *const in[], const sb_knobs *knobs,
                       const sb_op_table *ops, float *const out[])
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
        const sb_rmsnorm_args norm = norm_of(&s, &weight, in[2 * i], normed + i * s.count);
        status = ops->rmsnorm(knobs, &norm);
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

static sb_status real(const sb_gate_case *c, float *const in[], sb_dd *const out[])
{
    const shape s = shape_of(c);
    const size_t k = HALVES * s.n;
    sb_dd *normed = sb_alloc(s.count, 2 * HALVES * sizeof *normed);
    if (!normed)
        return SB_ERR_MEMORY;
    const void *const part[HALVES] = {normed, normed + s.count};
    sb_dd *joined = normed + HALVES * s.count;
    for (size_t i = 0; i < HALVES; i++)
        norm(&s, in[2 * i], in[2 * i + 1], normed + i * s.count);
    join(part, &s, sizeof *joined, joined);
    for (size_t i = 0; i < s.count; i++) {
        const float *fc = in[FC] + i % s.n * k;
        sb_dd sum = sb_dd_of(0.0);
        for (size_t j = 0; j < k; j++)
            sum = sb_dd_fma(sum, joined[i / s.n * k + j], sb_dd_of((double)fc[j]));
        out[0][i] = sum;
    }
    free(normed);
    return SB_OK;
}

/* The balls of the inputs of fc; `normed` and `joined` have 2 T H. */
static sb_status norms(const sb_gate_case *c, float *const in[], const sb_arithmetic *ar,
                       const sb_knobs *knobs, sb_ball *normed, sb_ball *joined)
{
    const shape s = shape_of(c);
    const void *const part[HALVES] = {normed, normed + s.count};
    sb_status status = SB_OK;
    for (size_t i = 0; i < HALVES && !status; i++) {
        const sb_matrix weight = sb_gate_matrix(c, norm_weight[i], 1, (uint32_t)s.n);
        const sb_rmsnorm_args args = norm_of(&s, &weight, in[2 * i], NULL);
        status = sb_bound_rmsnorm(ar, knobs, &args, normed + i * s.count, NULL);
    }
    if (!status)
        join(part, &s, sizeof *joined, joined);
    return status;
}

static sb_status bound(const sb_gate_case *c, float *const in[], const sb_gate_arith *ar,
                       sb_ball *const out[])
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
        status = norms(c, in, &ar->ar, &inside[way], normed, joined);
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
        .list = list,
        .adapt = adapt,
        .exact = exact,
        .real = real,
        .bound = bound,
        .row_arrays = "embedding,hidden",
        .rows_independent = 1};
    return &op;
}
