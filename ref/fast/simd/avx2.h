/* avx2.h - shared by the AVX2 kernels. Only for files that an #if of the architecture
 * guards. */
#ifndef SB_SIMD_AVX2_H
#define SB_SIMD_AVX2_H

#include <immintrin.h>

#include "ref/fast/dot/kernels.h"

#define AVX2 __attribute__((target("avx2,fma,f16c")))
#define INLINE AVX2 static inline __attribute__((always_inline))

/* Prefetches lines after this line of codes, which belong to the next rows, because rows are
 * contiguous. Distant lines go to the second-level cache, because the first-level cache holds the
 * input. */
INLINE void sb_avx2_fetch(const unsigned char *codes)
{
    enum { FAR = 16384, NEAR = 2048 };
    _mm_prefetch((const char *)codes + FAR, _MM_HINT_T1);
    _mm_prefetch((const char *)codes + NEAR, _MM_HINT_T0);
}

/* Entries of sb_dot_kernels. */
int sb_avx2_reads_scales(const unsigned char *codes, size_t n);
int sb_avx2_parts(const double *a, const double *b, size_t n, double parts[SB_PARTS]);
void sb_avx2_compensated(sb_compensated *to, const double *a, const double *b, size_t n);

#endif
