/* kernels.h - the kernel sets of dot.h. Each computes the sums of dot.h in its own order.
 *
 * Any order and any grouping is allowed. error_bound() in dot.c requires only that every product is
 * added exactly once, in binary64, to a sum that starts from zero.
 *
 * A set of ref/fast/simd/ is NULL if the compiler does not target its architecture. Otherwise the
 * CPU is tested at run time, so that one binary serves every machine of an architecture. */
#ifndef SB_DOT_KERNELS_H
#define SB_DOT_KERNELS_H

#include "ref/base/bytes.h"
#include "ref/fast/dot/dot.h"

extern const sb_dot_kernels *const sb_dot_scalar; /* portable C: never NULL */
extern const sb_dot_kernels *const sb_dot_avx2;   /* x86 with AVX2, FMA and F16C; else NULL */
extern const sb_dot_kernels
    *const sb_dot_avx512; /* x86-64 with AVX-512 F, BW, DQ and VL; else NULL */
/* the AVX-512 set with VNNI; else NULL. Further extensions are tested where they are used */
extern const sb_dot_kernels *const sb_dot_avx512vnni;
extern const sb_dot_kernels *const sb_dot_neon; /* any little-endian AArch64; else NULL */

/* The chosen set. */
const sb_dot_kernels *sb_dot_kernels_now(void);

int sb_dot_avx2_supported(void);
int sb_dot_avx512_supported(void);
int sb_dot_avx512vnni_supported(void);

/* |x| without a branch, which would be mispredicted half of the time. */
static inline double sb_absolute(double x)
{
    return sb_f64_from_bits(sb_bits_f64(x) & 0x7fffffffffffffffu);
}

#endif
