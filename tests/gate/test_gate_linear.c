/* test_gate_linear.c - vectors of linear layers and of the head. The expectation is compared with
 * weights that independent code decodes, summed in 300 bits. Plain kernels pass, and kernels with
 * mistakes of real kernels fail. */
#include "tests/lib/suite.h"

#include <math.h>
#include <mpfr.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/formats/format.h"
#include "ref/formats/small_float.h"
#include "tests/gate/check_op.h"

#define SHAPE "rows=3,n=136,k=256"
enum { ROWS = 3, N = 136, K = 256 };

typedef enum order { FORWARDS, LANES } order;

static check_weight weight_of(const sb_gate_case *c, int fault)
{
    return (check_weight){.c = c,
                          .prefix = "",
                          .rows = (uint32_t)sb_gate_size(c, "n"),
                          .cols = (uint32_t)sb_gate_size(c, "k"),
                          .fault = fault};
}

/* Input (row, column), from its bytes. */
static double input_at(const sb_gate_case *c, uint32_t row, uint32_t col)
{
    const uint32_t k = (uint32_t)sb_gate_size(c, "k");
    if (strcmp(c->format, "nvfp4-w4a4") == 0) {
        const check_weight x = {.c = c, .prefix = "x", .cols = k};
        return check_value(&x, row, col);
    }
    const sb_gate_array *x = sb_gate_input(c, "x"), *s = sb_gate_input(c, "x_scale");
    s = s ? s : sb_gate_input(c, "input_scale");
    if (!s) {
        float *values = sb_gate_values(c, "x"), value = values[(size_t)row * k + col];
        free(values);
        return (double)value;
    }
    size_t at = strcmp(c->format, "fp8-block-w8a8") == 0     ? row * ((k + 127) / 128) + col / 128
                : strcmp(c->format, "fp8-channel-w8a8") == 0 ? row
                                                             : 0;
    return (double)sb_e4m3_to_f32(x->data[(size_t)row * k + col]) *
           (double)sb_f32_from_bits(sb_load_u32(s->data + 4 * at));
}

static double *inputs_of(const sb_gate_case *c)
{
    const size_t rows = (size_t)sb_gate_size(c, "rows"), k = (size_t)sb_gate_size(c, "k");
    double *x = calloc(rows * k, sizeof *x);
    for (size_t i = 0; i < rows * k; i++)
        x[i] = input_at(c, (uint32_t)(i / k), (uint32_t)(i % k));
    return x;
}

static float sum_forwards(const double *w, const double *x, size_t k)
{
    float sum = 0;
    for (size_t i = 0; i < k; i++)
        sum += (float)w[i] * (float)x[i];
    return sum;
}

/* Eight partial sums with fused multiply-add, added in pairs. */
static float sum_lanes(const double *w, const double *x, size_t k)
{
    float sum[8] = {0};
    for (size_t i = 0; i < k; i++)
        sum[i % 8] = fmaf((float)w[i], (float)x[i], sum[i % 8]);
    return ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));
}

/* A kernel in binary32. */
static float *run(const sb_gate_case *c, int fault, order how)
{
    const size_t rows = (size_t)sb_gate_size(c, "rows"), n = (size_t)c->output[0].shape[1],
                 k = (size_t)sb_gate_size(c, "k");
    const check_weight weight = {
        .c = c, .prefix = "", .rows = (uint32_t)n, .cols = (uint32_t)k, .fault = fault};
    double *x = inputs_of(c), *w = calloc(k, sizeof *w);
    float *out = calloc(rows * n, sizeof *out);
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < k; j++)
            w[j] = check_value(&weight, (uint32_t)i, (uint32_t)j);
        for (size_t t = 0; t < rows; t++)
            out[t * n + i] = (how == LANES ? sum_lanes : sum_forwards)(w, x + t * k, k);
    }
    free(x);
    free(w);
    return out;
}

