/* op_l2norm.c - the norm of queries or keys in linear attention. */
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "tools/compare/bound.h"
#include "tools/gate/whole.h"

static const float eps = 1e-6f;

enum { ROWS, HEADS, DK, SCALE };
static const sb_gate_param params[] = {{"rows", 4, 1, 65536, "tokens"},
                                       {"heads", 3, 1, 1024, "heads"},
                                       {"dk", 64, 1, 1024, "channels of a head"},
                                       {"scale", 0, 0, 1, "1: times dk^-1/2, as of queries"}};
static const char *const shapes[] = {"scale=1", "rows=1,heads=1", "dk=1",   "dk=7",
                                     "dk=128",  "dk=128,scale=1", "rows=9", NULL};
static const sb_op uses[] = {SB_OP_l2norm};

static sb_status expect(sb_gate_case *c)
{
    return sb_gate_expect(c, "", SB_GATE_VALUES, "row,head,channel", 3, c->size);
}

static sb_status make(sb_gate_case *c, sb_error *err)
{
    (void)err;
    size_t vectors = (size_t)(c->size[ROWS] * c->size[HEADS]), dk = (size_t)c->size[DK];
    float *x = sb_alloc(vectors * dk, sizeof *x);
    if (!x)
        return SB_ERR_MEMORY;
    sb_gate_draw(c, "x", SB_GATE_ACTIVATION, vectors, dk, x);
    sb_status status = sb_gate_add_values(c, "x", "row,head,channel", 3, c->size, x);
    free(x);
    return status ? status : expect(c);
}

static sb_status declare(sb_gate_case *c, sb_error *err)
{
    sb_status status = sb_gate_need(c, "x", 3, c->size, err);
    if (!status)
        status = sb_gate_need_finite(c, "x", (size_t)(c->size[ROWS] * c->size[HEADS] * c->size[DK]),
                                     err);
    return status ? status : expect(c);
}

/* The op has queries and keys side by side: both are x here, and one of its outputs is looked at.
 */
typedef struct inputs {
    float *qkv;
    sb_l2norm_args args;
} inputs;

static sb_status inputs_of(const sb_gate_case *c, inputs *in)
{
    size_t rows = (size_t)c->size[ROWS], width = (size_t)(c->size[HEADS] * c->size[DK]);
    float *x = sb_gate_values(c, "x");
    in->qkv = sb_alloc(2 * rows * width, sizeof *in->qkv);
    for (size_t t = 0; x && in->qkv && t < 2 * rows; t++)
        memcpy(in->qkv + t * width, x + t / 2 * width, width * sizeof *x);
    in->args = (sb_l2norm_args){.qkv = in->qkv,
                                .rows = rows,
                                .stride = 2 * width,
                                .heads = (size_t)c->size[HEADS],
                                .dk = (size_t)c->size[DK],
                                .eps = eps,
                                .recurrent = 1};
    sb_status status = x && in->qkv ? SB_OK : SB_ERR_MEMORY;
    free(x);
    if (status) {
        free(in->qkv);
        in->qkv = NULL;
    }
    return status;
}

static sb_status exact(const sb_gate_case *c, const sb_knobs *knobs, const sb_op_table *ops,
                       float *const out[])
{
    inputs in;
    sb_status status = inputs_of(c, &in);
    float *other = status ? NULL : sb_alloc(c->output[0].count, sizeof *other);
    if (other) {
        in.args.q = c->size[SCALE] ? out[0] : other;
        in.args.k = c->size[SCALE] ? other : out[0];
        status = ops->l2norm(knobs, &in.args);
    } else if (!status)
        status = SB_ERR_MEMORY;
    free(in.qkv);
    free(other);
    return status;
}

/* R-6 without a rounding: x / sqrt( sum of the squares + eps ). */
static sb_status real(const sb_gate_case *c, sb_dd *const out[])
{
    size_t dk = (size_t)c->size[DK];
    float *x = sb_gate_values(c, "x");
    for (size_t at = 0; x && at < c->output[0].count; at += dk) {
        sb_dd squares = sb_dd_of((double)eps);
        for (size_t i = 0; i < dk; i++)
            squares = sb_dd_fma(squares, sb_dd_of((double)x[at + i]), sb_dd_of((double)x[at + i]));
        if (c->size[SCALE])
            squares = sb_dd_mul(squares, sb_dd_of((double)dk));
        for (size_t i = 0; i < dk; i++)
            out[0][at + i] = sb_dd_div(sb_dd_of((double)x[at + i]), sb_dd_sqrt(squares));
    }
    sb_status status = x ? SB_OK : SB_ERR_MEMORY;
    free(x);
    return status;
}

static sb_status bound(const sb_gate_case *c, const sb_gate_arith *ar, sb_ball *const out[])
{
    inputs in;
    sb_status status = inputs_of(c, &in);
    sb_ball *other = status ? NULL : sb_alloc(c->output[0].count, sizeof *other);
    if (!status && !other)
        status = SB_ERR_MEMORY;
    if (!status)
        status = sb_bound_l2norm(ar->ar, &ar->knobs, &in.args, c->size[SCALE] ? out[0] : other,
                                 c->size[SCALE] ? other : out[0]);
    for (size_t i = 0; i < c->output[0].count && !status; i++)
        out[0][i] = sb_ball_act(&ar->knobs, out[0][i]);
    free(other);
    free(in.qkv);
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
                                  .make = make,
                                  .declare = declare,
                                  .exact = exact,
                                  .real = real,
                                  .bound = bound,
                                  .row_arrays = "x",
                                  .rows_independent = 1};
    return &op;
}
