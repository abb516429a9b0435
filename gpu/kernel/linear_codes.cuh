/* linear_codes.cuh - packed weights out of memory and, exactly, into registers of the bf16 atom. */
#ifndef SB_KERNEL_LINEAR_CODES_CUH
#define SB_KERNEL_LINEAR_CODES_CUH

#include "gpu/atom/convert.h"
#include "gpu/atom/mma_half.h"
#include "gpu/kernel/linear_shape.h"
#include "gpu/kernel/kernel.h"

/* Of the rows g and g + 8 of a lane. */
struct sb_linear_scales {
    float scale[2], base[2];
};

/* Those of a step that multiply exactly: a lane has the block scales of a chunk in eight bytes. */
SB_KERNEL_FN sb_linear_scales sb_linear_block_scales(uint2 eight, uint32_t step)
{
    const uint32_t turn = SB_PLANT(linear_scales) ? step ^ 1 : step;
    const uint32_t both = (eight.x >> 8 * turn & 0xff) | (eight.y >> 8 * turn & 0xff) << 8;
    const uint32_t two = sb_cvt_bf16x2_e4m3x2(both);
    return {{__uint_as_float(two << 16), __uint_as_float(two & 0xffff0000u)}, {0.0f, 0.0f}};
}

/* Those that multiply sums, and what is added to codes: number `which` of the rows. */
template <int CODES>
SB_KERNEL_FN void sb_linear_find(sb_linear_scales *out, sb_global<const uint4> tile,
                                 const sb_linear_shape &shape, uint32_t which, uint32_t lane)
{
    const sb_global<const uint4> at = tile + shape.scale_at / sizeof(uint4);
    const uint32_t first = which * SB_TILE_ROWS + lane / 4;
    SB_UNROLL
    for (uint32_t h = 0; h < 2; h++) {
        if (sb_codes_integer(CODES)) {
            const float2 pair = sb_cast<const float2>(at)[first + 8 * h];
            out->scale[h] = pair.x;
            out->base[h] = pair.y;
        } else {
            out->scale[h] = sb_cast<const float>(at)[first + 8 * h];
        }
    }
}

/* Two binary32 values that bfloat16 holds, as such. */
SB_KERNEL_FN uint32_t sb_linear_upper(float low, float high)
{
    return __byte_perm(__float_as_uint(low), __float_as_uint(high), 0x7632);
}

/* Y-40: "a product of an E2M1 code and an E4M3 block scale, which has at most six digits" */
SB_KERNEL_FN uint32_t sb_linear_scaled(uint32_t two, float scale)
{
    return sb_linear_upper(__fmul_rn(__uint_as_float(two << 16), scale),
                           __fmul_rn(__uint_as_float(two & 0xffff0000u), scale));
}

/* Two codes, in the low bits, and their base: a code below 2^23 behind the exponent of 2^23. */
SB_KERNEL_FN uint32_t sb_linear_integers(uint32_t low, uint32_t high, float base)
{
    const float shift = __fadd_rn(base, -8388608.0f);
    return sb_linear_upper(__fadd_rn(__uint_as_float(0x4b000000u | low), shift),
                           __fadd_rn(__uint_as_float(0x4b000000u | high), shift));
}

/* a becomes the weights of a step. */
template <int CODES>
SB_KERNEL_FN void sb_linear_fragment(uint32_t (&a)[4], const uint32_t (&raw)[sb_codes_bits(CODES)],
                                     const sb_linear_scales &scales, uint32_t step)
{
    if constexpr (CODES == SB_CODES_bf16) {
        SB_UNROLL
        for (int r = 0; r < 4; r++)
            a[r] = raw[4 * step + (SB_PLANT(linear_lanes) ? r ^ 1 : r)];
    } else if constexpr (CODES == SB_CODES_e4m3) {
        SB_UNROLL
        for (int r = 0; r < 4; r++)
            a[r] = sb_cvt_bf16x2_e4m3x2(raw[2 * step + r / 2] >> 16 * (r % 2));
    } else if constexpr (CODES == SB_CODES_u8) {
        SB_UNROLL
        for (int r = 0; r < 4; r++) {
            const uint32_t two = raw[2 * step + r / 2] >> 16 * (r % 2);
            a[r] = sb_linear_integers(two & 0xff, two >> 8 & 0xff, scales.base[r % 2]);
        }
    } else if constexpr (CODES == SB_CODES_u4) {
        SB_UNROLL
        for (int r = 0; r < 4; r++) {
            const uint32_t two = raw[step] >> 8 * r;
            a[r] = sb_linear_integers(two & 15, two >> 4 & 15, scales.base[r % 2]);
        }
    } else {
        uint32_t low[2], high[2];
        sb_cvt_bf16x4_e2m1x4(low, raw[step]);
        sb_cvt_bf16x4_e2m1x4(high, raw[step] >> 16);
        SB_UNROLL
        for (int r = 0; r < 4; r++) {
            const uint32_t two = r < 2 ? low[r] : high[r - 2];
            a[r] = CODES == SB_CODES_nvfp4 ? sb_linear_scaled(two, scales.scale[r % 2]) : two;
        }
    }
}

#endif
