#include "tests/gate/check_op.h"

#include "tests/lib/cmocka.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/formats/format.h"
#include "ref/formats/small_float.h"
#include "ref/run/backend.h"
#include "tools/judge/fault/mistakes.h"
#include "tools/judge/gate/meta.h"

sb_gate_case *check_case(const char *op, const char *format, const char *shape,
                         sb_gate_regime regime, sb_dtype input)
{
    const sb_gate_request r = {.op = op,
                               .format = format,
                               .shape = shape,
                               .regime = sb_gate_regime_name(regime),
                               .input = input,
                               .seed = 42};
    sb_error err = {{0}};
    sb_gate_case *c = NULL;
    if (sb_gate_case_make(&r, &c, &err))
        fail_msg("%s %s %s %s: %s", op, format ? format : "", shape ? shape : "", r.regime,
                 err.text);
    return c;
}

sb_gate_arith check_arith(const char *name)
{
    sb_gate_arith ar;
    sb_error err = {{0}};
    if (sb_gate_arith_of(name, &ar, &err))
        fail_msg("%s", err.text);
    return ar;
}

static double *bounds(const sb_gate_case *c, const char *arith)
{
    const sb_gate_arith ar = check_arith(arith);
    double *bound = calloc(c->output[0].count, sizeof *bound);
    sb_error err = {{0}};
    assert_non_null(bound);
    if (sb_gate_bound(c, &ar, 0, bound, &err))
        fail_msg("%s %s: %s", c->op->name, arith, err.text);
    return bound;
}

size_t check_outside(const sb_gate_case *c, const char *arith, const float *got, double *worst)
{
    double *bound = bounds(c, arith), most = 0;
    size_t outside = 0;
    for (size_t i = 0; i < c->output[0].count; i++) {
        const sb_dd real = c->output[0].real[i];
        double error = fabs((double)got[i] - real.hi - real.lo);
        if (!(error <= bound[i]))
            outside++;
        double ratio = error == 0 ? 0 : error / bound[i];
        most = ratio > most || ratio != ratio ? ratio : most;
    }
    free(bound);
    if (worst)
        *worst = most;
    return outside;
}

size_t check_outside_rounded(const sb_gate_case *c, const char *arith, sb_format format,
                             const float *got)
{
    double *bound = bounds(c, arith);
    size_t outside = 0;
    for (size_t i = 0; i < c->output[0].count; i++) {
        double real = c->output[0].real[i].hi;
        float low = sb_round_to(format, (float)(real - bound[i])),
              high = sb_round_to(format, (float)(real + bound[i]));
        outside += !(low <= got[i] && got[i] <= high);
    }
    free(bound);
    return outside;
}

void check_contract(const sb_gate_case *c)
{
    static const char *const ariths[] = {"fp32",          "bf16_mma",      "fp8_mma",
                                         "nvfp4_mma",     "reference",     "fp32+bf16",
                                         "bf16_mma+bf16", "nvfp4_mma+f16", NULL};
    char label[200];
    snprintf(label, sizeof label, "%s %s %s", c->op->name, c->format,
             sb_gate_regime_name(c->regime));
    for (size_t a = 0; ariths[a]; a++) {
        double worst;
        size_t outside = check_outside(c, ariths[a], c->output[0].exact, &worst);
        if (outside)
            fail_msg("%s: exact is outside %s in %zu elements, %g of the bound", label, ariths[a],
                     outside, worst);
    }
    double *bound = bounds(c, "bf16_mma");
    size_t wide = 0, values = 0;
    for (size_t i = 0; i < c->output[0].count; i++) {
        double real = fabs(c->output[0].real[i].hi);
        assert_true(isfinite(real));
        values += real > 0;
        wide += real > 0 && !(bound[i] < real / 4);
    }
    free(bound);
    if (values == 0 || 2 * wide > values)
        fail_msg("%s: shows little: of %zu elements that are not 0 %zu have a wide bound", label,
                 values, wide);
}

