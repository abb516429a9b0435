/* act_quant.cuh - quantizes inputs of linear layers to E4M3 and E2M1 for the profiles sm121-w8a8
 * and sm121-w4a4: the bits of ref/ops/act_fp8.c and act_fp4.c, in the layout of lowbit_shape.h.
 *
 * T is float, or uint16_t for the bits of a bfloat16. */
#ifndef SB_KERNEL_ACT_QUANT_CUH
#define SB_KERNEL_ACT_QUANT_CUH

#include "gpu/kernel/lowbit_shape.h"
#include "gpu/kernel/kernel.h"
#include "gpu/kernel/value.cuh"

enum sb_act_form { SB_ACT_group, SB_ACT_token, SB_ACT_static };
enum : uint32_t { SB_ACT_THREADS = 256 };

SB_ATOM_FN uint32_t sb_act_magnitude(float x)
{
    return sb_atom_bits(x) & 0x7fffffffu;
}

/* K-19: "E4 encodes by F-6, saturating. A NaN, which here only 0 times an infinity can make,
 * becomes 448" */
SB_ATOM_FN float sb_act_no_nan(float x)
{
    return x == x ? x : 448.0f;
}

SB_ATOM_FN float sb_act_larger(float a, float b)
{
    return a < b ? b : a;
}

/* The scale of a group. K-19: "vllm_cuda has y = max(amax, f) / 448 with f = RN(10^-10)"; K-21:
 * "vllm has y = max(amax / 448, RN(1 / 229376))"; K-22 has one scale for all groups, which
 * multiplies the sums, so the scale of a group is 1. */
template <sb_act_form FORM> SB_ATOM_FN float sb_act_scale(float amax)
{
    if (FORM == SB_ACT_group)
        return __fdiv_rn(sb_act_larger(amax, 1e-10f), 448.0f);
    if (FORM == SB_ACT_token)
        return sb_act_larger(__fdiv_rn(amax, 448.0f), 1.0f / 229376.0f);
    return 1.0f;
}

/* The argument of E4 for an element: "c = E4(x / y)", or K-22: "vllm has c = E4(x (1 / S))". */
template <sb_act_form FORM> SB_ATOM_FN float sb_act_quotient(float x, float by)
{
    return sb_act_no_nan(FORM == SB_ACT_static ? __fmul_rn(x, by) : __fdiv_rn(x, by));
}

/* codes (rows, words) and scales (rows, groups). A warp quantizes one group. grid: (rows groups) /
 * 8 blocks of 8 warps. inverse: 1 / S of K-22; the other forms do not read it. */
template <sb_act_form FORM, class T>
__global__ void __launch_bounds__(SB_ACT_THREADS)
    sb_act_fp8_kernel(sb_global<const T> in, sb_global<uint32_t> codes, sb_global<float> scales,
                      sb_lowbit_shape shape, uint32_t rows, float inverse)
{
    sb_launch_ready();
    sb_launch_wait();
    const uint32_t groups = sb_lowbit_scales(shape), lane = threadIdx.x % 32;
    const uint32_t group = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (group >= rows * groups)
        return;
    const uint32_t row = group / groups, first = group % groups * shape.unit;
    const uint32_t left = shape.cols - first;
    const uint32_t count = shape.grouped && shape.unit < left ? shape.unit : left;
    const uint32_t words = sb_lowbit_words(shape) / groups;
    const sb_global<const T> x = in + (static_cast<size_t>(row) * shape.cols + first);
    uint32_t largest = 0;
    for (uint32_t i = lane; i < count; i += 32) {
        const T value = x[i];
        const uint32_t magnitude = sb_act_magnitude(sb_wide(value));
        largest = magnitude > largest ? magnitude : largest;
    }
    largest = __reduce_max_sync(0xffffffffu, largest);
    /* K-25: "a group with a value that is not finite has NaN for all of its values"; Y-51: "A group
     * of E4M3 that is not finite has codes that are NaN, a group of E2M1 has a scale that is NaN"
     */
    const bool finite = largest < 0x7f800000u;
    const float y = finite ? sb_act_scale<FORM>(sb_atom_float(largest)) : 1.0f;
    const float by = FORM == SB_ACT_static ? inverse : y;
    for (uint32_t word = lane; word < words; word += 32) {
        float quotient[4];
        uint32_t there = 0;
        for (uint32_t i = 0; i < 4; i++) {
            quotient[i] = 0.0f;
            if (4 * word + i >= count && !SB_PLANT(act_padding))
                continue;
            const uint32_t at = 4 * word + i < count ? 4 * word + i : 0;
            const T value = x[at];
            quotient[i] = sb_act_quotient<FORM>(sb_wide(value), by);
            there |= 0x7fu << 8 * i;
        }
        const uint32_t low = sb_cvt_e4m3x2_f32(quotient[0], quotient[1]);
        const uint32_t high = sb_cvt_e4m3x2_f32(quotient[2], quotient[3]);
        codes[static_cast<size_t>(group) * words + word] = finite ? low | high << 16 : there;
    }
    if (lane == 0)
        scales[group] = y;
}

