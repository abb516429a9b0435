/* bench.c - the cost of correct rounding: ratios to plain float32 loops in the same run.
 *
 * Prints nothing if a comparison fails: before a kernel is timed, its results are compared bit for
 * bit with the wide accumulator. Takes medians of interleaved passes, because the machine is
 * shared. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/base/rng.h"
#include "ref/fast/dot/dot.h"
#include "ref/formats/plain_row.h"
#include "ref/math/exact.h"
#include "ref/run/session.h"
#include "tools/bench/bench_check.h"
#include "tools/bench/measure.h"

enum { PASSES = 15, ROWS = 512, LANES = 16 };

/* The yardsticks: float32 multiply and add in 16 lanes, as fast as a compiler makes such a loop
 * with the instructions of the tested kernels. They round at every step, in their own order. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define YARDSTICK __attribute__((target("avx2,fma,f16c"), optimize("O3")))
#elif defined(__x86_64__) && defined(__GNUC__)
#define YARDSTICK __attribute__((target("avx2,fma,f16c")))
#else
#define YARDSTICK
#endif

YARDSTICK static float across(const float lane[LANES])
{
    float sum = 0;
    for (size_t l = 0; l < LANES; l++)
        sum += lane[l];
    return sum;
}

YARDSTICK static float plain_f32(const float *a, const float *b, size_t n)
{
    float lane[LANES] = {0};
    for (size_t i = 0; i + LANES <= n; i += LANES)
        for (size_t l = 0; l < LANES; l++)
            lane[l] += a[i + l] * b[i + l];
    return across(lane);
}

#if defined(__x86_64__) && defined(__GNUC__)
/* Uses intrinsics, because compilers widen the codes badly. */
YARDSTICK static float plain_bf16(const unsigned char *w, const float *x, size_t n)
{
    __m256 low = _mm256_setzero_ps(), high = _mm256_setzero_ps();
    float lane[LANES];
    for (size_t i = 0; i + LANES <= n; i += LANES) {
        const __m128i *codes = (const __m128i *)(const void *)(w + 2 * i);
        __m256i a = _mm256_cvtepu16_epi32(_mm_loadu_si128(codes));
        __m256i b = _mm256_cvtepu16_epi32(_mm_loadu_si128(codes + 1));
        __m256 wa = _mm256_castsi256_ps(_mm256_slli_epi32(a, 16));
        __m256 wb = _mm256_castsi256_ps(_mm256_slli_epi32(b, 16));
        low = _mm256_fmadd_ps(wa, _mm256_loadu_ps(x + i), low);
        high = _mm256_fmadd_ps(wb, _mm256_loadu_ps(x + i + 8), high);
    }
    _mm256_storeu_ps(lane, low);
    _mm256_storeu_ps(lane + 8, high);
    return across(lane);
}
#else
static float plain_bf16(const unsigned char *w, const float *x, size_t n)
{
    float lane[LANES] = {0};
    for (size_t i = 0; i + LANES <= n; i += LANES)
        for (size_t l = 0; l < LANES; l++)
            lane[l] += sb_bf16_to_f32(sb_load_u16(w + 2 * (i + l))) * x[i + l];
    return across(lane);
}
#endif

typedef struct work {
    sb_matrix matrix; /* (ROWS, n) */
    float *rows, *x;  /* the same values in float32; (n) */
    float *got;       /* (ROWS) */
    unsigned char *codes;
} work;

static int make_work(work *w, sb_format format, uint32_t n)
{
    uint64_t key = sb_rng_key(42, "bench");
    size_t bytes = sb_format_bytes(format);
    w->rows = sb_alloc((size_t)ROWS * n, sizeof *w->rows);
    w->codes = sb_alloc((size_t)ROWS * n, bytes);
    w->x = sb_alloc(n, sizeof *w->x);
    w->got = sb_alloc(ROWS, sizeof *w->got);
    if (!w->rows || !w->codes || !w->x || !w->got)
        return 0;
    for (size_t i = 0; i < (size_t)ROWS * n; i++)
        w->rows[i] = 0.02f * sb_rng_normal(key, i);
    for (size_t i = 0; i < n; i++)
        w->x[i] = sb_rng_normal(key, (uint64_t)ROWS * n + i);
    sb_encode(format, w->rows, (size_t)ROWS * n, w->codes);
    sb_decode(format, w->codes, (size_t)ROWS * n, w->rows);
    w->matrix = (sb_matrix){.data = w->codes, .format = format, .rows = ROWS, .cols = n};
    return 1;
}

static void free_work(work *w)
{
    free(w->rows);
    free(w->codes);
    free(w->x);
    free(w->got);
}

/* Returns whether all rows have the bits of the wide accumulator. *uncertain: rows that the
 * rounding test leaves to the accumulator. */
