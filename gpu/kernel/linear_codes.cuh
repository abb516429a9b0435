/* linear_codes.cuh - loads packed weights and converts them, exactly, to registers of the bf16
 * atom. */
#ifndef SB_KERNEL_LINEAR_CODES_CUH
#define SB_KERNEL_LINEAR_CODES_CUH

#include "gpu/atom/convert.h"
#include "gpu/atom/mma_half.h"
#include "gpu/kernel/linear_shape.h"
#include "gpu/kernel/kernel.h"

/* The scales and bases of a lane's rows g and g + 8. */
struct sb_linear_scales {
    float scale[2], base[2];
};

/* Loads a lane's words of one chunk. The tile is in global or shared memory. */
template <int CODES, class AT>
SB_KERNEL_FN void sb_linear_load(uint32_t (&raw)[sb_codes_bits(CODES)], AT tile, uint32_t chunk,
                                 uint32_t lane)
{
    constexpr uint32_t LOADS = sb_codes_bits(CODES) / 4;
    SB_UNROLL
    for (uint32_t i = 0; i < LOADS; i++) {
        const uint4 four = tile[(chunk * LOADS + i) * 32 + lane];
        raw[4 * i] = four.x;
        raw[4 * i + 1] = four.y;
        raw[4 * i + 2] = four.z;
        raw[4 * i + 3] = four.w;
    }
}

/* The number of 16-byte words for scales of a tile: all block scales of one chunk (NVFP4), or else
 * one scale for each of its 16 rows. */
SB_SHAPE_FN constexpr uint32_t sb_linear_scale_words(uint32_t codes)
{
    return sb_codes_integer(codes) ? 8 : 4;
}

/* The block scales of a step, from the eight bytes that hold a lane's block scales of a chunk.
 * Products of codes and block scales are exact. */
SB_KERNEL_FN sb_linear_scales sb_linear_block_scales(uint2 eight, uint32_t step)
{
    const uint32_t turn = SB_PLANT(linear_scales) ? step ^ 1 : step;
    const uint32_t two = sb_cvt_bf16x2_e4m3x2(__byte_perm(eight.x, eight.y, turn * 0x11 + 0x40));
    return {{__uint_as_float(two << 16), __uint_as_float(two & 0xffff0000u)}, {0.0f, 0.0f}};
}

/* Loads the scales of a step from `at`, in global or shared memory. Block scales of NVFP4 are
 * converted. */
template <int CODES, class AT>
SB_KERNEL_FN void sb_linear_scales_at(sb_linear_scales *out, AT at, uint32_t step, uint32_t lane)
{
    const uint32_t g = lane / 4;
    if constexpr (CODES == SB_CODES_nvfp4) {
        const uint2 eight = sb_cast<const uint2>(at)[g];
        *out = sb_linear_block_scales(eight, step);
    } else {
        SB_UNROLL
        for (uint32_t h = 0; h < 2; h++) {
            if (sb_codes_integer(CODES)) {
                const float2 pair = sb_cast<const float2>(at)[g + 8 * h];
                out->scale[h] = pair.x;
                out->base[h] = pair.y;
            } else {
                out->scale[h] = sb_cast<const float>(at)[g + 8 * h];
            }
        }
    }
}

/* Loads scale number `which` of each row: scales that multiply sums, and bases of codes. */
template <int CODES>
SB_KERNEL_FN void sb_linear_find(sb_linear_scales *out, sb_global<const uint4> tile,
                                 const sb_linear_shape &shape, uint32_t which, uint32_t lane)
{
    sb_linear_scales_at<CODES>(
        out, tile + (shape.scale_at / sizeof(uint4) + which * sb_linear_scale_words(CODES)), 0,
        lane);
}

/* A word that holds x twice in bfloat16. x must be exact in bfloat16. */
SB_KERNEL_FN uint32_t sb_linear_twice(float x)
{
    return sb_bf16x2_upper(x, x);
}

/* Y-40: "an integer of at most eight bits less its zero point". Decodes two codes of 4 bits, byte r
 * of `raw`, and adds their base. A bfloat16 of 2^7 with a code in its fraction bits has the value
 * 2^7 + code. */
SB_KERNEL_FN uint32_t sb_linear_fours(uint32_t raw, uint32_t r, float base)
{
    const uint32_t byte = __byte_perm(raw, 0, 0x4440 + r);
    return sb_bf16x2_add((byte * 0x1001u & 0x000f000fu) | 0x43004300u,
                         sb_linear_twice(__fadd_rn(base, -128.0f)));
}

/* Decodes two codes of 8 bits, bytes r and r + 1, and adds their base. A binary32 of 2^23 with a
 * code in its fraction bits has the value 2^23 + code. */
SB_KERNEL_FN uint32_t sb_linear_eights(uint32_t raw, uint32_t r, float base)
{
    const float shift = __fadd_rn(base, -8388608.0f);
    const uint32_t low = __byte_perm(raw, 0x4b000000u, 0x7440 + r);
    const uint32_t high = __byte_perm(raw, 0x4b000000u, 0x7441 + r);
    return sb_bf16x2_upper(__fadd_rn(__uint_as_float(low), shift),
                           __fadd_rn(__uint_as_float(high), shift));
}

/* Decodes the weights of a step to a. */
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
        for (uint32_t r = 0; r < 4; r++)
            a[r] = sb_linear_eights(raw[2 * step + r / 2], r % 2 * 2, scales.base[r % 2]);
    } else if constexpr (CODES == SB_CODES_u4) {
        SB_UNROLL
        for (uint32_t r = 0; r < 4; r++)
            a[r] = sb_linear_fours(raw[step], r, scales.base[r % 2]);
    } else {
        uint32_t values[4];
        sb_cvt_bf16x8_e2m1x8(values, raw[step]);
        SB_UNROLL
        for (int r = 0; r < 4; r++) {
            /* Y-40: "a product of an E2M1 code and an E4M3 block scale, which has at most six
             * digits" */
            a[r] = CODES == SB_CODES_nvfp4
                       ? sb_bf16x2_mul(values[r], sb_linear_twice(scales.scale[r % 2]))
                       : values[r];
        }
    }
}

#endif
