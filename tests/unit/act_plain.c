#include "tests/unit/act_plain.h"

#include <math.h>
#include <string.h>

#include "ref/ops/knob.h"

static double single(double x)
{
    return (double)(float)x;
}

static double narrow(const sb_knobs *knobs, double x)
{
    return (double)sb_act(knobs, (float)x);
}

static double e4m3_value(int code)
{
    return code < 8 ? code / 512.0 : (8 + code % 8) * (double)(1 << code / 8) / 1024;
}

static double e2m1_value(int code)
{
    static const double values[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    return values[code];
}

static double nearest(double x, double (*value)(int), int codes)
{
    double a = fmin(fabs(x), value(codes - 1)); /* for NaN: the largest */
    int best = 0;
    for (int code = 1; code < codes; code++) {
        double mine = fabs(value(code) - a), least = fabs(value(best) - a);
        if (mine > least) /* values ascend */
            break;
        if (mine < least || (mine == least && code % 2 == 0))
            best = code;
    }
    return isnan(x) ? value(best) : copysign(value(best), x);
}

double plain_e4m3(double x)
{
    return nearest(x, e4m3_value, 0x7f);
}

double plain_e2m1(double x)
{
    return nearest(x, e2m1_value, 8);
}

static double flush(double x)
{
    return fabs(x) < 0x1p-126 ? 0 : x;
}

static double rcp(double x)
{
    return flush(single(1 / flush(x)));
}

static double largest(const float *x, size_t n)
{
    double most = 0;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)x[i]));
    return most;
}

/* The factor of the file as a divisor, and as a multiplier. */
static double divisor(sb_factor f)
{
    return f.kind == SB_DIVISOR ? (double)f.value : single(1 / (double)f.value);
}

static double multiplier(sb_factor f)
{
    return f.kind == SB_DIVISOR ? single(1 / (double)f.value) : (double)f.value;
}

static double nvfp4_scale(const sb_knobs *k, const char *form, sb_factor input, double amax)
{
    double G = divisor(input), sixth = single(1.0 / 6), s;
    if (strcmp(form, "ct") == 0)
        s = single(G * narrow(k, single(amax / 6)));
    else if (strcmp(form, "kv") == 0)
        s = single(rcp(multiplier(input)) * single(amax * rcp(6)));
    else if (strcmp(form, "precise") == 0)
        s = single(amax * single(G * sixth));
    else
        s = single(G * single(amax * (strcmp(form, "fast") == 0 ? rcp(6) : sixth)));
    if (strcmp(form, "modelopt") == 0) {
        s = single(amax / single(6 * multiplier(input)));
        s = s == 0 ? 1 : fmax(s, 0x1p-9);
    }
    s = isnan(s) ? s : plain_e4m3(s);
    return s == 0 && strcmp(form, "ct") == 0 ? 0.125 : s;
}

/* The quotient that E2 rounds. */
static double nvfp4_quotient(const char *form, sb_factor input, double x, double s)
{
    double G = divisor(input), by;
    if (strcmp(form, "ct") == 0)
        return single(x / single(s / G));
    if (strcmp(form, "modelopt") == 0)
        return single(x / single(s * multiplier(input)));
    if (strcmp(form, "fast") == 0)
        by = rcp(single(s * rcp(G)));
    else if (strcmp(form, "kv") == 0)
        by = rcp(single(s * multiplier(input)));
    else if (strcmp(form, "vllm_triton") == 0)
        by = single(G / s);
    else
        by = single(1 / single(s * single(1 / G)));
    if (strcmp(form, "precise") == 0)
        by = fmin(by, (double)0x1.fffffep127f);
    return single(x * by);
}

/* The least power of two that is not below y; 0 remains 0. */
static double power_above(double y)
{
    double p = 0x1p-127;
    while (y > 0 && p < y)
        p *= 2;
    return y > 0 ? p : 0;
}

