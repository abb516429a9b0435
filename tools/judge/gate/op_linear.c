/* op_linear.c - one linear layer, and the head: rows of a stored matrix times rows of inputs. */
#include <stdlib.h>

#include "ref/base/mem.h"
#include "ref/formats/wide.h"
#include "ref/math/law.h"
#include "ref/ops/rounding.h"
#include "tools/judge/bound/bound.h"
#include "tools/judge/bound/bound_codes.h"
#include "tools/judge/gate/weights.h"

/* The layer of both ops. */
typedef struct layer {
    sb_gate_stored weight;
    uint32_t rows, cols, outputs;
    sb_linear_kind kind;
} layer;

static layer linear_layer(const sb_gate_case *c)
{
    layer l = {.rows = (uint32_t)sb_gate_size(c, "rows"),
               .cols = (uint32_t)sb_gate_size(c, "k"),
               .outputs = (uint32_t)sb_gate_size(c, "n"),
               .kind = SB_LINEAR_layer};
    l.weight = (sb_gate_stored){.prefix = "", .parts = 1, .rows = l.outputs, .cols = l.cols};
    return l;
}

/* V-135: "The weight of the head has rows that no token has" */
static layer head_layer(const sb_gate_case *c)
{
    uint32_t padded = (uint32_t)sb_gate_size(c, "padded");
    layer l = {.rows = (uint32_t)sb_gate_size(c, "rows"),
               .cols = (uint32_t)sb_gate_size(c, "k"),
               .outputs = (uint32_t)sb_gate_size(c, "vocabulary"),
               .kind = SB_LINEAR_head};
    l.weight = (sb_gate_stored){.prefix = "",
                                .parts = 1,
                                .rows = l.outputs,
                                .cols = l.cols,
                                .spare = padded > l.outputs ? padded - l.outputs : 0};
    return l;
}

/* The operands of a layer. `in` holds the inputs in binary32 without their factor, which is part of
 * the weight's factor. */
typedef struct operands {
    sb_matrix weight, x;
    float *in;
} operands;

/* V-134: "The divisors of NVFP4 weights and inputs are joined; their product is exact" */
static sb_status open_operands(const sb_gate_case *c, const layer *l, operands *o)
{
    *o = (operands){.weight = sb_gate_stored_matrix(c, &l->weight, 0, 0),
                    .x = sb_gate_x(c, l->rows, l->cols)};
    if (o->x.quant.factor.kind == SB_DIVISOR)
        o->weight.quant.factor.value *= o->x.quant.factor.value;
    o->in = sb_gate_matrix_values(&o->x);
    return o->in ? SB_OK : SB_ERR_MEMORY;
}

/* --- inputs ----------------------------------------------------------------------------------- */

static sb_gate_list list(const layer *l)
{
    return (sb_gate_list){.output = {{"", "token,row", .shape = {l->rows, l->outputs}}}};
}

static sb_status add(sb_gate_case *c, const layer *l, sb_error *err)
{
    sb_status status = sb_gate_store_x(c, l->rows, l->cols, err);
    return status ? status : sb_gate_store(c, &l->weight, err);
}

static sb_status need_exact_factor(const sb_gate_case *c, const layer *l, sb_error *err)
{
    const sb_matrix w = sb_gate_stored_matrix(c, &l->weight, 0, 0),
                    x = sb_gate_x(c, l->rows, l->cols);
    const double product = (double)w.quant.factor.value * (double)x.quant.factor.value;
    if (x.quant.factor.kind == SB_NO_FACTOR || (double)(float)product - product == 0.0)
        return SB_OK;
    return sb_fail(err, SB_ERR_INPUT,
                   "in.x_global_scale times in.weight_global_scale is not a binary32 number");
}

static sb_status need(const sb_gate_case *c, const layer *l, sb_error *err)
{
    sb_status status = sb_gate_need_x(c, l->rows, l->cols, err);
    if (!status)
        status = sb_gate_need_stored(c, &l->weight, err);
    return status ? status : need_exact_factor(c, l, err);
}

/* For tools/judge/gate/meta.h: recomputes the scales in blocks from those of the rows. */
static sb_status refresh_linear(sb_gate_case *c)
{
    const layer l = linear_layer(c);
    return sb_gate_refresh_x(c, l.rows, l.cols);
}

/* --- outputs ---------------------------------------------------------------------------------- */

static sb_status exact(const sb_gate_case *c, const layer *l, const sb_knobs *knobs,
                       const sb_op_table *ops, float *out)
{
    const sb_knobs given = sb_gate_given_inputs(knobs);
    operands o;
    sb_status status = open_operands(c, l, &o);
    const sb_linear_args args = {
        .weight = &o.weight, .kind = l->kind, .in = o.in, .rows = l->rows, .out = out};
    if (!status)
        status = ops->linear(&given, &args);
    free(o.in);
    return status;
}

