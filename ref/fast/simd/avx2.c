#include "ref/fast/simd/rows.h"

#if (defined(__x86_64__) || defined(__i386__)) && defined(__GNUC__)

#include <cpuid.h>

#include "ref/fast/simd/avx2.h"
#include "ref/fast/simd/fixed.h"
#include "ref/fast/simd/tiles.h"
#include "ref/fast/dot/strips.h"

enum { STEP = 16 }; /* elements per iteration: four registers of four doubles */

typedef struct lanes {
    __m256d sum[2], magnitude[2];
} lanes;

AVX2 static inline void clear(lanes *acc)
{
    for (int i = 0; i < 2; i++) {
        acc->sum[i] = _mm256_setzero_pd();
        acc->magnitude[i] = _mm256_setzero_pd();
    }
}

/* Adds four exact products to accumulator i. */
AVX2 static inline void add4(lanes *acc, int i, __m128 a, __m128 b)
{
    __m256d product = _mm256_mul_pd(_mm256_cvtps_pd(a), _mm256_cvtps_pd(b));
    __m256d absolute = _mm256_andnot_pd(_mm256_set1_pd(-0.0), product);
    acc->sum[i] = _mm256_add_pd(acc->sum[i], product);
    acc->magnitude[i] = _mm256_add_pd(acc->magnitude[i], absolute);
}

/* Widens the second operand on loading, which avoids shuffles. */
AVX2 static inline void add8(lanes *acc, __m256 a, const float *b)
{
    add4(acc, 0, _mm256_castps256_ps128(a), _mm_loadu_ps(b));
    add4(acc, 1, _mm256_extractf128_ps(a, 1), _mm_loadu_ps(b + 4));
}

AVX2 static inline lanes both(const lanes *a, const lanes *b)
{
    lanes all;
    for (int i = 0; i < 2; i++) {
        all.sum[i] = _mm256_add_pd(a->sum[i], b->sum[i]);
        all.magnitude[i] = _mm256_add_pd(a->magnitude[i], b->magnitude[i]);
    }
    return all;
}

AVX2 static inline double across(__m256d x)
{
    __m128d pair = _mm_add_pd(_mm256_castpd256_pd128(x), _mm256_extractf128_pd(x, 1));
    return _mm_cvtsd_f64(_mm_add_sd(pair, _mm_unpackhi_pd(pair, pair)));
}

/* Adds up the lanes and adds `rest`, the sum of the terms that did not fill a step. */
AVX2 static inline sb_partial finish(const lanes *acc, sb_partial rest)
{
    sb_partial partial;
    partial.sum = across(_mm256_add_pd(acc->sum[0], acc->sum[1])) + rest.sum;
    partial.magnitude =
        across(_mm256_add_pd(acc->magnitude[0], acc->magnitude[1])) + rest.magnitude;
    return partial;
}

AVX2 static inline __m256 eight_bf16(const unsigned char *codes)
{
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)codes));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

AVX2 static inline __m256 eight_f16(const unsigned char *codes)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)codes));
}

AVX2 static sb_partial dot_f32(const float *a, const float *b, size_t n)
{
    lanes acc[2];
    size_t i = 0;
    clear(&acc[0]);
    clear(&acc[1]);
    for (; i + STEP <= n; i += STEP) {
        add8(&acc[0], _mm256_loadu_ps(a + i), b + i);
        add8(&acc[1], _mm256_loadu_ps(a + i + 8), b + i + 8);
    }
    lanes all = both(&acc[0], &acc[1]);
    return finish(&all, i < n ? sb_dot_scalar->f32(a + i, b + i, n - i) : (sb_partial){0, 0});
}

AVX2 static sb_partial dot_bf16(const unsigned char *w, const float *x, size_t n)
{
    lanes acc[2];
    size_t i = 0;
    clear(&acc[0]);
    clear(&acc[1]);
    for (; i + STEP <= n; i += STEP) {
        add8(&acc[0], eight_bf16(w + 2 * i), x + i);
        add8(&acc[1], eight_bf16(w + 2 * i + 16), x + i + 8);
    }
    lanes all = both(&acc[0], &acc[1]);
    return finish(&all, i < n ? sb_dot_scalar->bf16(w + 2 * i, x + i, n - i) : (sb_partial){0, 0});
}

