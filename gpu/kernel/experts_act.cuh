/* experts_act.cuh - quantizes inputs of experts to E2M1 if experts have different input factors. A
 * row is then quantized once for each of its experts. */
#ifndef SB_KERNEL_EXPERTS_ACT_CUH
#define SB_KERNEL_EXPERTS_ACT_CUH

#include "gpu/kernel/act_quant.cuh"

/* Like sb_act_fp4_kernel, but for pairs; `each` consecutive pairs share a row of `in`. divisor
 * (experts) */
static __global__ void __launch_bounds__(SB_ACT_THREADS)
    sb_expert_act_fp4(sb_global<const float> in, sb_global<const uint32_t> ids,
                      sb_global<const float> divisor, sb_global<uint32_t> codes,
                      sb_global<uint8_t> scales, sb_lowbit_shape shape, uint32_t pairs,
                      uint32_t each)
{
    sb_launch_ready();
    sb_launch_wait();
    const uint32_t groups = 4 * sb_lowbit_scale_words(shape);
    const size_t group = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (group >= static_cast<size_t>(pairs) * groups)
        return;
    const uint32_t pair = static_cast<uint32_t>(group / groups), expert = ids[pair];
    const uint32_t first = static_cast<uint32_t>(group % groups) * SB_LOWBIT_GROUP;
    const float G = divisor[expert];
    sb_act_fp4_group(in + static_cast<size_t>(pair / each) * shape.cols, codes, scales, shape,
                     group, first, G);
}

#endif
