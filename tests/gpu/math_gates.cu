/* math_gates.cu - the functions of gpu/math, one kernel each, for tests/gpu/math_gates.sh. */
#include "gpu/math/fn.h"

#define KERNEL(name)                                                                               \
    extern "C" __global__ void math_##name(const float *x, float *y)                               \
    {                                                                                              \
        unsigned i = blockIdx.x * blockDim.x + threadIdx.x;                                        \
        y[i] = sb_gpu_##name(x[i]);                                                                \
    }

KERNEL(exp)
KERNEL(log)
KERNEL(rsqrt)
KERNEL(sin)
KERNEL(cos)
KERNEL(sigmoid)
KERNEL(silu)
KERNEL(softplus)
