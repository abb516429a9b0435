/* f32_parts.h - the sets of row functions for f32_kernels.c. */
#ifndef SB_BENCH_F32_PARTS_H
#define SB_BENCH_F32_PARTS_H

#include <stddef.h>

/* Scales: none for bf16, the stored E4M3 codes for nvfp4, a binary32 number per `group` columns for
 * fp8. The layout of x follows the `lanes` of the set. */
typedef struct sb_f32_row {
    const unsigned char *codes, *codes_scales;
    const float *scales;
    const float *x;
    size_t n, group;
} sb_f32_row;

typedef struct sb_f32_set {
    const char *name;
    unsigned lanes; /* binary32 lanes of a register; 1: x is unchanged */
    float (*bf16)(const sb_f32_row *row);
    float (*nvfp4)(const sb_f32_row *row);
    float (*fp8)(const sb_f32_row *row);
} sb_f32_set;

/* NULL if the compiler does not target the architecture. */
extern const sb_f32_set *const sb_f32_avx512;
extern const sb_f32_set *const sb_f32_avx2;

#endif
