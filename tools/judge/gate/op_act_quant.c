/* op_act_quant.c - quantizes inputs of layers to NVFP4 and FP8: codes and scales by an engine's
 * law.
 *
 * The laws are knobs K-18 to K-22. Intervals around the unrounded scales and quotients give all
 * results of other correct evaluations of the same law. */
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/formats/format.h"
#include "ref/formats/small_float.h"
#include "ref/ops/act_quant.h"
#include "ref/ops/knob.h"
#include "tools/judge/gate/case.h"
#include "tools/judge/gate/weights.h"

/* The law of a format: the knob that it sets, and its parameters. */
typedef struct law {
    const char *name;
    sb_container container; /* of a weight whose input is quantized by this law */
    sb_knob knob;
    sb_knob_value value;
    int ue8m0;
    sb_factor_kind factor; /* the file stores the factor as divisor or as multiplier */
    double least;          /* the least scale of FP8, before ue8m0 */
} law;

#define NVFP4(value, kind)                                                                         \
    {                                                                                              \
#value, SB_CONTAINER_nvfp4_ct, SB_KNOB_act_fp4, SB_act_fp4_##value, 0, kind, 0             \
    }
#define GROUP(value, least)                                                                        \
    {                                                                                              \
        "group-" #value, SB_CONTAINER_fp8_block, SB_KNOB_act_fp8_group, SB_act_fp8_group_##value,  \
            0, SB_NO_FACTOR, least                                                                 \
    }
#define TOKEN(value, least)                                                                        \
    {                                                                                              \
        "token-" #value, SB_CONTAINER_fp8_channel, SB_KNOB_act_fp8_token,                          \
            SB_act_fp8_token_##value, 0, SB_NO_FACTOR, least                                       \
    }
#define STATIC(value)                                                                              \
    {                                                                                              \
        "static-" #value, SB_CONTAINER_fp8_channel, SB_KNOB_act_fp8_static,                        \
            SB_act_fp8_static_##value, 0, SB_MULTIPLIER, 0                                         \
    }
#define FLOOR ((double)1e-10f / 448.0)
#define VLLM_FLOOR ((double)(1.0f / 229376.0f))
static const law laws[] = {
    NVFP4(vllm_ref, SB_DIVISOR),
    NVFP4(vllm_triton, SB_DIVISOR),
    NVFP4(precise, SB_DIVISOR),
    NVFP4(fast, SB_DIVISOR),
    NVFP4(ct, SB_DIVISOR),
    NVFP4(kv, SB_MULTIPLIER),
    NVFP4(modelopt, SB_MULTIPLIER),
    GROUP(vllm_cuda, FLOOR),
    GROUP(vllm_triton, FLOOR),
    GROUP(vllm_native, VLLM_FLOOR),
    GROUP(sglang, FLOOR),
    GROUP(hf, 0),
    GROUP(ct, 0),
    {"group-vllm_cuda-ue8m0", SB_CONTAINER_fp8_block, SB_KNOB_act_fp8_group,
     SB_act_fp8_group_vllm_cuda, 1, SB_NO_FACTOR, (double)1e-10f},
    TOKEN(vllm, VLLM_FLOOR),
    TOKEN(vllm_native, VLLM_FLOOR),
    TOKEN(sglang, 0),
    TOKEN(ct, 0),
    STATIC(vllm),
    STATIC(ct),
};

static const law *law_of(const sb_gate_case *c)
{
    for (size_t i = 0; i < sizeof laws / sizeof *laws; i++)
        if (strcmp(laws[i].name, c->format) == 0)
            return &laws[i];
    return laws;
}

static int is_nvfp4(const law *l)
{
    return l->knob == SB_KNOB_act_fp4;
}

static int is_static(const law *l)
{
    return l->knob == SB_KNOB_act_fp8_static;
}

/* compressed-tensors: computes in the activation type; a block of zeros has a special scale. */
static int is_ct(const law *l)
{
    return l->value == SB_act_fp4_ct || l->value == SB_act_fp8_group_ct ||
           l->value == SB_act_fp8_token_ct || l->value == SB_act_fp8_static_ct;
}