AVX2 static sb_partial dot_f16(const unsigned char *w, const float *x, size_t n)
{
    lanes acc[2];
    size_t i = 0;
    clear(&acc[0]);
    clear(&acc[1]);
    for (; i + STEP <= n; i += STEP) {
        add8(&acc[0], eight_f16(w + 2 * i), x + i);
        add8(&acc[1], eight_f16(w + 2 * i + 16), x + i + 8);
    }
    lanes all = both(&acc[0], &acc[1]);
    return finish(&all, i < n ? sb_dot_scalar->f16(w + 2 * i, x + i, n - i) : (sb_partial){0, 0});
}

AVX2 static sb_partial dot_f64(const double *a, const double *b, size_t n)
{
    lanes acc;
    size_t i = 0;
    clear(&acc);
    for (; i + 8 <= n; i += 8)
        for (int l = 0; l < 2; l++) {
            size_t at = i + 4 * (size_t)l;
            __m256d product = _mm256_mul_pd(_mm256_loadu_pd(a + at), _mm256_loadu_pd(b + at));
            __m256d absolute = _mm256_andnot_pd(_mm256_set1_pd(-0.0), product);
            acc.sum[l] = _mm256_add_pd(acc.sum[l], product);
            acc.magnitude[l] = _mm256_add_pd(acc.magnitude[l], absolute);
        }
    return finish(&acc, i < n ? sb_dot_scalar->f64(a + i, b + i, n - i) : (sb_partial){0, 0});
}

/* Computes eight columns at a time, each in its own lane. */
AVX2 static void dot_columns(const float *a, size_t stride_a, const float *b, size_t stride_b,
                             size_t n, size_t count, sb_partial *partials)
{
    size_t j = 0;
    for (; j + 8 <= count; j += 8) {
        double sum[8], magnitude[8];
        lanes acc;
        clear(&acc);
        for (size_t i = 0; i < n; i++)
            add8(&acc, _mm256_set1_ps(a[i * stride_a]), b + i * stride_b + j);
        for (int l = 0; l < 2; l++) {
            _mm256_storeu_pd(sum + 4 * l, acc.sum[l]);
            _mm256_storeu_pd(magnitude + 4 * l, acc.magnitude[l]);
        }
        for (size_t l = 0; l < 8; l++)
            partials[j + l] = (sb_partial){sum[l], magnitude[l]};
    }
    if (j < count)
        sb_dot_scalar->columns(a, stride_a, b + j, stride_b, n, count - j, partials + j);
}

static const sb_dot_kernels avx2 = {
    .name = "avx2",
    .f32 = dot_f32,
    .bf16 = dot_bf16,
    .f16 = dot_f16,
    .f64 = dot_f64,
    .columns = dot_columns,
    .tile = &sb_tile_avx2,
#ifdef __x86_64__
    .strip = &sb_strips_avx2,
#endif
    .tile_inputs = {[SB_FORMAT_e2m1] = 12, [SB_FORMAT_e4m3] = 4},
    .row = {SB_ROWS_BUT_E2M1(SB_ROW_ENTRY, avx2)[SB_FORMAT_e2m1] = sb_avx2_fixed_e2m1},
    .arrange = {[SB_FORMAT_e2m1] = sb_avx2_arrange_fixed},
    .reads_scales = sb_avx2_reads_scales,
    .parts = sb_avx2_parts,
    .kept = sb_avx2_compensated,
};
const sb_dot_kernels *const sb_dot_avx2 = &avx2;

static int ask_cpu(void)
{
    unsigned eax, ebx, ecx = 0, edx;
    __builtin_cpu_init();
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & bit_F16C))
        return 0;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

/* The CPU is tested only once, because CPUID takes microseconds under a hypervisor. */
int sb_dot_avx2_supported(void)
{
    static int answer = -1;
    if (answer < 0)
        answer = ask_cpu();
    return answer;
}

#else

const sb_dot_kernels *const sb_dot_avx2 = NULL;

int sb_dot_avx2_supported(void)
{
    return 0;
}

#endif
