#include "tools/bench/measure.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "ref/base/mem.h"
#include "ref/base/pool.h"

enum { MOST = 1024, LARGE_PAGE = 2 << 20 };

static double read_clock(clockid_t clock)
{
    struct timespec t;
    return clock_gettime(clock, &t) ? 0 : (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double sb_bench_now(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

double sb_bench_cpu_now(void)
{
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

sb_bench_noise sb_bench_noise_of(const double *values, size_t n)
{
    double sorted[MOST];
    n = n < MOST ? n : MOST;
    if (n == 0)
        return (sb_bench_noise){0, 0, 0};
    memcpy(sorted, values, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_value);
    return (sb_bench_noise){sorted[n / 2], sorted[0], sorted[n - 1]};
}

static size_t last_cache(void)
{
#ifdef _SC_LEVEL3_CACHE_SIZE
    long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
    return bytes > 0 ? (size_t)bytes : 0;
#else
    return 0;
#endif
}

enum { FILL = 1 << 16 /* doubles per piece */ };

static void fill(void *ctx, size_t piece, size_t worker)
{
    const sb_bench_stream *out = ctx;
    const size_t count = out->bytes / sizeof *out->memory, first = piece * FILL;
    (void)worker;
    for (size_t i = first; i < count && i < first + FILL; i++)
        out->memory[i] = (double)(i & 7);
}

sb_status sb_bench_stream_new(size_t mib, sb_bench_stream *out, sb_error *err)
{
    size_t least = 4 * last_cache();
    *out = (sb_bench_stream){.bytes = mib << 20};
    if (mib == 0)
        out->bytes = least > (size_t)1 << 30 ? least : (size_t)1 << 30;
    out->bytes = (out->bytes + 4095) / 4096 * 4096;
    void *memory = NULL;
    if (posix_memalign(&memory, LARGE_PAGE, out->bytes) != 0)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for %zu bytes to be read", out->bytes);
#ifdef MADV_HUGEPAGE /* like weights (ref/container/map.c); optional */
    madvise(memory, out->bytes, MADV_HUGEPAGE);
#endif
    out->memory = memory;
    sb_parallel_for((out->bytes / sizeof *out->memory + FILL - 1) / FILL, 1, fill, out);
    return SB_OK;
}

void sb_bench_stream_free(sb_bench_stream *stream)
{
    free(stream->memory);
    *stream = (sb_bench_stream){0};
}

/* The sum of n doubles, n a multiple of 64. */
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

__attribute__((target("avx512f"))) static double sum_wide(const double *at, size_t n)
{
    __m512d s[8];
    for (size_t l = 0; l < 8; l++)
        s[l] = _mm512_setzero_pd();
    for (size_t i = 0; i < n; i += 64)
        for (size_t l = 0; l < 8; l++)
            s[l] = _mm512_add_pd(s[l], _mm512_load_pd(at + i + 8 * l));
    for (size_t l = 1; l < 8; l++)
        s[0] = _mm512_add_pd(s[0], s[l]);
    return _mm512_reduce_add_pd(s[0]);
}

static int has_wide(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") != 0;
}
#else
static double sum_wide(const double *at, size_t n)
{
    return at[n - 1];
}

static int has_wide(void)
{
    return 0;
}
#endif

static double sum_plain(const double *at, size_t n)
{
    double s[16] = {0}, sum = 0;
    for (size_t i = 0; i < n; i += 16)
        for (size_t l = 0; l < 16; l++)
            s[l] += at[i + l];
    for (size_t l = 0; l < 16; l++)
        sum += s[l];
    return sum;
}

enum { RUN = 64 };

typedef struct pass {
    const sb_bench_stream *stream;
    size_t threads, each; /* runs */
    int wide;
    double *sum;
} pass;

static void sum_share(void *ctx, size_t t, size_t worker)
{
    const pass *p = ctx;
    const size_t runs = p->stream->bytes / sizeof(double) / RUN, first = t * p->each;
    const size_t n = (t + 1 == p->threads ? runs - first : p->each) * RUN;
    const double *at = p->stream->memory + first * RUN;
    (void)worker;
    p->sum[t] = p->wide ? sum_wide(at, n) : sum_plain(at, n);
}

double sb_bench_stream_pass(sb_bench_stream *stream, unsigned threads)
{
    double sums[SB_THREADS_MOST], start = sb_bench_now();
    const size_t before = sb_threads_asked();
    pass p = {.stream = stream, .threads = threads, .wide = has_wide(), .sum = sums};
    p.each = stream->bytes / sizeof(double) / RUN / threads;
    sb_threads_set(threads);
    sb_parallel_for(threads, 1, sum_share, &p);
    sb_threads_set(before);
    for (unsigned t = 0; t < threads; t++)
        stream->sum += sums[t];
    return (double)stream->bytes / (sb_bench_now() - start);
}
