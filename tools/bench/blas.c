#include "tools/bench/blas.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/auxv.h>
#endif

#include "ref/base/mem.h"
#include "ref/container/show.h"

enum { ROW_MAJOR = 101, PLAIN = 111, TRANSPOSED = 112, COLS = 2048, ROWS = 32768, MOST = 64 };

struct sb_blas {
    void *library;
    void (*sgemv)(int order, int trans, int m, int n, float alpha, const float *a, int lda,
                  const float *x, int incx, float beta, float *y, int incy);
    void (*dgemv)(int order, int trans, int m, int n, double alpha, const double *a, int lda,
                  const double *x, int incx, double beta, double *y, int incy);
    void (*sgemm)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                  const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);
    void (*threads)(int n);
};

/* ISO C has no conversion from dlsym's result to a function pointer. */
static int find(const sb_blas *b, const char *name, void *function)
{
    void *found = dlsym(b->library, name);
    memcpy(function, &found, sizeof found);
    return found != NULL;
}

/* True if no loader started this program. dlopen would need the libc that it was linked with. */
static int is_static(void)
{
#ifdef __linux__
    return getauxval(AT_BASE) == 0;
#else
    return 0;
#endif
}

sb_status sb_blas_open(const char *library, sb_blas **out, sb_error *err)
{
    const char *name = library ? library : "libopenblas.so.0";
    sb_blas *b = sb_alloc(1, sizeof *b);
    *out = b;
    if (!b)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory");
    if (is_static()) {
        sb_blas_close(b);
        *out = NULL;
        return sb_fail(err, SB_ERR_SKIPPED, "%s: a static program cannot load a library",
                       SB_SHOW(name));
    }
    b->library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (b->library && find(b, "cblas_sgemv", &b->sgemv) && find(b, "cblas_dgemv", &b->dgemv) &&
        find(b, "cblas_sgemm", &b->sgemm) && find(b, "openblas_set_num_threads", &b->threads))
        return SB_OK;
    sb_blas_close(b);
    *out = NULL;
    return sb_fail(err, SB_ERR_SKIPPED, "%s: OpenBLAS cannot be loaded from this path",
                   SB_SHOW(name));
}

void sb_blas_close(sb_blas *b)
{
    if (b && b->library)
        dlclose(b->library);
    free(b);
}

void sb_blas_threads(const sb_blas *b, unsigned threads)
{
    b->threads((int)threads);
}

sb_status sb_blas_rows(const sb_blas *b, size_t passes, sb_bench_noise *sgemv,
                       sb_bench_noise *dgemv, sb_error *err)
{
    const size_t n = (size_t)ROWS * COLS;
    double *wide = sb_alloc(n + COLS + ROWS, sizeof *wide), single[MOST], twice[MOST];
    if (!wide)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a matrix");
    float *narrow = (float *)(void *)wide;
    passes = passes < MOST ? passes : MOST;
    for (int way = 0; way < 2; way++) {
        for (size_t i = 0; i < n + COLS; i++)
            if (way == 0)
                narrow[i] = (float)(i % 7);
            else
                wide[i] = (double)(i % 7);
        for (size_t p = 0; p < passes; p++) {
            double start = sb_bench_now();
            if (way == 0)
                b->sgemv(ROW_MAJOR, PLAIN, ROWS, COLS, 1, narrow, COLS, narrow + n, 1, 0,
                         narrow + n + COLS, 1);
            else
                b->dgemv(ROW_MAJOR, PLAIN, ROWS, COLS, 1, wide, COLS, wide + n, 1, 0,
                         wide + n + COLS, 1);
            double seconds = sb_bench_now() - start;
            (way ? twice : single)[p] = (double)n * (way ? 8 : 4) / seconds;
        }
    }
    *sgemv = sb_bench_noise_of(single, passes);
    *dgemv = sb_bench_noise_of(twice, passes);
    free(wide);
    return SB_OK;
}

double sb_blas_multiply(const sb_blas *b, const float *weights, size_t rows, size_t cols,
                        const float *x, size_t tokens, float *out)
{
    double start = sb_bench_now();
    b->sgemm(ROW_MAJOR, PLAIN, TRANSPOSED, (int)tokens, (int)rows, (int)cols, 1, x, (int)cols,
             weights, (int)cols, 0, out, (int)rows);
    return sb_bench_now() - start;
}