typedef struct sizes {
    uint32_t rows, k, group, groups;
} sizes;

static sizes sizes_of(const sb_gate_case *c)
{
    const law *l = law_of(c);
    sizes z = {.rows = (uint32_t)sb_gate_size(c, "rows"), .k = (uint32_t)sb_gate_size(c, "k")};
    z.group = is_nvfp4(l) ? 16 : l->container == SB_CONTAINER_fp8_block ? 128 : z.k;
    z.groups = (z.k + z.group - 1) / z.group;
    return z;
}

static const char *factor_name(const law *l)
{
    return l->factor == SB_DIVISOR ? "input_global_scale" : "input_scale";
}

static float factor_of(const sb_gate_case *c)
{
    const law *l = law_of(c);
    return l->factor == SB_NO_FACTOR
               ? 1.0f
               : sb_f32_from_bits(sb_load_u32(sb_gate_input(c, factor_name(l))->data));
}

/* --- inputs ----------------------------------------------------------------------------------- */

static uint64_t up(uint64_t x, uint64_t to)
{
    return (x + to - 1) / to * to;
}

/* V-139: "FP8 also has the output `scales`. NVFP4 has `scales` and `scales_swizzled`" */
static sb_gate_list list(const sb_gate_case *c)
{
    const law *l = law_of(c);
    const sizes z = sizes_of(c);
    const sb_gate_member scales = {"scales", "token,block", .shape = {z.rows, z.groups}};
    sb_gate_list all = {
        .input = {{"x", "token,column", .shape = {z.rows, z.k}, .typing = SB_GATE_TYPED}},
        .output = {{"", "token,column", .shape = {z.rows, z.k}, .choices = 1}}};
    if (!is_static(l))
        all.output[1] = scales;
    if (!is_nvfp4(l))
        return all;
    all.output[0] = (sb_gate_member){"", "token,byte", .shape = {z.rows, z.k / 2}, .choices = 1};
    all.output[1].choices = 1;
    all.output[2] = (sb_gate_member){"scales_swizzled", "row,block",
                                     .shape = {up(z.rows, 128), up(z.groups, 4)}, .choices = 1};
    return all;
}

/* V-139: "In regime ties the first value of a group is its largest, 1.5 (FP8: 3), and the factor is
 * a power of two" - so that scales are powers of two (FP8: the same with ue8m0), and all quotients
 * are exact. FP8 quotients lie halfway between codes. */
static void adapt(const sb_gate_case *c, float *const drawn[])
{
    const int nvfp4 = is_nvfp4(law_of(c));
    const sizes z = sizes_of(c);
    float *x = drawn[0];
    if (c->regime != SB_GATE_REGIME_ties)
        return;
    const float most = nvfp4 ? 1.5f : 3.0f;
    for (size_t i = 0; i < (size_t)z.rows * z.k; i++) {
        float halfway = (float)(17 + 2 * (i % 8)) / 16.0f / (float)(1 << i / 8 % 4);
        if (i % z.k % z.group == 0)
            x[i] = i % 2 ? -most : most;
        else if (!nvfp4)
            x[i] = x[i] < 0 ? -halfway : halfway;
    }
}

/* V-139: "The factor comes from a calibration that saw nine tenths of the largest magnitude" */
static float calibrated(const sb_gate_case *c, const float *x, size_t count)
{
    const law *l = law_of(c);
    float amax = 0.0f;
    for (size_t i = 0; i < count; i++) {
        float a = x[i] < 0 ? -x[i] : x[i];
        amax = a > amax ? a : amax;
    }
    amax = amax > 0.0f ? amax * 0.9f : 1.0f;
    if (c->regime == SB_GATE_REGIME_ties)
        return l->factor == SB_DIVISOR ? 16.0f : is_static(l) ? 0x1p-7f : 0x1p-4f;
    if (l->factor == SB_DIVISOR)
        return sb_round_to(SB_FORMAT_bf16, 2688.0f / amax);
    return amax / (is_static(l) ? 448.0f : 2688.0f);
}

