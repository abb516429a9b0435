/* test_gate_act.c - vectors of swiglu and of the quantization of inputs. */
#include "tests/lib/suite.h"

#include <math.h>
#include <mpfr.h>
#include <stdlib.h>
#include <string.h>

#include "ref/formats/format.h"
#include "tests/gate/check_op.h"

/* --- swiglu ----------------------------------------------------------------------------------- */

static float *run_swiglu(const sb_gate_case *c, int how)
{
    float *gate = sb_gate_values(c, "gate"), *up = sb_gate_values(c, "up");
    for (size_t i = 0; i < c->output[0].count; i++)
        gate[i] = how ? up[i] * gate[i] * (1.0f / (1.0f + expf(-gate[i])))
                      : gate[i] / (1.0f + expf(-gate[i])) * up[i];
    free(up);
    return gate;
}

static void check_real_swiglu(const sb_gate_case *c)
{
    float *gate = sb_gate_values(c, "gate"), *up = sb_gate_values(c, "up");
    mpfr_t y, e;
    mpfr_inits2(300, y, e, (mpfr_ptr)0);
    for (size_t i = 0; i < c->output[0].count; i++) {
        mpfr_set_d(e, -(double)gate[i], MPFR_RNDN);
        mpfr_exp(e, e, MPFR_RNDN);
        mpfr_add_ui(e, e, 1, MPFR_RNDN);
        mpfr_set_d(y, (double)gate[i] * (double)up[i], MPFR_RNDN);
        mpfr_div(y, y, e, MPFR_RNDN);
        double real = mpfr_get_d(y, MPFR_RNDN);
        mpfr_sub_d(y, y, c->output[0].real[i].hi, MPFR_RNDN);
        mpfr_sub_d(y, y, c->output[0].real[i].lo, MPFR_RNDN);
        assert_true(fabs(mpfr_get_d(y, MPFR_RNDN)) <= 0x1p-88 * fabs(real) + 0x1p-1000);
    }
    mpfr_clears(y, e, (mpfr_ptr)0);
    free(gate);
    free(up);
}

TEST(test_swiglu)
{
    const char *const *shapes = sb_gate_op_swiglu()->shapes;
    for (int regime = 0; regime < SB_GATE_REGIMES; regime++)
        for (size_t s = 0; s == 0 || shapes[s - 1]; s++) {
            sb_gate_case *c = check_case("swiglu", NULL, s ? shapes[s - 1] : NULL,
                                         (sb_gate_regime)regime, SB_DTYPE_BF16);
            if (s == 0)
                check_contract(c);
            check_real_swiglu(c);
            for (int how = 0; how < 2; how++) {
                float *got = run_swiglu(c, how);
                assert_int_equal(check_outside(c, "fp32", got, NULL), 0);
                for (size_t i = 0; i < c->output[0].count; i++)
                    got[i] = sb_round_to(SB_FORMAT_bf16, got[i]);
                assert_int_equal(check_outside_rounded(c, "fp32", SB_FORMAT_bf16, got), 0);
                free(got);
            }
            if (s == 0 && regime == SB_GATE_REGIME_normal)
                check_mistakes(c);
            sb_gate_case_free(c);
        }
}

/* --- quantized inputs ------------------------------------------------------------------------- */

/* The mistakes of a kernel. */
typedef enum slip {
    NO_SLIP,
    NEXT_ROW,   /* elements behind a group enter its maximum */
    LAST_LOST,  /* the last column of a group does not enter its maximum */
    SIGNED_MAX, /* the maximum of signed values, starting from 0 */
    AWAY,       /* ties go away from zero */
    CUT,        /* every value is truncated */
    SHORT,      /* the largest E4M3 value is 240 */
    WIDE_BLOCK, /* groups of 125 columns */
    INVERTED,   /* divides by the factor instead of multiplying, or vice versa */
    NIBBLES,    /* the even column in the high half */
    LINEAR,     /* scales_swizzled in row order */
    HALF        /* the scale is rounded to binary16 */
} slip;

