/* fn.h - all functions of one argument of the GPU path, with the bits of A-4 on host and device.
 *
 *   sb_gpu_exp  sb_gpu_log  sb_gpu_rsqrt  sb_gpu_sin  sb_gpu_cos
 *   sb_gpu_sigmoid  sb_gpu_silu  sb_gpu_softplus
 *
 * Z-3: "equal those of A-4 in every bit, for each of the 2^32 arguments" */
#ifndef SB_GPU_MATH_FN_H
#define SB_GPU_MATH_FN_H

#include "gpu/math/exp.h"
#include "gpu/math/log.h"
#include "gpu/math/rsqrt.h"
#include "gpu/math/trig.h"

#endif