/* V-132: R-2 without a rounding. */
static sb_status real(const sb_gate_case *c, const layer *l, sb_dd *out)
{
    operands o;
    sb_status status = open_operands(c, l, &o);
    const size_t count = (size_t)l->rows * l->cols;
    sb_dd *x = status ? NULL : sb_alloc(count, sizeof *x);
    for (size_t i = 0; x && i < count; i++)
        x[i] = sb_dd_of((double)o.in[i]);
    if (!status)
        status = x ? sb_gate_real_linear(&o.weight, x, l->rows, out) : SB_ERR_MEMORY;
    free(x);
    free(o.in);
    return status;
}

/* The arithmetic's unit for the codes of this case; NULL: codes are treated as values. */
static const sb_atom *unit_of(const sb_gate_case *c, const sb_arithmetic *ar, sb_act_scheme *scheme)
{
    static const sb_act_scheme schemes[] = {[SB_GATE_CODING_none] = SB_SCHEME_none,
                                            [SB_GATE_CODING_nvfp4] = SB_SCHEME_nvfp4,
                                            [SB_GATE_CODING_fp8_block] = SB_SCHEME_fp8_group,
                                            [SB_GATE_CODING_fp8_channel] = SB_SCHEME_fp8_token,
                                            [SB_GATE_CODING_fp8_tensor] = SB_SCHEME_fp8_static};
    *scheme = schemes[sb_gate_coding_of(c)];
    return sb_bound_unit(ar, *scheme);
}

/* T-52 for codes among the inputs. */
static sb_status bound_codes(const layer *l, const sb_gate_arith *ar, const operands *o,
                             const sb_atom *unit, sb_bound_codes *codes, sb_ball *out)
{
    const sb_scalar factor = sb_matrix_factor(&o->weight);
    const double by = (double)factor.mul[0] / (double)factor.div[0];
    double *w = sb_alloc(l->cols, sizeof *w);
    if (!w)
        return SB_ERR_MEMORY;
    codes->factor = by < 0 ? -by : by;
    for (uint32_t n = 0; n < l->outputs; n++) {
        sb_matrix_wide(&o->weight, n, w);
        for (uint32_t t = 0; t < l->rows; t++) {
            sb_reduction r = {0};
            for (uint32_t k = 0; k < l->cols; k++)
                sb_reduce(&r, (sb_ball){w[k] * by, 0}, sb_ball_of(o->in[(size_t)t * l->cols + k]));
            sb_ball y = sb_ball_summed(&ar->ar, &r, sb_bound_codes_error(codes, unit, n, t, &r));
            if (!sb_linear_stays_wide(&ar->knobs, l->kind))
                y = sb_ball_act(&ar->knobs, y);
            out[(size_t)t * l->outputs + n] = sb_gate_known(y);
        }
    }
    free(w);
    return SB_OK;
}

static sb_status bound_units(const layer *l, const sb_gate_arith *ar, const operands *o,
                             const sb_atom *unit, sb_act_scheme scheme, sb_ball *out)
{
    const uint32_t groups = sb_matrix_groups(&o->x);
    sb_bound_codes codes = {.weight = &o->weight,
                            .scheme = scheme,
                            .scales = sb_alloc((size_t)l->rows * groups, sizeof(float)),
                            .group = o->x.quant.block_cols,
                            .groups = groups};
    double *scales = sb_alloc(groups, sizeof *scales);
    sb_status status = codes.scales && scales ? SB_OK : SB_ERR_MEMORY;
    for (uint32_t t = 0; !status && t < l->rows; t++) {
        sb_matrix_scales(&o->x, t, scales);
        for (uint32_t g = 0; g < groups; g++)
            codes.scales[(size_t)t * groups + g] = (float)scales[g];
    }
    if (!status)
        status = bound_codes(l, ar, o, unit, &codes, out);
    free(scales);
    free(codes.scales);
    return status;
}

static sb_status bound_values(const sb_gate_case *c, const layer *l, const sb_gate_arith *ar,
                              const operands *o, sb_ball *out)
{
    const size_t count = (size_t)l->rows * l->cols;
    sb_ball *x = sb_alloc(count, sizeof *x);
    if (!x)
        return SB_ERR_MEMORY;
    sb_balls_of(o->in, count, x);
    sb_status status = sb_gate_bound_linear(c, ar, &o->weight, l->kind, x, l->rows, out);
    free(x);
    return status;
}

static sb_status bound(const sb_gate_case *c, const layer *l, const sb_gate_arith *ar, sb_ball *out)
{
    sb_act_scheme scheme;
    const sb_atom *unit = unit_of(c, &ar->ar, &scheme);
    operands o;
    sb_status status = open_operands(c, l, &o);
    if (!status && unit)
        status = bound_units(l, ar, &o, unit, scheme, out);
    else if (!status)
        status = bound_values(c, l, ar, &o, out);
    free(o.in);
    return status;
}

/* --- the two ops ------------------------------------------------------------------------------ */

