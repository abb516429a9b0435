#include "tools/make/bulk.h"

#include <stdatomic.h>
#include <stdint.h>

#include "ref/base/bytes.h"

enum { GROUP = SB_BULK_FP4_GROUP };

/* Every loop is compiled twice from the same source: for any CPU, and for AVX-512. */
#if defined(__x86_64__) && defined(__GNUC__)
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
static int wide(void)
{
    static _Atomic int answer = -1; /* under a hypervisor CPUID takes microseconds */
    int known = atomic_load_explicit(&answer, memory_order_relaxed);
    if (known < 0) {
        __builtin_cpu_init();
        known = __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                __builtin_cpu_supports("avx512vl");
        atomic_store_explicit(&answer, known, memory_order_relaxed);
    }
    return known;
}
#else
#define AVX512
static int wide(void)
{
    return 0;
}
#endif
#if defined(__GNUC__)
#define LOOP static inline __attribute__((always_inline)) void
#else
#define LOOP static inline void
#endif
#define BOTH(name, parameters, ...)                                                                \
    AVX512 static void name##_avx512 parameters                                                    \
    {                                                                                              \
        name(__VA_ARGS__);                                                                         \
    }                                                                                              \
    void sb_bulk_##name parameters                                                                 \
    {                                                                                              \
        if (wide())                                                                                \
            name##_avx512(__VA_ARGS__);                                                            \
        else                                                                                       \
            name(__VA_ARGS__);                                                                     \
    }

static inline uint32_t magnitude_bits(float x)
{
    return sb_bits_f32(x) & 0x7fffffffu;
}

/* sb_f32_to_bf16 of a number */
static inline uint32_t bf16_code(float x)
{
    uint32_t u = sb_bits_f32(x);
    return (u + 0x7fffu + (u >> 16 & 1u)) >> 16;
}

static inline float bf16(float x)
{
    return sb_f32_from_bits(bf16_code(x) << 16);
}

LOOP scale(float *values, size_t n, float mean, float spread)
{
    for (size_t i = 0; i < n; i++)
        values[i] = mean + spread * values[i];
}
BOTH(scale, (float *values, size_t n, float mean, float spread), values, n, mean, spread)

LOOP bf16_all(float *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        values[i] = bf16(values[i]);
}
#define sb_bulk_bf16_all sb_bulk_bf16
BOTH(bf16_all, (float *values, size_t n), values, n)

LOOP bf16_codes(const float *values, size_t n, unsigned char *bytes)
{
    for (size_t i = 0; i < n; i++)
        sb_store_u16(bytes + 2 * i, (uint16_t)bf16_code(values[i]));
}
BOTH(bf16_codes, (const float *values, size_t n, unsigned char *bytes), values, n, bytes)

/* The bits of magnitudes have the order of the magnitudes. */
LOOP largest_of(const float *weights, size_t n, float *out)
{
    uint32_t found = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t a = magnitude_bits(weights[i]);
        found = a > found ? a : found;
    }
    *out = sb_f32_from_bits(found);
}
BOTH(largest_of, (const float *weights, size_t n, float *out), weights, n, out)

LOOP largest(const float *weights, size_t groups, float *out)
{
    for (size_t g = 0; g < groups; g++)
        largest_of(weights + g * GROUP, GROUP, &out[g]);
}
BOTH(largest, (const float *weights, size_t groups, float *out), weights, groups, out)

/* The E2M1 code nearest to x, ties to the even code: the number of E2M1 values closer to 0. */
static inline uint32_t e2m1_code(float x)
{
    float a = sb_f32_from_bits(magnitude_bits(x));
    uint32_t code = (a > 0.25f ? 1u : 0u) + (a >= 0.75f ? 1u : 0u) + (a > 1.25f ? 1u : 0u) +
                    (a >= 1.75f ? 1u : 0u) + (a > 2.5f ? 1u : 0u) + (a >= 3.5f ? 1u : 0u) +
                    (a > 5.0f ? 1u : 0u);
    return code | (x < 0.0f ? 8u : 0u);
}

LOOP e2m1(const float *weights, const float *steps, size_t groups, unsigned char *codes)
{
    uint32_t one[GROUP];
    for (size_t g = 0; g < groups; g++) {
        for (size_t i = 0; i < GROUP; i++)
            one[i] = e2m1_code(weights[g * GROUP + i] / steps[g]);
        for (size_t i = 0; i < GROUP / 2; i++)
            codes[g * (GROUP / 2) + i] = (unsigned char)(one[2 * i] | one[2 * i + 1] << 4);
    }
}
BOTH(e2m1, (const float *weights, const float *steps, size_t groups, unsigned char *codes), weights,
     steps, groups, codes)

/* From 2^-6 on the code is the upper part of the rounded bits. Below, the code counts steps of
 * 2^-9; adding 2^23 rounds to integers. */
static inline unsigned char e4m3_code(float x)
{
    uint32_t a = magnitude_bits(x);
    uint32_t normal = ((a + 0x7ffffu + (a >> 20 & 1u)) >> 20) - (120u << 3);
    uint32_t steps = sb_bits_f32(sb_f32_from_bits(a) * 0x1p9f + 0x1p23f) - 0x4b000000u;
    uint32_t code = a < 0x3c800000u ? steps : normal;
    return (unsigned char)((code > 0x7eu ? 0x7eu : code) | (sb_bits_f32(x) >> 24 & 0x80u));
}

LOOP e4m3(const float *values, size_t n, unsigned char *codes)
{
    for (size_t i = 0; i < n; i++)
        codes[i] = e4m3_code(values[i]);
}
BOTH(e4m3, (const float *values, size_t n, unsigned char *codes), values, n, codes)

LOOP bf16_quotients(const float *weights, size_t n, float by, float zero, float *values)
{
    for (size_t i = 0; i < n; i++)
        values[i] = bf16(weights[i] / by) + zero;
}
BOTH(bf16_quotients, (const float *weights, size_t n, float by, float zero, float *values), weights,
     n, by, zero, values)