void check_mistakes(const sb_gate_case *c)
{
    sb_knobs knobs;
    sb_knobs_exact(&knobs);
    float *got = calloc(c->output[0].count, sizeof *got);
    float *out[SB_GATE_OUTPUTS] = {got};
    for (size_t i = 0; sb_mistakes[i].name; i++) {
        const sb_planted *m = &sb_mistakes[i];
        int used = 0;
        for (size_t u = 0; u < c->op->use_count; u++)
            used |= c->op->uses[u] == m->op;
        int plain = strncmp(c->format, "bf16", 4) == 0 || c->format[0] == 0;
        if (!used || (m->benign && !plain)) /* a benign one needs plain weights */
            continue;
        sb_op_table ops = sb_backend_ref()->ops;
        m->plant(&ops);
        assert_int_equal(sb_gate_exact(c, &knobs, &ops, out), SB_OK);
        size_t outside = check_outside(c, "bf16_mma", got, NULL);
        if (m->benign ? outside != 0 : outside == 0)
            fail_msg("%s %s: %s: %zu elements outside", c->op->name, c->format, m->name, outside);
    }
    free(got);
}

/* The reference as a kernel. Values are written as F32, choices as U32. */
static sb_status reference(void *ctx, const sb_gate_case *c, const sb_gate_target *out)
{
    float *values[SB_GATE_OUTPUTS] = {NULL};
    sb_knobs knobs;
    (void)ctx;
    sb_knobs_exact(&knobs);
    for (size_t o = 0; o < c->outputs; o++)
        values[o] = calloc(c->output[o].count, sizeof *values[o]);
    sb_status status = sb_gate_exact(c, &knobs, &sb_backend_ref()->ops, values);
    for (size_t o = 0; o < c->outputs; o++) {
        for (size_t i = 0; i < c->output[o].count; i++) {
            uint32_t bits = c->output[o].kind == SB_GATE_CHOICES ? (uint32_t)values[o][i]
                                                                 : sb_bits_f32(values[o][i]);
            sb_store_u32(out[o].data + 4 * i, bits);
        }
        free(values[o]);
    }
    return status;
}

void check_batches(const char *op, const char *shape)
{
    static const char *const none[] = {NULL, NULL};
    const char *const *formats = sb_gate_op_find(op)->formats;
    const sb_gate_meta_options options = {.kernel = reference, .repeats = 2};
    formats = formats ? formats : none;
    for (size_t f = 0; f == 0 || formats[f]; f++) {
        sb_gate_case *c = check_case(op, formats[f], shape, SB_GATE_REGIME_normal, SB_DTYPE_BF16);
        sb_gate_meta m;
        sb_error err = {{0}};
        if (sb_gate_meta_run(c, &options, &m, &err))
            fail_msg("%s", err.text);
        for (int kind = 0; kind < SB_GATE_METAS; kind++)
            if (m.row[kind].verdict != SB_VERDICT_IDENTICAL)
                fail_msg("%s %s %s: %s", op, c->format, sb_gate_meta_name((sb_gate_meta_kind)kind),
                         m.row[kind].words);
        sb_gate_case_free(c);
    }
}

void check_refused(const char *op, const char *format, const char *array, size_t at, uint32_t bytes,
                   const char *words)
{
    sb_gate_case *c = check_case(op, format, NULL, SB_GATE_REGIME_normal, SB_DTYPE_BF16);
    sb_gate_case damaged = *c;
    sb_error err = {{0}};
    damaged.outputs = 0;
    sb_store_u32(sb_gate_input(c, array)->data + at, bytes);
    sb_status status = sb_gate_declare(&damaged, &err);
    if (status != SB_ERR_INPUT || !strstr(err.text, words))
        fail_msg("%s %s: %s is not refused: %s", op, c->format, array, err.text);
    for (size_t i = 0; i < damaged.outputs; i++) {
        free(damaged.output[i].real);
        free(damaged.output[i].exact);
    }
    sb_gate_case_free(c);
}

/* --- weights decoded from their bytes --------------------------------------------------------- */

static const unsigned char *tensor(const check_weight *w, const char *suffix)
{
    const size_t length = strlen(w->prefix);
    const sb_gate_array *a = NULL;
    for (size_t i = 0; i < w->c->arrays && !a; i++)
        if (memcmp(w->c->array[i].name, w->prefix, length) == 0 &&
            strcmp(w->c->array[i].name + length, suffix) == 0)
            a = &w->c->array[i];
    if (!a)
        fail_msg("%s: no tensor %s%s", w->c->format, w->prefix, suffix);
    int stacked = strncmp(a->axes, "expert", 6) == 0;
    return a->data + (stacked ? a->bytes / a->shape[0] * w->expert : 0);
}

