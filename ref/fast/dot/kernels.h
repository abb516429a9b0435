/* kernels.h - the kernel sets behind dot.h: each gives the sums of dot.h in an order of its own.
 *
 * Any order and any grouping is allowed, as long as every product is added exactly once, in
 * binary64, to a sum that started from zero: that is all error_bound() in dot.c relies on.
 *
 * A set of ref/fast/simd/ is NULL where the compiler does not target its architecture; where it
 * does, the CPU is asked at run time, so one binary serves every machine of an architecture. */
#ifndef SB_DOT_KERNELS_H
#define SB_DOT_KERNELS_H

#include "ref/base/bytes.h"
#include "ref/fast/dot/dot.h"

extern const sb_dot_kernels *const sb_dot_scalar; /* portable C: always there */
extern const sb_dot_kernels *const sb_dot_avx2;   /* x86 with AVX2, FMA and F16C; else NULL */
extern const sb_dot_kernels
    *const sb_dot_avx512; /* x86-64 with AVX-512 F, BW, DQ and VL; else NULL */
/* the same with VNNI, and what else there may be, each asked for where it is used; else NULL */
extern const sb_dot_kernels *const sb_dot_avx512vnni;
extern const sb_dot_kernels *const sb_dot_neon; /* little-endian AArch64, all of them; else NULL */

/* The chosen set. */
const sb_dot_kernels *sb_dot_kernels_now(void);

int sb_dot_avx2_supported(void);
int sb_dot_avx512_supported(void);
int sb_dot_avx512vnni_supported(void);

/* Without a branch, which would be mispredicted every other time. */
static inline double sb_absolute(double x)
{
    return sb_f64_from_bits(sb_bits_f64(x) & 0x7fffffffffffffffu);
}

#endif
