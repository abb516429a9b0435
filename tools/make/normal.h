/* normal.h - many normal numbers of one stream. */
#ifndef SB_MAKE_NORMAL_H
#define SB_MAKE_NORMAL_H

#include <stddef.h>
#include <stdint.h>

/* out[i] = sb_rng_normal(key, first + i) for i < n. */
void sb_normals(uint64_t key, uint64_t first, size_t n, float *out);

/* Does a part of this, from the first index on: returns the number of values written. */
size_t sb_normals_avx512(uint64_t key, uint64_t first, size_t n, float *out);

#endif