/* Like tensor, for scales and factors. */
static const unsigned char *scales_of(const check_weight *w, const char *suffix)
{
    check_weight of = *w;
    if (w->fault == CHECK_OTHER_STACK)
        of.expert = (w->expert + 1) % (uint32_t)sb_gate_size(w->c, "experts");
    return tensor(&of, suffix);
}

/* The row whose scale is read for row `row`. */
static uint32_t scale_row(const check_weight *w, uint32_t row)
{
    return w->fault == CHECK_OTHER_HALF ? (row + w->rows / 2) % w->rows : row;
}

static float f32_at(const unsigned char *bytes, size_t i)
{
    return sb_f32_from_bits(sb_load_u32(bytes + 4 * i));
}

static double e4m3(const check_weight *w, unsigned char code)
{
    double x = (double)sb_e4m3_to_f32(code);
    if (w->fault == CHECK_CLAMP)
        x = x > 240 ? 240 : x < -240 ? -240 : x;
    return x;
}

/* The product of a scale and its factor, as a kernel computes it. */
static double joined(const check_weight *w, double scale, double factor)
{
    if (w->fault == CHECK_SUBNORMAL && scale < 0x1p-6)
        scale = 0;
    if (w->fault == CHECK_HALF_SCALE)
        return (double)sb_round_to(SB_FORMAT_f16, (float)(scale * factor));
    return scale * factor;
}

static const double e2m1[16] = {0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6};

static double fp4_code(const check_weight *w, const char *suffix, uint32_t row, uint32_t col)
{
    unsigned char byte = tensor(w, suffix)[(size_t)row * (w->cols / 2) + col / 2];
    int high = (col % 2) != (w->fault == CHECK_NIBBLES);
    return e2m1[high ? byte >> 4 : byte & 15];
}

static double nvfp4(const check_weight *w, int divisor, uint32_t row, uint32_t col)
{
    const int input = strcmp(w->prefix, "x") == 0;
    uint32_t groups = w->cols / 16, g = col / 16;
    if (w->fault == CHECK_NEIGHBOUR)
        g = (g + 1) % groups;
    unsigned char scale =
        scales_of(w, input ? "_scale" : "weight_scale")[scale_row(w, row) * groups + g];
    if (w->fault == CHECK_SWIZZLED)
        scale = tensor(w, "weight_scale_swizzled")[row * ((groups + 3) / 4 * 4) + g];
    double factor = (double)f32_at(scales_of(w, input     ? "_global_scale"
                                                : divisor ? "weight_global_scale"
                                                          : "weight_scale_2"),
                                   w->factor);
    factor = divisor != (w->fault == CHECK_INVERTED) ? 1 / factor : factor;
    double code = fp4_code(w, input ? "_packed" : divisor ? "weight_packed" : "weight", row, col);
    double pads = 0;
    if (w->fault == CHECK_PADS && col == 0)
        for (uint32_t p = groups; p < (groups + 3) / 4 * 4; p++)
            pads +=
                0 *
                (double)sb_e4m3_to_f32(tensor(
                    w,
                    input
                        ? "_scale_swizzled"
                        : "weight_scale_swizzled")[(row / 128 * ((groups + 3) / 4) + p / 4) * 512 +
                                                   row % 32 * 16 + row / 32 % 4 * 4 + p % 4]);
    return code * joined(w, e4m3(w, scale), factor) + pads;
}

static double fp8(const check_weight *w, uint32_t row, uint32_t col)
{
    const char *format = w->c->format;
    double code = e4m3(w, tensor(w, "weight")[(size_t)row * w->cols + col]), scale;
    uint32_t across = (w->cols + 127) / 128, block = w->fault == CHECK_BLOCK ? 125 : 128;
    uint32_t at = col / block < across ? col / block : across - 1;
    if (w->fault == CHECK_NEIGHBOUR)
        at = (at + 1) % across;
    if (strncmp(format, "fp8-block-ue8m0", 15) == 0)
        scale =
            (double)f32_at(scales_of(w, "weight_scale_inv"), scale_row(w, row) / 128 * across + at);
    else if (strncmp(format, "fp8-block", 9) == 0)
        scale = (double)sb_bf16_to_f32(
            sb_load_u16(scales_of(w, "weight_scale_inv") +
                        2 * (size_t)(scale_row(w, row) / 128 * across + at)));
    else if (strncmp(format, "fp8-channel", 11) == 0)
        scale = (double)sb_bf16_to_f32(
            sb_load_u16(scales_of(w, "weight_scale") + 2 * (size_t)scale_row(w, row)));
    else
        scale = (double)f32_at(scales_of(w, "weight_scale"), w->factor);
    return code * joined(w, scale, 1);
}

