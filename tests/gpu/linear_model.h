/* linear_model.h - what docs/gpu-linear.md says, as a plain program: no tiles, lanes or threads. */
#ifndef SB_TESTS_GPU_LINEAR_MODEL_H
#define SB_TESTS_GPU_LINEAR_MODEL_H

#ifdef __cplusplus
extern "C" {
#endif

#include "ref/formats/matrix.h"

/* out (rows, N) of in (rows, K), values of bfloat16. 0 if memory is out. */
int linear_model(const sb_matrix *weight, const float *in, uint32_t rows, int wide, float *out);

#ifdef __cplusplus
}
#endif

#endif
