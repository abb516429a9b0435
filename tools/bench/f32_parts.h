/* f32_parts.h - the row functions that f32_kernels.c chooses from. */
#ifndef SB_BENCH_F32_PARTS_H
#define SB_BENCH_F32_PARTS_H

#include <stddef.h>

/* scales: of bf16 none, of nvfp4 the stored E4M3 codes, of fp8 a binary32 number of each `group`
 * columns. x is laid as the `lanes` of the set ask. */
typedef struct sb_f32_row {
    const unsigned char *codes, *codes_scales;
    const float *scales;
    const float *x;
    size_t n, group;
} sb_f32_row;

typedef struct sb_f32_set {
    const char *name;
    unsigned lanes; /* of binary32 in a register; 1: x lies as it is */
    float (*bf16)(const sb_f32_row *row);
    float (*nvfp4)(const sb_f32_row *row);
    float (*fp8)(const sb_f32_row *row);
} sb_f32_set;

/* NULL where the compiler does not target the architecture. */
extern const sb_f32_set *const sb_f32_avx512;
extern const sb_f32_set *const sb_f32_avx2;

#endif