/* The code of x in a format, found by comparing with all codes. */
static unsigned nearest(sb_format format, double x, slip how)
{
    const unsigned count = format == SB_FORMAT_e2m1 ? 8 : 0x7f;
    const double size = fabs(x), ends = how == SHORT && format == SB_FORMAT_e4m3 ? 240 : 1e9;
    unsigned best = 0;
    for (unsigned code = 1; code < count; code++) {
        double value = (double)sb_code_to_f32(format, code), left = fabs(size - value),
               before = fabs(size - (double)sb_code_to_f32(format, best));
        if (value > ends)
            break;
        if (how == CUT ? value <= size
                       : left < before || (left == before && (how == AWAY || code % 2 == 0)))
            best = code;
    }
    return best | (signbit(x) ? count == 8 ? 8u : 0x80u : 0);
}

typedef struct kernel {
    const sb_gate_case *c;
    slip how;
    uint32_t rows, k, group, groups;
    float *x, factor;
    float *out[SB_GATE_OUTPUTS];
} kernel;

static int starts(const kernel *k, const char *with)
{
    return strncmp(k->c->format, with, strlen(with)) == 0;
}

static float amax_of(const kernel *k, uint32_t row, uint32_t group)
{
    const uint32_t first = group * k->group;
    uint32_t end = first + k->group < k->k ? first + k->group : k->k;
    float amax = 0;
    end -= k->how == LAST_LOST && end - first > 1;
    if (k->how == NEXT_ROW) /* up to the length of a full group, and one element further */
        end = first + k->group + 1;
    for (uint32_t i = first; i < end; i++) {
        size_t at = (size_t)row * k->k + i;
        if (at >= (size_t)k->rows * k->k)
            break;
        amax = fmaxf(amax, k->how == SIGNED_MAX ? k->x[at] : fabsf(k->x[at]));
    }
    return amax;
}

/* Alternatives to the formulas of the laws: a division instead of a multiplication, and vice
 * versa. */
static float nvfp4_scale(const kernel *k, float amax, float G)
{
    float t = amax / 6.0f * G;
    if (starts(k, "modelopt")) {
        t = amax == 0 ? 1.0f : t;
        t = fmaxf(t, 0x1p-9f);
    }
    if (k->how == HALF)
        t = sb_round_to(SB_FORMAT_f16, amax / 6.0f) * G;
    float s = sb_code_to_f32(SB_FORMAT_e4m3, nearest(SB_FORMAT_e4m3, (double)t, k->how));
    return s == 0 && starts(k, "ct") ? 0.125f : s;
}

static float fp8_scale(const kernel *k, float amax)
{
    const float most = k->how == SHORT ? 240.0f : 448.0f;
    float y = amax * (1.0f / most), floor = 0;
    if (starts(k, "group-vllm_native") || starts(k, "token-vllm"))
        floor = 1.0f / 229376.0f;
    else if (starts(k, "group-vllm_cuda-ue8m0"))
        floor = 1e-10f;
    else if (starts(k, "group-vllm") || starts(k, "group-sglang"))
        floor = 1e-10f / 448.0f;
    y = fmaxf(y, floor);
    if (starts(k, "static"))
        return k->factor;
    if (starts(k, "group-vllm_cuda-ue8m0")) /* so that 448 y is at least amax */
        y = exp2f(ceilf(log2f(amax / most > floor ? amax / most : floor)));
    if (k->how == HALF)
        y = sb_round_to(SB_FORMAT_f16, y);
    return y == 0 && (starts(k, "group-ct") || starts(k, "token-ct")) ? 0x1p-23f : y;
}

static void run_group(kernel *k, uint32_t row, uint32_t group, int nvfp4)
{
    float m = starts(k, "kv") || starts(k, "modelopt") ? k->factor : 1.0f / k->factor;
    const float amax = amax_of(k, row, group);
    const size_t at = (size_t)row * k->groups + group;
    if (k->how == INVERTED)
        m = 1.0f / m;
    float s = nvfp4 ? nvfp4_scale(k, amax, 1.0f / m) : fp8_scale(k, amax);
    const sb_format format = nvfp4 ? SB_FORMAT_e2m1 : SB_FORMAT_e4m3;
    for (uint32_t i = group * k->group; i < k->k && i < (group + 1) * k->group; i++) {
        float x = k->x[(size_t)row * k->k + i], by = 1.0f / (nvfp4 ? s * m : s);
        unsigned code = s == 0 ? 0 : nearest(format, (double)(x * by), k->how);
        if (!nvfp4)
            k->out[0][(size_t)row * k->k + i] = (float)code;
        else
            k->out[0][((size_t)row * k->k + i) / 2] +=
                (float)(code << ((i % 2 != 0) != (k->how == NIBBLES) ? 4 : 0));
    }
    if (!nvfp4) {
        if (k->out[1])
            k->out[1][at] = s;
        return;
    }
    size_t groups = (k->groups + 3) / 4, place = row / 128 * groups * 512 + group / 4 * 512 +
                                                 row % 32 * 16 + row / 32 % 4 * 4 + group % 4;
    k->out[1][at] = (float)sb_f32_to_code(SB_FORMAT_e4m3, s);
    k->out[2][k->how == LINEAR ? row * groups * 4 + group : place] = k->out[1][at];
}