static sb_status check(const sb_gate_case *c, sb_error *err)
{
    const sizes z = sizes_of(c);
    if (!is_nvfp4(law_of(c)) || z.k % 16 == 0)
        return SB_OK;
    return sb_fail(err, SB_ERR_USAGE, "k is %u, expected a multiple of 16", z.k);
}

static sb_status add(sb_gate_case *c, sb_error *err)
{
    const law *l = law_of(c);
    const uint64_t one[] = {1};
    (void)err;
    if (l->factor == SB_NO_FACTOR)
        return SB_OK;
    float *x = sb_gate_values(c, "x");
    sb_gate_array *a = x ? sb_gate_add(c, factor_name(l), SB_DTYPE_F32, "element", 1, one) : NULL;
    if (a)
        sb_store_u32(a->data, sb_bits_f32(calibrated(
                                  c, x, (size_t)(sb_gate_size(c, "rows") * sb_gate_size(c, "k")))));
    free(x);
    return a ? SB_OK : SB_ERR_MEMORY;
}

static sb_status need(const sb_gate_case *c, sb_error *err)
{
    const law *l = law_of(c);
    const uint64_t one[] = {1};
    if (l->factor == SB_NO_FACTOR)
        return SB_OK;
    sb_status status = sb_gate_need(c, factor_name(l), 1, one, err);
    if (!status && (sb_gate_input(c, factor_name(l))->dtype != SB_DTYPE_F32 ||
                    !(factor_of(c) > 0.0f) || factor_of(c) > 0x1p126f))
        status = sb_fail(err, SB_ERR_INPUT, "in.%s is not an F32 number above 0 and up to 2^126",
                         factor_name(l));
    return status;
}

/* --- the law itself --------------------------------------------------------------------------- */

static sb_knobs knobs_of(const law *l, const sb_knobs *knobs)
{
    sb_knobs own = *knobs;
    own.value[l->knob] = l->value;
    if (l->ue8m0)
        own.value[SB_KNOB_fp8_scale] = SB_fp8_scale_ue8m0;
    return own;
}

/* The members of a weight that K-18 to K-22 read. */
static sb_matrix weight_of(const sb_gate_case *c)
{
    static const unsigned char one[4] = {0, 0, 0x80, 0x3f};
    const law *l = law_of(c);
    sb_matrix w = {.data = one, .format = SB_FORMAT_e4m3, .rows = 1, .cols = sizes_of(c).k};
    w.quant = (sb_quant){.scales = one,
                         .scale_format = SB_FORMAT_f32,
                         .block_rows = 128,
                         .block_cols = 128,
                         .container = l->container,
                         .input = {l->factor, factor_of(c)}};
    return w;
}

static void put(const sb_gate_case *c, const sb_input *in, float *const out[])
{
    const law *l = law_of(c);
    const sizes z = sizes_of(c);
    const size_t count = (size_t)z.rows * z.k, scales = (size_t)z.rows * z.groups;
    for (size_t i = 0; i < count; i++)
        if (!is_nvfp4(l))
            out[0][i] = (float)in->codes[i];
        else if (i % 2 == 0)
            out[0][i / 2] = (float)(in->codes[i] | in->codes[i + 1] << 4);
    for (size_t i = 0; i < scales && !is_static(l); i++)
        out[1][i] = is_nvfp4(l) ? (float)sb_f32_to_e4m3(in->scales[i]) : in->scales[i];
    if (!is_nvfp4(l))
        return;
    memset(out[2], 0, c->output[2].count * sizeof *out[2]);
    for (size_t i = 0; i < scales; i++)
        out[2][sb_gate_swizzled(i / z.groups, i % z.groups, z.groups)] = out[1][i];
}

