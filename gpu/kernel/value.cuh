/* value.cuh - activations in memory: binary32, or the bits of a bfloat16. A kernel is compiled for
 * either type. Both give the same values if all stored values are exact in bfloat16. */
#ifndef SB_GPU_KERNEL_VALUE_CUH
#define SB_GPU_KERNEL_VALUE_CUH

#include "gpu/atom/convert.h"
#include "gpu/math/word.h"

SB_ATOM_FN float sb_wide(float x)
{
    return x;
}
SB_ATOM_FN float sb_wide(uint16_t bits)
{
    return sb_atom_float(static_cast<uint32_t>(bits) << 16);
}

/* K-1: the rounding between ops. */
SB_ATOM_FN float sb_to_bf16(float x)
{
    return sb_atom_float(sb_cvt_bf16x2_f32(x, 0.0f) << 16);
}

template <class T> SB_ATOM_FN T sb_narrow(float x);
template <> SB_ATOM_FN float sb_narrow<float>(float x)
{
    return sb_to_bf16(x);
}
template <> SB_ATOM_FN uint16_t sb_narrow<uint16_t>(float x)
{
    return static_cast<uint16_t>(sb_cvt_bf16x2_f32(x, 0.0f));
}

#endif