/* The real values equal a sum in 300 bits over weights decoded by check_op.c. */
static void check_real(const sb_gate_case *c)
{
    const size_t rows = (size_t)sb_gate_size(c, "rows"), n = (size_t)c->output[0].shape[1],
                 k = (size_t)sb_gate_size(c, "k");
    const int divides = strncmp(c->format, "nvfp4", 5) == 0;
    const check_weight weight = weight_of(c, CHECK_NO_FAULT);
    double *x = inputs_of(c);
    mpfr_t sum, product;
    mpfr_inits2(300, sum, product, (mpfr_ptr)0);
    for (size_t t = 0; t < rows; t++)
        for (size_t i = 0; i < n; i += 7) {
            double size = 0;
            mpfr_set_zero(sum, 1);
            for (size_t j = 0; j < k; j++) {
                double w = check_value(&weight, (uint32_t)i, (uint32_t)j);
                mpfr_set_d(product, w, MPFR_RNDN);
                mpfr_mul_d(product, product, x[t * k + j], MPFR_RNDN);
                mpfr_add(sum, sum, product, MPFR_RNDN);
                size += fabs(w * x[t * k + j]);
            }
            const sb_dd real = c->output[0].real[t * n + i];
            mpfr_sub_d(sum, sum, real.hi, MPFR_RNDN);
            mpfr_sub_d(sum, sum, real.lo, MPFR_RNDN);
            /* with a divisor, check_value rounds one or two divisions to binary64 */
            double allowed = (divides ? 0x1p-49 : 0x1p-94) * size;
            if (!(fabs(mpfr_get_d(sum, MPFR_RNDN)) <= allowed))
                fail_msg("%s %s: element (%zu, %zu) is off by %g", c->format,
                         sb_gate_regime_name(c->regime), t, i, mpfr_get_d(sum, MPFR_RNDN));
        }
    mpfr_clears(sum, product, (mpfr_ptr)0);
    free(x);
}

static void check_kernels(const sb_gate_case *c)
{
    static const order orders[] = {FORWARDS, LANES};
    for (size_t o = 0; o < 2; o++) {
        double worst;
        float *got = run(c, CHECK_NO_FAULT, orders[o]);
        size_t outside = check_outside(c, "fp32", got, &worst);
        if (outside)
            fail_msg("%s %s: a plain kernel fails in %zu elements, %g of the bound", c->format,
                     sb_gate_regime_name(c->regime), outside, worst);
        for (size_t i = 0; i < c->output[0].count; i++)
            got[i] = sb_round_to(SB_FORMAT_bf16, got[i]);
        assert_int_equal(check_outside_rounded(c, "fp32", SB_FORMAT_bf16, got), 0);
        free(got);
    }
}

TEST(test_every_format_in_every_regime)
{
    const char *const *formats = sb_gate_op_linear()->formats;
    for (size_t f = 0; formats[f]; f++)
        for (int regime = 0; regime < SB_GATE_REGIMES; regime++) {
            sb_gate_case *c =
                check_case("linear", formats[f], SHAPE, (sb_gate_regime)regime, SB_DTYPE_BF16);
            check_contract(c);
            check_real(c);
            check_kernels(c);
            if (regime == SB_GATE_REGIME_normal)
                check_mistakes(c);
            sb_gate_case_free(c);
        }
}

TEST(test_shapes_and_inputs)
{
    static const sb_dtype inputs[] = {SB_DTYPE_BF16, SB_DTYPE_F16, SB_DTYPE_F32};
    const char *const *shapes = sb_gate_op_linear()->shapes;
    for (size_t s = 0; shapes[s]; s++)
        for (size_t i = 0; i < 3; i++) {
            static const char *const formats[] = {"nvfp4-ct", "fp8-block", "int4-gptq"};
            sb_gate_case *c =
                check_case("linear", formats[s % 3], shapes[s], SB_GATE_REGIME_normal, inputs[i]);
            check_contract(c);
            sb_gate_case_free(c);
        }
}

/* Odd shapes, which only some formats have: the last block has one row and one column. */
TEST(test_odd_widths)
{
    static const char *const formats[] = {"bf16", "fp8-block", "fp8-channel", "fp8-tensor",
                                          "fp8-block-w8a8"};
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
        sb_gate_case *c = check_case("linear", formats[f], "rows=3,n=129,k=129",
                                     SB_GATE_REGIME_normal, SB_DTYPE_BF16);
        check_contract(c);
        check_real(c);
        check_kernels(c);
        sb_gate_case_free(c);
    }
}

