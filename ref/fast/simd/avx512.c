#include "ref/fast/dot/kernels.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include "ref/fast/simd/avx512.h"
#include "ref/fast/simd/fixed.h"
#include "ref/fast/simd/tiles.h"
#include "ref/fast/dot/strips.h"

typedef struct lanes {
    __m512d sum[2], magnitude[2];
} lanes;

INLINE void clear(lanes *acc)
{
    for (int i = 0; i < 2; i++)
        acc->sum[i] = acc->magnitude[i] = _mm512_setzero_pd();
}

/* Adds eight products to accumulator i. A product of two binary32 values is exact. */
INLINE void add8(lanes *acc, int i, __m512d a, __m512d b)
{
    __m512d product = _mm512_mul_pd(a, b);
    acc->sum[i] = _mm512_add_pd(acc->sum[i], product);
    acc->magnitude[i] = _mm512_add_pd(acc->magnitude[i], _mm512_abs_pd(product));
}

INLINE sb_partial finish(const lanes *acc)
{
    return (sb_partial){_mm512_reduce_add_pd(_mm512_add_pd(acc->sum[0], acc->sum[1])),
                        _mm512_reduce_add_pd(_mm512_add_pd(acc->magnitude[0], acc->magnitude[1]))};
}

/* A kernel for a row of `size`-byte codes, read by `of`, with one input. */
#define ONE(name, type, size, of)                                                                  \
    AVX512 static sb_partial name(const type *w, const float *x, size_t n)                         \
    {                                                                                              \
        lanes acc;                                                                                 \
        clear(&acc);                                                                               \
        for (size_t i = 0; i < n; i += STEP) {                                                     \
            const __mmask16 mask = first_of(n - i);                                                \
            const __m512 a = of(w + i * (size), mask), b = of_f32(x + i, mask);                    \
            add8(&acc, 0, low(a), low(b));                                                         \
            add8(&acc, 1, high(a), high(b));                                                       \
        }                                                                                          \
        return finish(&acc);                                                                       \
    }
ONE(dot_f32, float, 1, of_f32)
ONE(dot_bf16, unsigned char, 2, of_bf16)
ONE(dot_f16, unsigned char, 2, of_f16)

AVX512 static sb_partial dot_f64(const double *a, const double *b, size_t n)
{
    lanes acc;
    clear(&acc);
    for (size_t i = 0; i < n; i += STEP) {
        const __mmask16 mask = first_of(n - i);
        const __mmask8 first = (__mmask8)mask, second = (__mmask8)(mask >> 8);
        add8(&acc, 0, _mm512_maskz_loadu_pd(first, a + i), _mm512_maskz_loadu_pd(first, b + i));
        if (second)
            add8(&acc, 1, _mm512_maskz_loadu_pd(second, a + i + 8),
                 _mm512_maskz_loadu_pd(second, b + i + 8));
    }
    return finish(&acc);
}

/* Computes sixteen columns at a time, each in its own lane. */
AVX512 static void dot_columns(const float *a, size_t stride_a, const float *b, size_t stride_b,
                               size_t n, size_t count, sb_partial *partials)
{
    for (size_t j = 0; j < count; j += STEP) {
        const size_t here = count - j < STEP ? count - j : STEP;
        const __mmask16 mask = first_of(here);
        double sum[STEP], magnitude[STEP];
        lanes acc;
        clear(&acc);
        for (size_t i = 0; i < n; i++) {
            const __m512 row = of_f32(b + i * stride_b + j, mask);
            const __m512d factor = _mm512_set1_pd((double)a[i * stride_a]);
            add8(&acc, 0, factor, low(row));
            add8(&acc, 1, factor, high(row));
        }
        for (int l = 0; l < 2; l++) {
            _mm512_storeu_pd(sum + 8 * l, acc.sum[l]);
            _mm512_storeu_pd(magnitude + 8 * l, acc.magnitude[l]);
        }
        for (size_t l = 0; l < here; l++)
            partials[j + l] = (sb_partial){sum[l], magnitude[l]};
    }
}

/* Each magnitude passes through at most four roundings. */
AVX512 static void magnitudes(const double *x, size_t count, double *sums)
{
    for (size_t i = 0; i < count; i++) {
        const __m512d a = _mm512_abs_pd(_mm512_load_pd(x + 16 * i));
        const __m512d b = _mm512_abs_pd(_mm512_load_pd(x + 16 * i + 8));
        sums[i] = _mm512_reduce_add_pd(_mm512_add_pd(a, b));
    }
}