static double group_scale(const sb_knobs *k, const char *form, double amax)
{
    double floor = (double)1e-10f, unit = SB_IS(k, act, bf16)  ? 0x1p-7
                                          : SB_IS(k, act, f16) ? 0x1p-10
                                                               : 0x1p-23;
    int powers = SB_IS(k, fp8_scale, ue8m0);
    double y = single(fmax(amax, floor) / 448);
    if (strcmp(form, "vllm_cuda") == 0)
        return powers ? power_above(fmax(y, floor)) : y;
    if (strcmp(form, "vllm_triton") == 0)
        y = single(fmax(amax, floor) * single(1.0 / 448));
    else if (strcmp(form, "sglang") != 0)
        y = single(amax / 448);
    if (strcmp(form, "ct") == 0)
        y = narrow(k, y);
    if (powers)
        y = power_above(y);
    if (strcmp(form, "vllm_native") == 0)
        return fmax(y, single(1.0 / 229376));
    return strcmp(form, "ct") == 0 && y == 0 ? unit : y;
}

static double token_scale(const sb_knobs *k, const char *form, double amax)
{
    sb_knobs plain = *k;
    plain.value[SB_KNOB_fp8_scale] = SB_fp8_scale_f32;
    if (strcmp(form, "ct") == 0)
        return group_scale(&plain, "ct", amax);
    return strcmp(form, "sglang") == 0 ? single(amax / 448)
                                       : fmax(single(amax / 448), single(1.0 / 229376));
}

/* True for the forms that multiply with the reciprocal of the scale. */
static int inverts(const char *scheme, const char *form)
{
    return strcmp(form, "sglang") == 0 || (strcmp(scheme, "static") == 0 && *form == 'v') ||
           (strcmp(scheme, "token") == 0 && strcmp(form, "vllm_native") == 0);
}

static double fp8_code(const sb_knobs *k, const char *scheme, const char *form, double x, double y)
{
    if (y == 0)
        return 0;
    double q = inverts(scheme, form) ? single(x * single(1 / y)) : single(x / y);
    return plain_e4m3(strcmp(form, "ct") == 0 ? narrow(k, q) : q);
}

/* 2^(floor(log2 a) - m), doubled if the fraction of a is at least 1.75, and at least 2^-127. NaN
 * where the power before the division by 2^m would be 2^128. */
static double mx_scale(double amax, int m)
{
    int e;
    double f = frexp(amax, &e); /* 0.5 <= f < 1 */
    if (e == 128 && f >= 0.875)
        return (double)NAN;
    return amax == 0 ? 0x1p-127 : fmax(ldexp(1, e - 1 + (f >= 0.875) - m), 0x1p-127);
}

plain_group plain_quantize(const sb_knobs *knobs, const char *scheme, const char *form,
                           sb_factor input, const float *x, size_t n)
{
    plain_group g = {.scale = 1};
    double amax = largest(x, n), S = (double)input.value;
    if (strcmp(scheme, "group") == 0)
        g.scale = group_scale(knobs, form, amax);
    else if (strcmp(scheme, "token") == 0)
        g.scale = token_scale(knobs, form, amax);
    else if (strcmp(scheme, "nvfp4") == 0)
        g.scale = nvfp4_scale(knobs, form, input, amax);
    else if (*scheme == 'm')
        g.scale = mx_scale(amax, strcmp(scheme, "mxfp4") == 0 ? 2 : 8);
    if (strcmp(scheme, "static") == 0 && input.kind == SB_DIVISOR)
        S = single(1 / S);
    for (size_t i = 0; i < n; i++) {
        double v = (double)x[i];
        if (strcmp(scheme, "nvfp4") == 0) {
            double q = nvfp4_quotient(form, input, v, g.scale);
            g.code[i] = g.scale == 0 ? 0 : plain_e2m1(q);
        } else if (*scheme == 'm') {
            double q = narrow(knobs, single(v / g.scale));
            g.code[i] = strcmp(scheme, "mxfp4") == 0 ? plain_e2m1(q) : plain_e4m3(q);
        } else {
            g.code[i] = fp8_code(knobs, scheme, form, v, *scheme == 's' ? S : g.scale);
        }
    }
    return g;
}