/* Quantizes a group of 16: writes its codes to two words, and returns the code of its scale. K-18:
 * "vllm_ref has s = D4(E4(G (amax r))) with r = RN(1 / 6), and c = E2(x (1 / (s (1 / G))))" */
SB_ATOM_FN uint32_t sb_act_e2m1(const float (&x)[16], float G, uint32_t (&words)[2])
{
    uint32_t largest = 0;
    for (int i = 0; i < 16; i++) {
        const uint32_t magnitude = sb_act_magnitude(x[i]);
        largest = magnitude > largest ? magnitude : largest;
    }
    words[0] = words[1] = 0;
    if (largest >= 0x7f800000u) /* K-25; E2M1 has no NaN, but its scale can be NaN */
        return 0x7f;
    const float t = __fmul_rn(sb_atom_float(largest), 1.0f / 6.0f);
    const uint32_t code = sb_cvt_e4m3x2_f32(__fmul_rn(G, t), 0.0f) & 0xff;
    /* K-18: "Where s is 0, all values of the group are 0" */
    if (code == 0)
        return 0;
    const uint32_t half = sb_cvt_bf16x2_e4m3x2(code);
    const float s = sb_atom_float(half << 16);
    const float by = __fdiv_rn(1.0f, __fmul_rn(s, __fdiv_rn(1.0f, G)));
    for (int i = 0; i < 16; i += 2)
        words[i / 8] |= sb_cvt_e2m1x2_f32(__fmul_rn(x[i], by), __fmul_rn(x[i + 1], by))
                        << 4 * (i % 8);
    return code;
}

/* Quantizes group `group`, counted over all rows. It begins at column `first` of the row `in`. */
template <class T>
SB_ATOM_FN void sb_act_fp4_group(sb_global<const T> in, sb_global<uint32_t> codes,
                                 sb_global<uint8_t> scales, const sb_lowbit_shape &shape,
                                 size_t group, uint32_t first, float G)
{
    float x[SB_LOWBIT_GROUP];
    for (uint32_t i = 0; i < SB_LOWBIT_GROUP; i++) {
        x[i] = 0.0f;
        if (first + i < shape.cols) {
            const T value = in[first + i];
            x[i] = sb_wide(value);
        }
    }
    uint32_t words[2] = {0, 0}, scale = 0;
    if (first < shape.cols)
        scale = sb_act_e2m1(x, G, words);
    scales[group] = static_cast<uint8_t>(scale);
    codes[group * 2] = words[0];
    codes[group * 2 + 1] = words[1];
}

/* codes (rows, words) and the bytes of the scales (rows, 4 for each step). A thread quantizes one
 * group of 16. Padding columns are zero. G is the divisor of the input. */
template <class T>
__global__ void __launch_bounds__(SB_ACT_THREADS)
    sb_act_fp4_kernel(sb_global<const T> in, sb_global<uint32_t> codes, sb_global<uint8_t> scales,
                      sb_lowbit_shape shape, uint32_t rows, float G)
{
    sb_launch_ready();
    sb_launch_wait();
    const uint32_t groups = 4 * sb_lowbit_scale_words(shape);
    const uint32_t group = blockIdx.x * blockDim.x + threadIdx.x;
    if (group >= rows * groups)
        return;
    const uint32_t row = group / groups, first = group % groups * SB_LOWBIT_GROUP;
    sb_act_fp4_group(in + static_cast<size_t>(row) * shape.cols, codes, scales, shape, group, first,
                     G);
}

#endif
