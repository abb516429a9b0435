/* f32_kernels.h - rows as engines compute them: binary32 products added in binary32, in whatever
 * order is fastest. The yardstick of `bench cpu --vs f32`; nothing else calls it.
 *
 * An input is laid out once as the kernels want it; one row after the other is then read from
 * memory as it lies there. */
#ifndef SB_BENCH_F32_KERNELS_H
#define SB_BENCH_F32_KERNELS_H

#include "ref/formats/matrix.h"

typedef enum sb_f32_kind { SB_F32_bf16, SB_F32_nvfp4, SB_F32_fp8, SB_F32_KINDS } sb_f32_kind;

const char *sb_f32_kind_name(sb_f32_kind kind);

/* How these kernels read a matrix; SB_F32_KINDS: not at all. Columns are multiples of 128. */
sb_f32_kind sb_f32_kind_of(const sb_matrix *matrix);

/* The kernels for the set of the reference with that name ("avx512", "avx2"); others get portable
 * ones. Returns the name of what was chosen. */
const char *sb_f32_select(const char *set);

/* x (n) as rows of this kind want it. */
void sb_f32_lay(sb_f32_kind kind, const float *x, size_t n, float *laid);

/* out[i] of rows first .. first + count - 1, without the factor of the whole matrix. */
void sb_f32_rows(const sb_matrix *matrix, sb_f32_kind kind, uint32_t first, uint32_t count,
                 const float *laid, float *out);

#endif