static sb_status exact(const sb_gate_case *c, float *const in[], const sb_knobs *knobs,
                       const sb_op_table *ops, float *const out[])
{
    const sb_knobs own = knobs_of(law_of(c), knobs);
    const sb_matrix w = weight_of(c);
    sb_input codes = {0};
    (void)ops;
    sb_status status = sb_quantize_input(&own, &w, in[0], (size_t)sb_gate_size(c, "rows"), &codes);
    if (!status)
        put(c, &codes, out);
    sb_input_free(&codes);
    return status;
}

/* --- results that are right, too -------------------------------------------------------------- */

static float x_at(const sb_gate_case *c, size_t row, size_t col)
{
    const sb_gate_array *a = sb_gate_input(c, "x");
    const size_t at = row * (size_t)a->shape[1] + col;
    sb_format format = SB_FORMAT_f32;
    float x = 0.0f;
    sb_gate_format(a->dtype, &format);
    sb_decode(format, a->data + at * sb_format_bytes(format), 1, &x);
    return x;
}

static double size_of(double x)
{
    return x < 0 ? -x : x;
}

static double amax_of(const sb_gate_case *c, size_t row, size_t group)
{
    const sizes z = sizes_of(c);
    double amax = 0;
    for (size_t k = group * z.group; k < z.k && k < (group + 1) * z.group; k++) {
        double a = size_of((double)x_at(c, row, k));
        amax = a > amax ? a : amax;
    }
    return amax;
}

static int is_power(double x)
{
    return x > 0 && (sb_bits_f64(x) & 0xfffffffffffffu) == 0;
}

typedef struct interval {
    double low, high;
} interval;

/* V-139: "twice the error of a division and four roundings" - two reciprocals and two products. */
static double error_of(const sb_gate_arith *ar)
{
    return (2.0 * ar->ar.functions->divide + 4.0) * SB_UNIT;
}

static interval around(const sb_gate_case *c, const sb_gate_arith *ar, double x)
{
    const double e = error_of(ar) * size_of(x);
    interval y = {x - e, x + e};
    if (is_ct(law_of(c))) {
        const double low = (double)sb_act(&ar->knobs, (float)y.low),
                     high = (double)sb_act(&ar->knobs, (float)y.high);
        y.low = low < y.low ? low : y.low;
        y.high = high > y.high ? high : y.high;
    }
    return y;
}

/* 1 / G, or m. */
static double multiplier_of(const sb_gate_case *c)
{
    const double f = (double)factor_of(c);
    return law_of(c)->factor == SB_DIVISOR ? 1.0 / f : f;
}

static double e4m3(double x)
{
    return (double)sb_e4m3_to_f32(sb_f32_to_e4m3((float)x));
}

/* The least and the largest right scale of a group of NVFP4. */
static interval nvfp4_scales(const sb_gate_case *c, const sb_gate_arith *ar, double amax)
{
    const law *l = law_of(c);
    double u = amax / 6.0 / multiplier_of(c);
    if (l->value == SB_act_fp4_modelopt)
        u = u == 0.0 ? 1.0 : u < 0x1p-9 ? 0x1p-9 : u;
    const interval t = around(c, ar, u);
    interval s = {e4m3(t.low), e4m3(t.high)};
    if (l->value == SB_act_fp4_ct && s.low == 0.0) /* K-18: "0.125 where that is 0" */
        s = (interval){s.high == 0.0 ? 0.125 : s.high, 0.125};
    return s;
}

/* The scale of a group of FP8 in real numbers. */
static double fp8_scale(const law *l, double amax)
{
    const double y = amax / 448.0;
    if (is_ct(l) && y == 0.0)
        return 0x1p-23; /* K-19: "the distance of 1 from the next value of the activation type" */
    return y < l->least ? l->least : y;
}

static double power_above(double y)
{
    return (double)sb_e8m0_to_f32(sb_f32_to_e8m0_up((float)y));
}