/* Each square passes through at most n / 16 + 5 roundings. */
AVX512 static double squares(const double *x, size_t n)
{
    lanes acc;
    clear(&acc);
    for (size_t i = 0; i < n; i += STEP) {
        const __m512d a = _mm512_load_pd(x + i), b = _mm512_load_pd(x + i + 8);
        acc.sum[0] = _mm512_fmadd_pd(a, a, acc.sum[0]);
        acc.sum[1] = _mm512_fmadd_pd(b, b, acc.sum[1]);
    }
    return finish(&acc).sum;
}

#define ROW(format) [SB_FORMAT_##format] = sb_avx512_row_##format

/* Defines a set. The two AVX-512 sets differ only in rows of E2M1 and BF16. */
#define SET(set, e2m1, e2m1_pair, e2m1_many, in_order, bf16_row, bf16_pair, bf16_squares)          \
    {                                                                                              \
        .name = (set), .f32 = dot_f32, .bf16 = dot_bf16, .f16 = dot_f16, .f64 = dot_f64,           \
        .columns = dot_columns, .tile = &sb_tile_avx512, .strip = &sb_strips_avx2,                 \
        .tile_inputs = {[SB_FORMAT_e2m1] = 4, [SB_FORMAT_e4m3] = 4},                               \
        .row = {ROW(f32),                                                                          \
                [SB_FORMAT_bf16] = (bf16_row),                                                     \
                ROW(f16),                                                                          \
                ROW(e4m3),                                                                         \
                [SB_FORMAT_e2m1] = (e2m1),                                                         \
                ROW(int4),                                                                         \
                ROW(uint4),                                                                        \
                ROW(int8),                                                                         \
                ROW(uint8)},                                                                       \
        .pair = {[SB_FORMAT_bf16] = (bf16_pair),                                                   \
                 [SB_FORMAT_e4m3] = sb_avx512_pair_e4m3,                                           \
                 [SB_FORMAT_e2m1] = (e2m1_pair)},                                                  \
        .many = {[SB_FORMAT_e2m1] = (e2m1_many)},                                                  \
        .arrange = {[SB_FORMAT_bf16] = sb_avx512_arrange_bf16,                                     \
                    [SB_FORMAT_e2m1] = (in_order),                                                 \
                    [SB_FORMAT_int4] = sb_avx512_arrange_nibbles,                                  \
                    [SB_FORMAT_uint4] = sb_avx512_arrange_nibbles,                                 \
                    [SB_FORMAT_e4m3] = sb_avx512_arrange_e4m3},                                    \
        .magnitudes = magnitudes, .squares = {[SB_FORMAT_bf16] = (bf16_squares)},                  \
        .scales = sb_avx512_scales, .reads_scales = sb_avx512_reads_scales,                        \
        .kept = sb_avx512_compensated, .parts = sb_avx512_parts,                                   \
    }

static const sb_dot_kernels avx512 =
    SET("avx512", sb_avx2_fixed_e2m1, NULL, NULL, sb_avx2_arrange_fixed, sb_avx512_row_bf16,
        sb_avx512_pair_bf16, NULL);
static const sb_dot_kernels vnni =
    SET("avx512vnni", sb_avx512_fixed_e2m1, sb_avx512_fixed_pair_e2m1, sb_avx512_fixed_many_e2m1,
        sb_avx512_arrange_fixed, sb_avx512_squares_row_bf16, sb_avx512_squares_pair_bf16, squares);
const sb_dot_kernels *const sb_dot_avx512 = &avx512, *const sb_dot_avx512vnni = &vnni;

/* The CPU is tested only once, because CPUID takes microseconds under a hypervisor. */
int sb_dot_avx512_supported(void)
{
    static int answer = -1;
    if (answer < 0) {
        __builtin_cpu_init();
        answer = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                 __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                 __builtin_cpu_supports("fma");
    }
    return answer;
}

int sb_dot_avx512vnni_supported(void)
{
    static int answer = -1;
    if (answer < 0)
        answer = sb_dot_avx512_supported() && __builtin_cpu_supports("avx512vnni");
    return answer;
}

#else

const sb_dot_kernels *const sb_dot_avx512 = NULL, *const sb_dot_avx512vnni = NULL;

int sb_dot_avx512_supported(void)
{
    return 0;
}

int sb_dot_avx512vnni_supported(void)
{
    return 0;
}

#endif
