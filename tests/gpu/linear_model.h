/* linear_model.h - docs/gpu-linear.md as a plain program, without tiles, lanes or threads. */
#ifndef SB_TESTS_GPU_LINEAR_MODEL_H
#define SB_TESTS_GPU_LINEAR_MODEL_H

#include "ref/formats/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* out is (rows, N), in is (rows, K) with values of bfloat16. Returns 0 if memory runs out. */
int linear_model(const sb_matrix *weight, const float *in, uint32_t rows, int wide, float *out);

#ifdef __cplusplus
}
#endif

#endif
