/* kendall.c - compares each item with the items 1, 2, .. n / 2 places further, in a circle, so that
 * every pair is compared once. */
#include "tools/check/scan/kendall.h"

enum { WINDOW = SB_FIT_WINDOW };

/* -1, 0 or 1. */
static inline int16_t sign_of(int16_t a, int16_t b)
{
    return (int16_t)((a > b) - (a < b));
}

int64_t sb_kendall_plain(const sb_fit_keys x, const sb_fit_keys y, unsigned n, uint64_t *ranked)
{
    int16_t xs[2 * WINDOW], ys[2 * WINDOW];
    int64_t agree = 0;
    for (unsigned i = 0; i < n; i++) {
        xs[i] = xs[i + n] = x[i];
        ys[i] = ys[i + n] = y[i];
    }
    for (unsigned on = 1; 2 * on <= n; on++) {
        const unsigned count = 2 * on == n ? on : n;
        int16_t both = 0, differ = 0;
#pragma omp simd reduction(+ : both, differ)
        for (unsigned i = 0; i < count; i++) {
            int16_t by_x = sign_of(xs[i], xs[i + on]), by_y = sign_of(ys[i], ys[i + on]);
            both = (int16_t)(both + by_x * by_y);
            differ = (int16_t)(differ + by_x * by_x);
        }
        agree += both;
        *ranked += (uint64_t)differ;
    }
    return agree;
}

sb_kendall_fn *sb_kendall(void)
{
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx2"))
        return sb_kendall_avx2;
#endif
    return sb_kendall_plain;
}
