/* fp8_fast.c - sums of many E4M3 codes at once, and which of them are nearest ones beyond doubt. */
#include <string.h>

#include "tools/check/fp8.h"

enum { GROUP = SB_FP8_GROUP, LANES = SB_FP8_LANES };

/* The values, as F16 reads the bits of a code: below the least normal one an exponent too many is
 * taken away again. */
static void decode(const unsigned char *codes, float *values)
{
    uint32_t bits[GROUP], least[GROUP], sign[GROUP];
    float more[GROUP];
#pragma omp simd
    for (unsigned i = 0; i < GROUP; i++) {
        uint32_t magnitude = codes[i] & 0x7fu, subnormal = magnitude < 8 ? 1u << 23 : 0;
        sign[i] = (uint32_t)(codes[i] & 0x80u) << 24;
        bits[i] = (magnitude << 20) + (112u << 23) + subnormal;
        least[i] = subnormal ? 113u << 23 : 0;
    }
    memcpy(values, bits, sizeof bits);
    memcpy(more, least, sizeof least);
    for (unsigned i = 0; i < GROUP; i++)
        values[i] -= more[i];
    memcpy(bits, values, sizeof bits);
#pragma omp simd
    for (unsigned i = 0; i < GROUP; i++)
        bits[i] |= sign[i];
    memcpy(values, bits, sizeof bits);
}

static void add_values(const float *values, sb_fp8_lanes *l)
{
    for (unsigned i = 0; i < GROUP; i += LANES) {
        for (unsigned j = 0; j < LANES; j++) {
            float v = values[i + j], square = v * v;
            l->sum[j] += v;
            l->sum2[j] += square;
            l->sum4[j] += square * square;
        }
    }
}

/* V-31: "a fast test in binary32 cannot prove" - with the sign of the code, bits of the
 * quotient and bits of the value differ as the magnitudes do. */
static uint32_t add_weights(const float *values, const float *weights, float inverse,
                            sb_fp8_lanes *l)
{
    float quotients[GROUP];
    uint32_t t[GROUP], v[GROUP], doubt = 0;
    for (unsigned i = 0; i < GROUP; i += LANES) {
        for (unsigned j = 0; j < LANES; j++) {
            float quotient = weights[i + j] * inverse, error = values[i + j] - quotient;
            quotients[i + j] = quotient;
            l->error2[j] += error * error;
            l->master2[j] += quotient * quotient;
        }
    }
    memcpy(t, quotients, sizeof t);
    memcpy(v, values, sizeof v);
#pragma omp simd reduction(| : doubt)
    for (unsigned i = 0; i < GROUP; i++)
        doubt |= t[i] - v[i] + SB_FP8_REACH > 2 * SB_FP8_REACH;
    return doubt;
}

void sb_fp8_look_plain(const unsigned char *codes, const float *weights, unsigned groups,
                       float inverse, sb_fp8_lanes *out)
{
    sb_fp8_lanes l = {.zeros = 0};
    float values[GROUP];
    unsigned zeros = 0, top = 0;
    for (unsigned g = 0; g < groups; g++, codes += GROUP) {
        decode(codes, values);
        for (unsigned i = 0; i < GROUP; i++) {
            unsigned magnitude = codes[i] & 0x7fu;
            zeros += magnitude == 0;
            top = magnitude > top ? magnitude : top;
        }
        add_values(values, &l);
        if (weights)
            l.doubts |= add_weights(values, weights + (size_t)g * GROUP, inverse, &l) << g;
    }
    l.zeros = zeros;
    l.top = (unsigned char)top;
    *out = l;
}

#if defined(__x86_64__) && defined(__GNUC__)

#include <cpuid.h>

/* Not every compiler knows F16C by its name. */
static int has_avx2_f16c(void)
{
    unsigned a, b, c, d;
    return __builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

/* Asked once: under a hypervisor CPUID takes microseconds. */
sb_fp8_look_fn *sb_fp8_look(void)
{
    static _Atomic int answer = -1; /* all threads that ask at once store the same */
    if (answer < 0)
        answer = has_avx2_f16c();
    return answer ? sb_fp8_look_avx2 : sb_fp8_look_plain;
}

#else

sb_fp8_look_fn *sb_fp8_look(void)
{
    return sb_fp8_look_plain;
}

#endif
