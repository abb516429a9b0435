/* lowbit_gates.cu - kernels of quantized inputs, of experts and of draws for a device: compiled to
 * see that they have no warning and no spill. */
#include "gpu/kernel/act_quant.cuh"
#include "gpu/kernel/experts.cuh"
#include "gpu/kernel/experts_linear.cuh"
#include "gpu/kernel/linear_w4a4.cuh"
#include "gpu/kernel/linear_w8a8.cuh"
#include "gpu/kernel/sample.cuh"

#define ACT(form)                                                                                  \
    template __global__ void sb_act_fp8_kernel<form, uint16_t>(                                    \
        sb_global<const uint16_t>, sb_global<uint32_t>, sb_global<float>, sb_lowbit_shape,         \
        uint32_t, float);
ACT(SB_ACT_group)
ACT(SB_ACT_token)
ACT(SB_ACT_static)
template __global__ void sb_act_fp4_kernel<uint16_t>(sb_global<const uint16_t>, sb_global<uint32_t>,
                                                     sb_global<uint8_t>, sb_lowbit_shape, uint32_t,
                                                     float);

#define TILES(rows, nt, ...)                                                                       \
    template __global__ void sb_tile_kernel<__VA_ARGS__, nt, rows, uint16_t>(                      \
        __VA_ARGS__, rows, sb_global<uint16_t>, uint32_t);
#define LAYER(...)                                                                                 \
    TILES(sb_all_rows, 1, __VA_ARGS__)                                                             \
    TILES(sb_all_rows, 2, __VA_ARGS__)                                                             \
    TILES(sb_all_rows, 8, __VA_ARGS__)                                                             \
    TILES(sb_routed_rows, 2, __VA_ARGS__)                                                          \
    TILES(sb_routed_rows, 8, __VA_ARGS__)
LAYER(sb_w8a8<true>)
LAYER(sb_w8a8<false>)
LAYER(sb_w4a4)
LAYER(sb_expert_linear<SB_CODES_nvfp4, false>)
LAYER(sb_expert_linear<SB_CODES_e4m3, true>)
LAYER(sb_expert_linear<SB_CODES_u4, true>)