#define OP(name)                                                                                   \
    static sb_gate_list list_##name(const sb_gate_case *c)                                         \
    {                                                                                              \
        const layer l = name##_layer(c);                                                           \
        return list(&l);                                                                           \
    }                                                                                              \
    static sb_status add_##name(sb_gate_case *c, sb_error *err)                                    \
    {                                                                                              \
        const layer l = name##_layer(c);                                                           \
        return add(c, &l, err);                                                                    \
    }                                                                                              \
    static sb_status need_##name(const sb_gate_case *c, sb_error *err)                             \
    {                                                                                              \
        const layer l = name##_layer(c);                                                           \
        return need(c, &l, err);                                                                   \
    }                                                                                              \
    static sb_status exact_##name(const sb_gate_case *c, float *const in[], const sb_knobs *knobs, \
                                  const sb_op_table *ops, float *const out[])                      \
    {                                                                                              \
        (void)in;                                                                                  \
        const layer l = name##_layer(c);                                                           \
        return exact(c, &l, knobs, ops, out[0]);                                                   \
    }                                                                                              \
    static sb_status real_##name(const sb_gate_case *c, float *const in[], sb_dd *const out[])     \
    {                                                                                              \
        (void)in;                                                                                  \
        const layer l = name##_layer(c);                                                           \
        return real(c, &l, out[0]);                                                                \
    }                                                                                              \
    static sb_status bound_##name(const sb_gate_case *c, float *const in[],                        \
                                  const sb_gate_arith *ar, sb_ball *const out[])                   \
    {                                                                                              \
        (void)in;                                                                                  \
        const layer l = name##_layer(c);                                                           \
        return bound(c, &l, ar, out[0]);                                                           \
    }
OP(linear)
OP(head)
#undef OP

static const sb_op uses[] = {SB_OP_linear};

const sb_gate_op *sb_gate_op_linear(void)
{
    static const sb_gate_param params[] = {{"rows", 4, 1, 4096, "rows of inputs"},
                                           {"n", 160, 1, 16384, "rows of the weight"},
                                           {"k", 384, 1, 16384, "columns of the weight"}};
    static const char *const formats[] = {"nvfp4-ct",
                                          "nvfp4-modelopt",
                                          "nvfp4-w4a4",
                                          "bf16",
                                          "f16",
                                          "f32",
                                          "fp8-block",
                                          "fp8-block-ue8m0",
                                          "fp8-block-w8a8",
                                          "fp8-channel",
                                          "fp8-channel-w8a8",
                                          "fp8-tensor",
                                          "fp8-tensor-w8a8",
                                          "mxfp4",
                                          "mxfp8",
                                          "int4-gptq",
                                          "int4-awq",
                                          "int4-ct",
                                          "int8-gptq",
                                          NULL};
    static const char *const shapes[] = {
        "rows=1",      "rows=2",      "rows=3",      "rows=5",       "rows=7",
        "rows=8",      "rows=9",      "rows=17",     "n=8,k=128",    "n=120,k=128",
        "n=128,k=128", "n=136,k=256", "n=264,k=640", "rows=33,n=24", "rows=129,n=8,k=128",
        "n=16,k=160",  "n=8,k=32",    NULL};
    static const sb_gate_op op = {.name = "linear",
                                  .clause = "R-2",
                                  .what = "a linear layer: x W^T, of a stored weight",
                                  .params = params,
                                  .param_count = sizeof params / sizeof *params,
                                  .formats = formats,
                                  .shapes = shapes,
                                  .uses = uses,
                                  .use_count = 1,
                                  .list = list_linear,
                                  .add = add_linear,
                                  .need = need_linear,
                                  .exact = exact_linear,
                                  .real = real_linear,
                                  .bound = bound_linear,
                                  .row_arrays = "x,x_packed,x_scale",
                                  .rows_independent = 1,
                                  .refresh = refresh_linear};
    return &op;
}

const sb_gate_op *sb_gate_op_head(void)
{
    static const sb_gate_param params[] = {
        {"rows", 2, 1, 256, "rows of inputs"},
        {"vocabulary", 1000, 1, 262144, "tokens: logits per row"},
        {"padded", 1024, 1, 262144, "rows of the weight, if it has more"},
        {"k", 256, 1, 16384, "columns of the weight"}};
    static const char *const formats[] = {"bf16",           "f16", "f32", "fp8-tensor", "nvfp4-ct",
                                          "nvfp4-modelopt", NULL};
    static const char *const shapes[] = {
        "rows=1", "rows=9", "vocabulary=1024", "vocabulary=1001,padded=1024", "padded=1000",
        "k=32",   NULL};
    static const sb_gate_op op = {.name = "head",
                                  .clause = "R-2",
                                  .what = "logits: rows of a vocabulary that may be padded",
                                  .params = params,
                                  .param_count = sizeof params / sizeof *params,
                                  .formats = formats,
                                  .shapes = shapes,
                                  .uses = uses,
                                  .use_count = 1,
                                  .list = list_head,
                                  .add = add_head,
                                  .need = need_head,
                                  .exact = exact_head,
                                  .real = real_head,
                                  .bound = bound_head,
                                  .row_arrays = "x",
                                  .rows_independent = 1};
    return &op;
}
