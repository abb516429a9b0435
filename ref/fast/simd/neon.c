#include "ref/fast/simd/rows.h"
#include "ref/fast/simd/tiles.h"

/* Little-endian machines only, because codes are loaded in machine order. */
#if defined(__aarch64__) && defined(__AARCH64EL__) && defined(__ARM_NEON)

#include <arm_neon.h>

#define INLINE static inline __attribute__((always_inline))

enum { STEP = 8 }; /* elements per iteration: four registers of two doubles */

typedef struct lanes {
    float64x2_t sum[4], magnitude[4];
} lanes;

INLINE void clear(lanes *acc)
{
    for (int i = 0; i < 4; i++)
        acc->sum[i] = acc->magnitude[i] = vdupq_n_f64(0);
}

/* Adds two products to accumulator i. A product of two binary32 values is exact. */
INLINE void add2(lanes *acc, int i, float64x2_t a, float64x2_t b)
{
    const float64x2_t product = vmulq_f64(a, b);
    acc->sum[i] = vaddq_f64(acc->sum[i], product);
    acc->magnitude[i] = vaddq_f64(acc->magnitude[i], vabsq_f64(product));
}

/* Adds four products to accumulators i and i + 1. */
INLINE void add4(lanes *acc, int i, float32x4_t a, float32x4_t b)
{
    add2(acc, i, vcvt_f64_f32(vget_low_f32(a)), vcvt_f64_f32(vget_low_f32(b)));
    add2(acc, i + 1, vcvt_high_f64_f32(a), vcvt_high_f64_f32(b));
}

INLINE double across(const float64x2_t x[4])
{
    return vaddvq_f64(vaddq_f64(vaddq_f64(x[0], x[1]), vaddq_f64(x[2], x[3])));
}

/* Adds up the lanes and adds `rest`, the sum of the terms that did not fill a step. */
INLINE sb_partial finish(const lanes *acc, sb_partial rest)
{
    return (sb_partial){across(acc->sum) + rest.sum, across(acc->magnitude) + rest.magnitude};
}

INLINE float32x4_t of_f32(const float *at)
{
    return vld1q_f32(at);
}

INLINE float32x4_t of_bf16(const unsigned char *at)
{
    return vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(vld1_u8(at)), 16));
}

INLINE float32x4_t of_f16(const unsigned char *at)
{
    return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(at)));
}

/* A kernel for a row of `size`-byte codes, read by `of`, with one input. `rest`, an entry of the
 * scalar set, handles the elements that do not fill a step. */
#define ONE(name, type, size, of, rest)                                                            \
    static sb_partial name(const type *w, const float *x, size_t n)                                \
    {                                                                                              \
        lanes acc;                                                                                 \
        size_t i = 0;                                                                              \
        clear(&acc);                                                                               \
        for (; i + STEP <= n; i += STEP) {                                                         \
            add4(&acc, 0, of(w + i * (size)), vld1q_f32(x + i));                                   \
            add4(&acc, 2, of(w + (i + 4) * (size)), vld1q_f32(x + i + 4));                         \
        }                                                                                          \
        return finish(&acc, i < n ? sb_dot_scalar->rest(w + i * (size), x + i, n - i)              \
                                  : (sb_partial){0, 0});                                           \
    }
ONE(dot_f32, float, 1, of_f32, f32)
ONE(dot_bf16, unsigned char, 2, of_bf16, bf16)
ONE(dot_f16, unsigned char, 2, of_f16, f16)

static sb_partial dot_f64(const double *a, const double *b, size_t n)
{
    lanes acc;
    size_t i = 0;
    clear(&acc);
    for (; i + STEP <= n; i += STEP)
        for (int l = 0; l < 4; l++)
            add2(&acc, l, vld1q_f64(a + i + 2 * l), vld1q_f64(b + i + 2 * l));
    return finish(&acc, i < n ? sb_dot_scalar->f64(a + i, b + i, n - i) : (sb_partial){0, 0});
}

/* Computes eight columns at a time, each in its own lane. */
static void dot_columns(const float *a, size_t stride_a, const float *b, size_t stride_b, size_t n,
                        size_t count, sb_partial *partials)
{
    size_t j = 0;
    for (; j + STEP <= count; j += STEP) {
        lanes acc;
        clear(&acc);
        for (size_t i = 0; i < n; i++) {
            const float32x4_t factor = vdupq_n_f32(a[i * stride_a]);
            add4(&acc, 0, factor, vld1q_f32(b + i * stride_b + j));
            add4(&acc, 2, factor, vld1q_f32(b + i * stride_b + j + 4));
        }
        for (size_t l = 0; l < 4; l++) {
            sb_partial *to = partials + j + 2 * l;
            to[0] =
                (sb_partial){vgetq_lane_f64(acc.sum[l], 0), vgetq_lane_f64(acc.magnitude[l], 0)};
            to[1] =
                (sb_partial){vgetq_lane_f64(acc.sum[l], 1), vgetq_lane_f64(acc.magnitude[l], 1)};
        }
    }
    if (j < count)
        sb_dot_scalar->columns(a, stride_a, b + j, stride_b, n, count - j, partials + j);
}

static const sb_dot_kernels neon = {
    .name = "neon",
    .f32 = dot_f32,
    .bf16 = dot_bf16,
    .f16 = dot_f16,
    .f64 = dot_f64,
    .columns = dot_columns,
    .tile = &sb_tile_neon,
    .tile_inputs = {[SB_FORMAT_e2m1] = 4, [SB_FORMAT_e4m3] = 4},
    .row = {SB_ROWS(SB_ROW_ENTRY, neon)},
};
const sb_dot_kernels *const sb_dot_neon = &neon;

#else

const sb_dot_kernels *const sb_dot_neon = NULL;

#endif
