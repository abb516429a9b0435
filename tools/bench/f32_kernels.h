/* f32_kernels.h - rows as engines compute them: binary32 products added in binary32, in the fastest
 * order. Used only as the yardstick of `bench cpu --vs f32`.
 *
 * An input is brought once into the layout of the kernels. The rows are then read from memory
 * unchanged, one after the other. */
#ifndef SB_BENCH_F32_KERNELS_H
#define SB_BENCH_F32_KERNELS_H

#include "ref/formats/matrix.h"

typedef enum sb_f32_kind { SB_F32_bf16, SB_F32_nvfp4, SB_F32_fp8, SB_F32_KINDS } sb_f32_kind;

const char *sb_f32_kind_name(sb_f32_kind kind);

/* The kind of a matrix for these kernels; SB_F32_KINDS: not supported. Columns are multiples of
 * 128. */
sb_f32_kind sb_f32_kind_of(const sb_matrix *matrix);

/* Selects the kernels that match the reference's kernel set of that name ("avx512", "avx2"), or
 * portable kernels for any other name. Returns the name of the selected set. */
const char *sb_f32_select(const char *set);

/* Brings x (n) into the layout for rows of this kind. */
void sb_f32_lay(sb_f32_kind kind, const float *x, size_t n, float *laid);

/* Computes out[i] for rows first .. first + count - 1, without the factor of the whole matrix. */
void sb_f32_rows(const sb_matrix *matrix, sb_f32_kind kind, uint32_t first, uint32_t count,
                 const float *laid, float *out);

#endif