static const struct {
    const char *format;
    int fault;
    sb_gate_regime regime;
    const char *shape;
} faults[] = {
    {"nvfp4-ct", CHECK_NIBBLES, SB_GATE_REGIME_normal, SHAPE},
    {"nvfp4-modelopt", CHECK_NIBBLES, SB_GATE_REGIME_index, SHAPE},
    {"mxfp4", CHECK_NIBBLES, SB_GATE_REGIME_normal, SHAPE},
    {"nvfp4-ct", CHECK_SWIZZLED, SB_GATE_REGIME_normal, SHAPE},
    {"nvfp4-ct", CHECK_PADS, SB_GATE_REGIME_padding, "n=16,k=160"},
    {"nvfp4-w4a4", CHECK_PADS, SB_GATE_REGIME_padding, "n=16,k=160"},
    {"nvfp4-ct", CHECK_INVERTED, SB_GATE_REGIME_normal, SHAPE},
    {"nvfp4-modelopt", CHECK_INVERTED, SB_GATE_REGIME_normal, SHAPE},
    {"nvfp4-ct", CHECK_NEIGHBOUR, SB_GATE_REGIME_normal, SHAPE},
    {"fp8-block", CHECK_NEIGHBOUR, SB_GATE_REGIME_normal, SHAPE},
    {"nvfp4-ct", CHECK_HALF_SCALE, SB_GATE_REGIME_tiny, SHAPE},
    {"nvfp4-modelopt", CHECK_HALF_SCALE, SB_GATE_REGIME_least, SHAPE},
    {"fp8-block", CHECK_HALF_SCALE, SB_GATE_REGIME_least, SHAPE},
    {"fp8-channel", CHECK_HALF_SCALE, SB_GATE_REGIME_tiny, SHAPE},
    {"mxfp4", CHECK_HALF_SCALE, SB_GATE_REGIME_least, SHAPE},
    {"int4-gptq", CHECK_HALF_SCALE, SB_GATE_REGIME_subnormal, SHAPE},
    {"int4-awq", CHECK_HALF_SCALE, SB_GATE_REGIME_tiny, SHAPE},
    {"nvfp4-ct", CHECK_SUBNORMAL, SB_GATE_REGIME_subnormal, SHAPE},
    {"nvfp4-modelopt", CHECK_SUBNORMAL, SB_GATE_REGIME_subnormal, SHAPE},
    {"nvfp4-w4a4", CHECK_SUBNORMAL, SB_GATE_REGIME_subnormal, SHAPE},
    {"fp8-block", CHECK_CLAMP, SB_GATE_REGIME_normal, SHAPE},
    {"fp8-tensor", CHECK_CLAMP, SB_GATE_REGIME_normal, SHAPE},
    {"nvfp4-ct", CHECK_CLAMP, SB_GATE_REGIME_normal, SHAPE},
    {"fp8-block", CHECK_BLOCK, SB_GATE_REGIME_normal, SHAPE},
    {"fp8-block-w8a8", CHECK_BLOCK, SB_GATE_REGIME_normal, SHAPE},
    {"int4-gptq", CHECK_ZERO_POINT, SB_GATE_REGIME_normal, SHAPE},
    {"int8-gptq", CHECK_ZERO_POINT, SB_GATE_REGIME_normal, SHAPE},
    {"int4-awq", CHECK_WORDS, SB_GATE_REGIME_normal, SHAPE},
};

/* Faults are detected under the widest units of the format, also in outputs rounded to bfloat16. */
TEST(test_faults_of_kernels_show)
{
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        sb_gate_case *c = check_case("linear", faults[i].format, faults[i].shape, faults[i].regime,
                                     SB_DTYPE_BF16);
        float *got = run(c, faults[i].fault, LANES);
        size_t outside = check_outside(c, "nvfp4_mma", got, NULL);
        for (size_t e = 0; e < c->output[0].count; e++)
            got[e] = sb_round_to(SB_FORMAT_bf16, got[e]);
        size_t rounded = check_outside_rounded(c, "nvfp4_mma+bf16", SB_FORMAT_bf16, got);
        if (!outside || !rounded)
            fail_msg("%s %s: fault %d passes", faults[i].format,
                     sb_gate_regime_name(faults[i].regime), faults[i].fault);
        free(got);
        sb_gate_case_free(c);
    }
}

/* Regime normal misses faults for which another regime is made, as the kernels' own tests do. */
TEST(test_normal_values_hide_faults)
{
    static const struct {
        const char *format, *shape;
        int fault;
    } hidden[] = {{"nvfp4-ct", "n=16,k=160", CHECK_PADS}, {"int4-gptq", SHAPE, CHECK_HALF_SCALE}};
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++) {
        sb_gate_case *c = check_case("linear", hidden[i].format, hidden[i].shape,
                                     SB_GATE_REGIME_normal, SB_DTYPE_BF16);
        float *got = run(c, hidden[i].fault, FORWARDS);
        assert_int_equal(check_outside(c, "fp32", got, NULL), 0);
        free(got);
        sb_gate_case_free(c);
    }
}