static interval fp8_scales(const sb_gate_case *c, const sb_gate_arith *ar, double amax)
{
    const law *l = law_of(c);
    if (is_static(l))
        return (interval){(double)factor_of(c), (double)factor_of(c)};
    if (is_ct(l) && amax == 0.0 && !SB_IS(&ar->knobs, act, f32)) /* K-19 in either type */
        return (interval){0x1p-23, 0x1p-7};
    const interval y = around(c, ar, fp8_scale(l, amax));
    return l->ue8m0 ? (interval){power_above(y.low), power_above(y.high)} : y;
}

/* V-139: "by a power of two it is exact" - otherwise the interval has the width of the
 * computation's error. */
static interval quotients(const sb_gate_case *c, const sb_gate_arith *ar, double x, interval scale,
                          double factor)
{
    const int exact = scale.low == scale.high && is_power(scale.low) && is_power(factor);
    const double first = x / scale.low / factor, second = x / scale.high / factor;
    interval low = {first, first}, high = {second, second};
    if (!exact) {
        low = around(c, ar, first);
        high = around(c, ar, second);
    }
    return (interval){low.low < high.low ? low.low : high.low,
                      low.high > high.high ? low.high : high.high};
}

static int between(double x, double low, double high)
{
    return low <= x && x <= high;
}

/* V-139: "Where the scale is 0, every code is right" */
static int nibble_open(const sb_gate_case *c, const sb_gate_arith *ar, size_t row, size_t col,
                       uint8_t code)
{
    const interval s = nvfp4_scales(c, ar, amax_of(c, row, col / 16));
    if (s.low == 0.0)
        return 1;
    const interval q = quotients(c, ar, (double)x_at(c, row, col), s, multiplier_of(c));
    return between((double)sb_e2m1_to_f32(code),
                   (double)sb_e2m1_to_f32(sb_f32_to_e2m1((float)q.low)),
                   (double)sb_e2m1_to_f32(sb_f32_to_e2m1((float)q.high)));
}

static int nvfp4_open(const sb_gate_case *c, const sb_gate_arith *ar, size_t output, size_t i,
                      double got)
{
    const sizes z = sizes_of(c);
    const unsigned byte = (unsigned)got;
    if (output == 0) {
        size_t row = i / (z.k / 2), col = i % (z.k / 2) * 2;
        return nibble_open(c, ar, row, col, byte & 15) &&
               nibble_open(c, ar, row, col + 1, (uint8_t)(byte >> 4));
    }
    size_t at = i;
    if (output == 2)
        for (at = 0; at < (size_t)z.rows * z.groups &&
                     sb_gate_swizzled(at / z.groups, at % z.groups, z.groups) != i;
             at++)
            ;
    if (at == (size_t)z.rows * z.groups) /* V-139: "Padding may hold any byte" */
        return 1;
    const interval s = nvfp4_scales(c, ar, amax_of(c, at / z.groups, at % z.groups));
    return byte < 0x7f && between((double)sb_e4m3_to_f32((uint8_t)byte), s.low, s.high);
}

static int fp8_open(const sb_gate_case *c, const sb_gate_arith *ar, size_t i, double got)
{
    const sizes z = sizes_of(c);
    const size_t row = i / z.k, col = i % z.k;
    const interval s = fp8_scales(c, ar, amax_of(c, row, col / z.group));
    const uint8_t code = (uint8_t)got;
    if (s.low == 0.0)
        return (code & 0x7f) == 0; /* 0 / 0 is NaN, and no program writes another code */
    const interval q = quotients(c, ar, (double)x_at(c, row, col), s, 1.0);
    return (code & 0x7f) != 0x7f &&
           between((double)sb_e4m3_to_f32(code), e4m3(q.low), e4m3(q.high));
}

static int is_open(const sb_gate_case *c, const sb_gate_arith *ar, size_t output, size_t i,
                   double got)
{
    if (!between(got, 0.0, 255.0))
        return 0;
    return is_nvfp4(law_of(c)) ? nvfp4_open(c, ar, output, i, got) : fp8_open(c, ar, i, got);
}

