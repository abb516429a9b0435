/* op_l2norm.c - the norm of queries or keys in linear attention. */
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "tools/judge/bound/bound.h"
#include "tools/judge/gate/whole.h"

static const float eps = 1e-6f;

enum { ROWS, HEADS, DK, SCALE };
static const sb_gate_param params[] = {
    {"rows", 4, 1, 65536, "tokens"},
    {"heads", 3, 1, 1024, "heads"},
    {"dk", 64, 1, 1024, "channels of a head"},
    {"scale", 0, 0, 1, "1: multiplied by dk^-1/2, as queries are"}};
static const char *const shapes[] = {"scale=1", "rows=1,heads=1", "dk=1",   "dk=7",
                                     "dk=128",  "dk=128,scale=1", "rows=9", NULL};
static const sb_op uses[] = {SB_OP_l2norm};

static sb_gate_list list(const sb_gate_case *c)
{
    const uint64_t rows = c->size[ROWS], heads = c->size[HEADS], dk = c->size[DK];
    return (sb_gate_list){.input = {{"x", "row,head,channel", .shape = {rows, heads, dk}}},
                          .output = {{"", "row,head,channel", .shape = {rows, heads, dk}}}};
}

/* The op takes queries and keys side by side: both are x here, and only one output is used. The
 * caller frees *values, which holds qkv and the other output. */
static sb_status args_of(const sb_gate_case *c, const float *x, float **values, sb_l2norm_args *out)
{
    size_t rows = (size_t)c->size[ROWS], width = (size_t)(c->size[HEADS] * c->size[DK]);
    float *qkv = *values = sb_alloc(3 * rows * width, sizeof *qkv);
    for (size_t t = 0; qkv && t < 2 * rows; t++)
        memcpy(qkv + t * width, x + t / 2 * width, width * sizeof *x);
    *out = (sb_l2norm_args){.qkv = qkv,
                            .rows = rows,
                            .stride = 2 * width,
                            .heads = (size_t)c->size[HEADS],
                            .dk = (size_t)c->size[DK],
                            .eps = eps,
                            .recurrent = 1};
    return qkv ? SB_OK : SB_ERR_MEMORY;
}

static sb_status exact(const sb_gate_case *c, float *const in[], const sb_knobs *knobs,
                       const sb_op_table *ops, float *const out[])
{
    sb_l2norm_args args;
    float *values;
    sb_status status = args_of(c, in[0], &values, &args);
    if (status)
        return status;
    float *other = values + 2 * c->output[0].count;
    args.q = c->size[SCALE] ? out[0] : other;
    args.k = c->size[SCALE] ? other : out[0];
    status = ops->l2norm(knobs, &args);
    free(values);
    return status;
}

/* R-6 without a rounding: x / sqrt( sum of the squares + eps ). */
static sb_status real(const sb_gate_case *c, float *const in[], sb_dd *const out[])
{
    size_t dk = (size_t)c->size[DK];
    const float *x = in[0];
    for (size_t at = 0; at < c->output[0].count; at += dk) {
        sb_dd squares = sb_dd_of((double)eps);
        for (size_t i = 0; i < dk; i++)
            squares = sb_dd_fma(squares, sb_dd_of((double)x[at + i]), sb_dd_of((double)x[at + i]));
        if (c->size[SCALE])
            squares = sb_dd_mul(squares, sb_dd_of((double)dk));
        for (size_t i = 0; i < dk; i++)
            out[0][at + i] = sb_dd_div(sb_dd_of((double)x[at + i]), sb_dd_sqrt(squares));
    }
    return SB_OK;
}

static sb_status bound(const sb_gate_case *c, float *const in[], const sb_gate_arith *ar,
                       sb_ball *const out[])
{
    sb_l2norm_args args;
    float *values;
    sb_status status = args_of(c, in[0], &values, &args);
    sb_ball *other = sb_alloc(c->output[0].count, sizeof *other);
    if (!status && !other)
        status = SB_ERR_MEMORY;
    if (!status)
        status = sb_bound_l2norm(&ar->ar, &ar->knobs, &args, c->size[SCALE] ? out[0] : other,
                                 c->size[SCALE] ? other : out[0]);
    for (size_t i = 0; i < c->output[0].count && !status; i++)
        out[0][i] = sb_ball_act(&ar->knobs, out[0][i]);
    free(other);
    free(values);
    return status;
}

const sb_gate_op *sb_gate_op_l2norm(void)
{
    static const sb_gate_op op = {.name = "l2norm",
                                  .clause = "R-6",
                                  .what = "norm of queries or keys of linear attention",
                                  .params = params,
                                  .param_count = sizeof params / sizeof *params,
                                  .shapes = shapes,
                                  .not_regimes = "subnormal padding",
                                  .uses = uses,
                                  .use_count = 1,
                                  .list = list,
                                  .exact = exact,
                                  .real = real,
                                  .bound = bound,
                                  .row_arrays = "x",
                                  .rows_independent = 1};
    return &op;
}