static kernel run(const sb_gate_case *c, slip how)
{
    const int nvfp4 = strcmp(c->op->name, "act_quant_nvfp4") == 0;
    kernel k = {.c = c,
                .how = how,
                .rows = (uint32_t)sb_gate_size(c, "rows"),
                .k = (uint32_t)sb_gate_size(c, "k"),
                .x = sb_gate_values(c, "x"),
                .factor = 1};
    const char *const names[] = {"input_scale", "input_global_scale"};
    for (size_t i = 0; i < 2; i++)
        if (sb_gate_input(c, names[i])) {
            float *factor = sb_gate_values(c, names[i]);
            k.factor = *factor;
            free(factor);
        }
    k.group = nvfp4 ? 16 : starts(&k, "group") ? 128 : k.k;
    k.groups = (k.k + k.group - 1) / k.group;
    if (how == WIDE_BLOCK)
        k.group = 125;
    for (size_t o = 0; o < c->outputs; o++)
        k.out[o] = calloc(c->output[o].count, sizeof *k.out[o]);
    for (uint32_t row = 0; row < k.rows; row++)
        for (uint32_t g = 0; g < k.groups; g++)
            run_group(&k, row, g, nvfp4);
    free(k.x);
    return k;
}

/* The number of elements, over all outputs, that are wrong under the arithmetic. */
static size_t wrong(const kernel *k, const char *arith)
{
    const sb_gate_arith ar = check_arith(arith);
    const sb_gate_case *c = k->c;
    size_t count = 0;
    for (size_t o = 0; o < c->outputs; o++) {
        const sb_gate_output *y = &c->output[o];
        double *bound = calloc(y->count, sizeof *bound);
        sb_error err = {{0}};
        assert_int_equal(sb_gate_bound(c, &ar, o, bound, &err), SB_OK);
        for (size_t i = 0; i < y->count; i++) {
            const double got = (double)k->out[o][i];
            if (y->kind == SB_GATE_VALUES)
                count += !(fabs(got - y->real[i].hi - y->real[i].lo) <= bound[i]);
            else
                count += k->out[o][i] != y->exact[i] && !c->op->open(c, &ar, o, i, got);
        }
        free(bound);
    }
    return count;
}

static void close_kernel(kernel *k)
{
    for (size_t o = 0; o < SB_GATE_OUTPUTS; o++)
        free(k->out[o]);
}

/* The expected codes are open to themselves, and the codes of another formula are accepted. */
static void check_act(const sb_gate_case *c)
{
    kernel own = {.c = c};
    for (size_t o = 0; o < c->outputs; o++)
        own.out[o] = c->output[o].exact;
    assert_int_equal(wrong(&own, "reference"), 0);
    assert_int_equal(wrong(&own, "fp32"), 0);
    for (size_t o = 0; o < c->outputs; o++) {
        const sb_gate_output *y = &c->output[o];
        const sb_gate_arith ar = check_arith("fp32");
        for (size_t i = 0; y->kind == SB_GATE_CHOICES && i < y->count; i++)
            if (!c->op->open(c, &ar, o, i, (double)y->exact[i]))
                fail_msg("%s %s %s: output %zu, element %zu is not open to itself", c->op->name,
                         c->format, sb_gate_regime_name(c->regime), o, i);
    }
    kernel k = run(c, NO_SLIP);
    size_t bad = wrong(&k, "fp32");
    if (bad)
        fail_msg("%s %s %s: a plain kernel is wrong in %zu elements", c->op->name, c->format,
                 sb_gate_regime_name(c->regime), bad);
    close_kernel(&k);
}