static int check_work(const work *w, uint32_t n, size_t *uncertain)
{
    *uncertain = 0;
    for (uint32_t r = 0; r < ROWS; r++) {
        const float *row = w->rows + (size_t)r * n;
        float rounded, exact = sb_exact_dot(row, 1, w->x, 1, n);
        sb_partial partial = {0, 0};
        for (size_t i = 0; i < n; i++) {
            double product = (double)row[i] * (double)w->x[i];
            partial.sum += product;
            partial.magnitude += product < 0 ? -product : product;
        }
        *uncertain += !sb_round_certain(partial, n, &rounded);
        if (sb_bits_f32(sb_dot_row(&w->matrix, r, w->x)) != sb_bits_f32(exact))
            return 0;
    }
    return 1;
}

static int bench_rows(sb_format format, uint32_t n)
{
    work w = {0};
    size_t uncertain;
    double exact[PASSES], plain[PASSES];
    if (!make_work(&w, format, n) || !check_work(&w, n, &uncertain)) {
        fprintf(stderr, "bench: %s rows of %u differ from the wide accumulator: nothing is timed\n",
                sb_format_name(format), (unsigned)n);
        free_work(&w);
        return 0;
    }
    for (size_t p = 0; p < PASSES; p++) {
        double t0 = sb_bench_now();
        for (uint32_t r = 0; r < ROWS; r++)
            w.got[r] = sb_dot_row(&w.matrix, r, w.x);
        double t1 = sb_bench_now();
        for (uint32_t r = 0; r < ROWS; r++)
            w.got[r] = format == SB_FORMAT_bf16
                           ? plain_bf16(sb_matrix_row_bytes(&w.matrix, r), w.x, n)
                           : plain_f32(w.rows + (size_t)r * n, w.x, n);
        double t2 = sb_bench_now();
        exact[p] = t1 - t0;
        plain[p] = t2 - t1;
    }
    const double rows = ROWS;
    double e = sb_bench_noise_of(exact, PASSES).median, f = sb_bench_noise_of(plain, PASSES).median;
    printf(
        "%-5s n=%-5u exact_over_f32 %.2f  (%.2f against %.2f ns per weight)  fallback_rate %.4f\n",
        sb_format_name(format), (unsigned)n, f / e, 1e9 * e / rows / n, 1e9 * f / rows / n,
        (double)uncertain / rows);
    free_work(&w);
    return 1;
}

/* Tokens per second of a whole model, one token at a time. */
static int bench_model(const char *folder)
{
    sb_error err = {""};
    sb_model *model = NULL;
    sb_session *session = NULL;
    float *logits = NULL;
    double seconds[PASSES];
    sb_status status = sb_model_open(folder, &model, &err);
    if (!status)
        status = sb_session_new(model, NULL, &session, &err);
    if (!status)
        logits = sb_alloc(model->config.vocab_size, sizeof *logits);
    for (uint32_t p = 0; p < PASSES && !status && logits; p++) {
        double t0 = sb_bench_now();
        status = sb_session_feed(session, &(uint32_t){p + 1}, 1, &err);
        if (!status)
            status = sb_session_logits(session, 0, logits, &err);
        seconds[p] = sb_bench_now() - t0;
    }
    if (status)
        fprintf(stderr, "bench: %s\n", err.text);
    else
        printf("model %s tokens_per_s %.1f\n", folder,
               1.0 / sb_bench_noise_of(seconds, PASSES).median);
    free(logits);
    sb_session_free(session);
    sb_model_close(model);
    return !status;
}

/* bench --check FOLDER [ORIGINAL], or --check-made NAME: instead of everything else */
int main(int argc, char **argv)
{
    sb_error err = {""};
    static const uint32_t widths[] = {512, 2048};
    int sound = 1;
    if (sb_math_start(NULL, &err)) {
        fprintf(stderr, "bench: %s\n", err.text);
        return 3;
    }
    if (argc > 2 && strcmp(argv[1], "--check") == 0)
        return sb_bench_check(argv[2], argc > 3 ? argv[3] : NULL) ? 0 : 1;
    if (argc > 2 && strcmp(argv[1], "--check-made") == 0)
        return sb_bench_check_made(argv[2]) ? 0 : 1;
    printf(
        "kernels: %s; medians of %d passes, in cache, one thread; exact_over_f32 is the speed of correctly\n"
        "rounded rows divided by the speed of plain float32 rows (of BF16 codes; F16 and F32: of float32)\n",
        sb_dot_selected(), PASSES);
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        for (unsigned f = 0; f < SB_FORMAT_COUNT; f++)
            if (sb_format_is_plain((sb_format)f))
                sound = bench_rows((sb_format)f, widths[i]) && sound;
    for (int i = 1; i < argc; i++)
        sound = bench_model(argv[i]) && sound;
    return sound ? 0 : 1;
}