TEST(test_shapes_that_a_format_does_not_have)
{
    static const char *const requests[][2] = {
        {"nvfp4-ct", "k=250"}, {"mxfp4", "k=240"}, {"int4-gptq", "n=129"}, {"int4-ct", "k=200"}};
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        const sb_gate_request r = {.op = "linear",
                                   .format = requests[i][0],
                                   .shape = requests[i][1],
                                   .input = SB_DTYPE_BF16};
        sb_error err = {{0}};
        sb_gate_case *c = NULL;
        assert_int_equal(sb_gate_case_make(&r, &c, &err), SB_ERR_USAGE);
        assert_non_null(strstr(err.text, "expected a multiple of"));
    }
}

/* Rows of inputs in other batches: the arrays derived from them are computed anew. */
TEST(test_rows_in_other_batches)
{
    check_batches("linear", "rows=4,n=8,k=128");
    check_batches("head", "rows=3,vocabulary=10,padded=12,k=32");
}

/* Inputs that no program would write, but a file can contain. */
TEST(test_damaged_inputs_are_refused)
{
    check_refused("linear", "nvfp4-ct", "weight_scale_swizzled", 0, 0x01010101, "without blocks");
    check_refused("linear", "nvfp4-ct", "weight_global_scale", 0, 0, "factor");
    check_refused("linear", "nvfp4-modelopt", "weight_scale_2", 0, 0x7f800000, "factor");
    check_refused("linear", "nvfp4-w4a4", "x_global_scale", 0, 0x42f6e979, "not a binary32 number");
    check_refused("linear", "fp8-block", "weight", 4, 0x7f, "not finite");
    check_refused("linear", "fp8-channel", "weight_scale", 0, 0x7f80, "not finite");
    check_refused("linear", "fp8-tensor", "weight_scale", 0, 0xbf800000, "not finite");
    check_refused("linear", "fp8-block-w8a8", "x_scale", 0, 0x3e9e0653, "binary32");
    check_refused("linear", "fp8-block-w8a8", "x", 0, 0xff, "binary32");
    check_refused("linear", "bf16", "x", 0, 0x7fc0, "binary32");
    check_refused("linear", "int4-gptq", "g_idx", 8, 3, "a group that does not exist");
    check_refused("linear", "int4-ct", "weight_shape", 0, 5, "another shape");
    check_refused("experts", "bf16", "topk_ids", 4, 6, "an id below 6");
    check_refused("experts", "bf16", "topk_weights", 4, 0x7f800000, "finite weight");
    check_refused("act_quant_nvfp4", "vllm_ref", "input_global_scale", 0, 0x80000000, "above 0");
}

/* The swizzled scales, read as tensor cores read them. */
TEST(test_scales_in_blocks)
{
    sb_gate_case *c = check_case("linear", "nvfp4-w4a4", "rows=130,n=136,k=320",
                                 SB_GATE_REGIME_normal, SB_DTYPE_BF16);
    static const char *const names[][2] = {{"weight_scale", "weight_scale_swizzled"},
                                           {"x_scale", "x_scale_swizzled"}};
    for (size_t i = 0; i < 2; i++) {
        const sb_gate_array *rows = sb_gate_input(c, names[i][0]),
                            *blocks = sb_gate_input(c, names[i][1]);
        assert_int_equal(blocks->shape[0], 256);
        assert_int_equal(blocks->shape[1], 20);
        for (size_t m = 0; m < rows->shape[0]; m++)
            for (size_t g = 0; g < 20; g++)
                assert_int_equal(rows->data[m * 20 + g],
                                 blocks->data[m / 128 * 2560 + g / 4 * 512 + m % 32 * 16 +
                                              m / 32 % 4 * 4 + g % 4]);
    }
    sb_gate_case_free(c);
}

TEST(test_head)
{
    const char *const *formats = sb_gate_op_head()->formats, *const *shapes =
                                                                 sb_gate_op_head()->shapes;
    for (size_t f = 0; formats[f]; f++)
        for (int regime = 0; regime < SB_GATE_REGIMES; regime++) {
            sb_gate_case *c = check_case("head", formats[f], "rows=1,vocabulary=60,padded=64",
                                         (sb_gate_regime)regime, SB_DTYPE_BF16);
            check_contract(c);
            check_kernels(c);
            sb_gate_case_free(c);
        }
    for (size_t s = 0; shapes[s]; s++) {
        sb_gate_case *c =
            check_case("head", NULL, shapes[s], SB_GATE_REGIME_padding, SB_DTYPE_BF16);
        check_contract(c);
        check_mistakes(c);
        sb_gate_case_free(c);
    }
}