TEST(test_act_quant)
{
    const char *const ops[] = {"act_quant_nvfp4", "act_quant_fp8"};
    for (size_t o = 0; o < 2; o++) {
        const sb_gate_op *op = sb_gate_op_find(ops[o]);
        for (size_t f = 0; op->formats[f]; f++) {
            for (int regime = 0; regime < SB_GATE_REGIME_padding; regime++) {
                sb_gate_case *c =
                    check_case(ops[o], op->formats[f], NULL, (sb_gate_regime)regime, SB_DTYPE_BF16);
                check_act(c);
                sb_gate_case_free(c);
            }
            for (size_t s = 0; op->shapes[s]; s++) {
                sb_gate_case *c = check_case(ops[o], op->formats[f], op->shapes[s],
                                             SB_GATE_REGIME_normal, SB_DTYPE_F32);
                check_act(c);
                sb_gate_case_free(c);
            }
        }
    }
}

static const struct {
    const char *op, *format, *shape;
    slip how;
    sb_gate_regime regime;
} slips[] = {
    {"act_quant_nvfp4", "vllm_ref", NULL, NEXT_ROW, SB_GATE_REGIME_normal},
    {"act_quant_nvfp4", "vllm_ref", NULL, LAST_LOST, SB_GATE_REGIME_normal},
    {"act_quant_nvfp4", "vllm_ref", NULL, SIGNED_MAX, SB_GATE_REGIME_negative},
    {"act_quant_nvfp4", "vllm_ref", NULL, AWAY, SB_GATE_REGIME_ties},
    {"act_quant_nvfp4", "modelopt", NULL, AWAY, SB_GATE_REGIME_ties},
    {"act_quant_nvfp4", "ct", NULL, AWAY, SB_GATE_REGIME_ties},
    {"act_quant_nvfp4", "fast", NULL, CUT, SB_GATE_REGIME_normal},
    {"act_quant_nvfp4", "precise", NULL, SHORT, SB_GATE_REGIME_normal},
    {"act_quant_nvfp4", "vllm_ref", NULL, INVERTED, SB_GATE_REGIME_normal},
    {"act_quant_nvfp4", "modelopt", NULL, INVERTED, SB_GATE_REGIME_normal},
    {"act_quant_nvfp4", "vllm_ref", NULL, NIBBLES, SB_GATE_REGIME_normal},
    {"act_quant_nvfp4", "vllm_ref", "rows=40", LINEAR, SB_GATE_REGIME_normal},
    {"act_quant_nvfp4", "vllm_ref", NULL, HALF, SB_GATE_REGIME_tiny},
    {"act_quant_nvfp4", "vllm_ref", NULL, HALF, SB_GATE_REGIME_least},
    {"act_quant_fp8", "group-vllm_cuda", "k=200", NEXT_ROW, SB_GATE_REGIME_normal},
    {"act_quant_fp8", "group-vllm_native", "k=130", LAST_LOST, SB_GATE_REGIME_normal},
    {"act_quant_fp8", "group-sglang", NULL, SIGNED_MAX, SB_GATE_REGIME_negative},
    {"act_quant_fp8", "group-vllm_cuda-ue8m0", NULL, AWAY, SB_GATE_REGIME_ties},
    {"act_quant_fp8", "static-vllm", NULL, AWAY, SB_GATE_REGIME_ties},
    {"act_quant_fp8", "group-hf", NULL, CUT, SB_GATE_REGIME_normal},
    {"act_quant_fp8", "group-vllm_cuda", NULL, SHORT, SB_GATE_REGIME_normal},
    {"act_quant_fp8", "static-ct", NULL, SHORT, SB_GATE_REGIME_normal},
    {"act_quant_fp8", "group-vllm_triton", NULL, WIDE_BLOCK, SB_GATE_REGIME_normal},
    {"act_quant_fp8", "group-hf", NULL, HALF, SB_GATE_REGIME_tiny},
    {"act_quant_fp8", "token-sglang", NULL, HALF, SB_GATE_REGIME_least},
};

TEST(test_faults_of_kernels_show)
{
    for (size_t i = 0; i < sizeof slips / sizeof *slips; i++) {
        sb_gate_case *c = check_case(slips[i].op, slips[i].format, slips[i].shape, slips[i].regime,
                                     SB_DTYPE_BF16);
        kernel k = run(c, slips[i].how);
        if (!wrong(&k, "nvfp4_mma+bf16"))
            fail_msg("%s %s %s: slip %d passes", slips[i].op, slips[i].format,
                     sb_gate_regime_name(slips[i].regime), (int)slips[i].how);
        close_kernel(&k);
        sb_gate_case_free(c);
    }
}
