/* math_gates.cu - the functions of gpu/math, one kernel each, for tests/gpu/math_gates.sh. */
#include "gpu/math/fn.h"
#include "gpu/math/log1p.h"
#include "tests/gpu/math_functions.h"

#define KERNEL(name)                                                                               \
    extern "C" __global__ void math_##name(const float *x, float *y)                               \
    {                                                                                              \
        unsigned i = blockIdx.x * blockDim.x + threadIdx.x;                                        \
        y[i] = sb_gpu_##name(x[i]);                                                                \
    }

MATH_FUNCTION_NAMES(KERNEL)