static double mx(const check_weight *w, uint32_t row, uint32_t col)
{
    double scale =
        ldexp(1, tensor(w, "weight_scale")[(size_t)row * (w->cols / 32) + col / 32] - 127);
    if (strcmp(w->c->format, "mxfp4") == 0)
        return fp4_code(w, "weight_packed", row, col) * joined(w, scale, 1);
    return e4m3(w, tensor(w, "weight")[(size_t)row * w->cols + col]) * joined(w, scale, 1);
}

static double half_at(const unsigned char *bytes, size_t i)
{
    return (double)sb_f16_to_f32(sb_load_u16(bytes + 2 * i));
}

static uint32_t word_at(const unsigned char *bytes, size_t i)
{
    return sb_load_u32(bytes + 4 * i);
}

static double integers(const check_weight *w, uint32_t row, uint32_t col)
{
    static const unsigned awq[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    const char *format = w->c->format;
    const size_t n = w->rows, k = w->cols;
    const size_t group = strcmp(format, "int8-gptq") == 0 || k % 128 ? 32 : 128, g = col / group;
    if (strcmp(format, "int4-ct") == 0) {
        uint32_t code =
            word_at(tensor(w, "weight_packed"), row * (k / 8) + col / 8) >> 4 * (col % 8) & 15;
        double scale = (double)sb_bf16_to_f32(
            sb_load_u16(scales_of(w, "weight_scale") + 2 * (scale_row(w, row) * (k / group) + g)));
        return ((double)code - 8) * joined(w, scale, 1);
    }
    double scale = joined(w, half_at(tensor(w, "scales"), g * n + row), 1);
    int one = w->fault == CHECK_ZERO_POINT ? 0 : 1;
    if (w->fault == CHECK_HALF_SCALE && scale < 0x1p-14)
        scale = 0;
    if (strcmp(format, "int4-awq") == 0) {
        unsigned shift = 4 * (w->fault == CHECK_WORDS ? row % 8 : awq[row % 8]);
        uint32_t code = word_at(tensor(w, "qweight"), col * (n / 8) + row / 8) >> shift & 15;
        uint32_t zero = word_at(tensor(w, "qzeros"), g * (n / 8) + row / 8) >> shift & 15;
        return ((double)code - (double)zero) * scale;
    }
    const unsigned bits = strcmp(format, "int8-gptq") == 0 ? 8 : 4, per = 32 / bits;
    const uint32_t mask = (1u << bits) - 1;
    uint32_t code = word_at(tensor(w, "qweight"), col / per * n + row) >> col % per * bits & mask;
    uint32_t zero =
        word_at(tensor(w, "qzeros"), g * (n / per) + row / per) >> row % per * bits & mask;
    return ((double)code - (double)zero - one) * scale;
}

double check_value(const check_weight *w, uint32_t row, uint32_t column)
{
    const char *format = w->c->format;
    const size_t at = (size_t)row * w->cols + column;
    if (strcmp(format, "bf16") == 0)
        return (double)sb_bf16_to_f32(sb_load_u16(tensor(w, "weight") + 2 * at));
    if (strcmp(format, "f16") == 0)
        return half_at(tensor(w, "weight"), at);
    if (strcmp(format, "f32") == 0)
        return (double)f32_at(tensor(w, "weight"), at);
    if (strncmp(format, "nvfp4", 5) == 0)
        return nvfp4(w, strcmp(format, "nvfp4-modelopt") != 0, row, column);
    if (strncmp(format, "fp8", 3) == 0)
        return fp8(w, row, column);
    return strncmp(format, "mx", 2) == 0 ? mx(w, row, column) : integers(w, row, column);
}