/* --- the scales of FP8, which are values ------------------------------------------------------ */

static sb_status real(const sb_gate_case *c, float *const in[], sb_dd *const out[])
{
    (void)in;
    const law *l = law_of(c);
    const sizes z = sizes_of(c);
    if (is_nvfp4(l) || is_static(l))
        return SB_OK;
    for (size_t i = 0; i < (size_t)z.rows * z.groups; i++) {
        const double amax = amax_of(c, i / z.groups, i % z.groups), y = fp8_scale(l, amax);
        out[1][i] = y == amax / 448.0 ? sb_dd_div(sb_dd_of(amax), sb_dd_of(448.0)) : sb_dd_of(y);
        if (l->ue8m0)
            out[1][i] = sb_dd_of(power_above(y));
    }
    return SB_OK;
}

static sb_status bound(const sb_gate_case *c, float *const in[], const sb_gate_arith *ar,
                       sb_ball *const out[])
{
    (void)in;
    const law *l = law_of(c);
    const sizes z = sizes_of(c);
    if (is_nvfp4(l) || is_static(l))
        return SB_OK;
    for (size_t i = 0; i < (size_t)z.rows * z.groups; i++) {
        const interval y = fp8_scales(c, ar, amax_of(c, i / z.groups, i % z.groups));
        out[1][i] = (sb_ball){(y.low + y.high) / 2, (y.high - y.low) / 2 + ar->ar.underflow};
    }
    return SB_OK;
}

/* --- the two ops ------------------------------------------------------------------------------ */

static const sb_gate_param params[] = {{"rows", 5, 1, 4096, "tokens"},
                                       {"k", 256, 1, 65536, "columns"}};

const sb_gate_op *sb_gate_op_act_quant_nvfp4(void)
{
    static const char *const formats[] = {"vllm_ref", "vllm_triton", "precise",  "fast",
                                          "ct",       "kv",          "modelopt", NULL};
    static const char *const shapes[] = {"rows=1", "rows=9", "rows=129,k=32", "k=16",
                                         "k=48",   "k=80",   "k=640",         NULL};
    static const sb_gate_op op = {.name = "act_quant_nvfp4",
                                  .clause = "K-18",
                                  .what = "inputs to E2M1 codes with E4M3 scales",
                                  .params = params,
                                  .param_count = sizeof params / sizeof *params,
                                  .formats = formats,
                                  .shapes = shapes,
                                  .not_regimes = "padding",
                                  .check = check,
                                  .list = list,
                                  .adapt = adapt,
                                  .add = add,
                                  .need = need,
                                  .exact = exact,
                                  .real = real,
                                  .bound = bound,
                                  .open = is_open};
    return &op;
}

const sb_gate_op *sb_gate_op_act_quant_fp8(void)
{
    static const char *const formats[] = {"group-vllm_cuda",
                                          "group-vllm_triton",
                                          "group-vllm_native",
                                          "group-sglang",
                                          "group-hf",
                                          "group-ct",
                                          "group-vllm_cuda-ue8m0",
                                          "token-vllm",
                                          "token-vllm_native",
                                          "token-sglang",
                                          "token-ct",
                                          "static-vllm",
                                          "static-ct",
                                          NULL};
    static const char *const shapes[] = {"rows=1", "rows=9", "k=1",   "k=127",
                                         "k=128",  "k=129",  "k=200", NULL};
    static const sb_gate_op op = {
        .name = "act_quant_fp8",
        .clause = "K-19, K-20, K-21, K-22",
        .what = "inputs to E4M3 codes with scales per group, per row or for all",
        .params = params,
        .param_count = sizeof params / sizeof *params,
        .formats = formats,
        .shapes = shapes,
        .not_regimes = "padding",
        .check = check,
        .list = list,
        .adapt = adapt,
        .add = add,
        .need = need,
        .exact = exact,
        .real = real,
        .bound = bound,
        .open = is_open,
        .row_arrays = "x",
        .rows_independent = 1};
    return &op;
}
