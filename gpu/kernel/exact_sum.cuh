/* exact_sum.cuh - exact sums of numbers from 0 to 1, rounded once. The order does not matter, and
 * the bits are those of sb_sum.
 *
 * A binary32 number of at most 1 is an integer of at most 150 bits in units of 2^-149. A thread
 * keeps its sum in digits of 32 bits, each in a 64-bit word, which holds the carries of 2^32
 * additions. */
#ifndef SB_KERNEL_EXACT_SUM_CUH
#define SB_KERNEL_EXACT_SUM_CUH

#include "gpu/cuda.h"
#include "gpu/kernel/kernel.h"
#include "gpu/math/word.h"

enum : uint32_t { SB_SUM_DIGITS = 5 };

struct sb_digits {
    uint64_t digit[SB_SUM_DIGITS];
};

SB_KERNEL_FN void sb_digits_clear(sb_digits *sum)
{
    SB_UNROLL
    for (uint32_t d = 0; d < SB_SUM_DIGITS; d++)
        sum->digit[d] = 0;
}

/* Adds x, where 0 <= x <= 1. */
SB_KERNEL_FN void sb_digits_add(sb_digits *sum, float x)
{
    const uint32_t bits = sb_gpu_bits(x), field = bits >> 23;
    const uint32_t digits = field ? (bits & 0x7fffff) | 0x800000 : bits;
    const uint32_t place = field ? field - 1 : 0;
    const uint64_t wide = static_cast<uint64_t>(digits) << place % 32;
    const uint32_t low = static_cast<uint32_t>(wide), high = static_cast<uint32_t>(wide >> 32);
    SB_UNROLL
    for (uint32_t d = 0; d < SB_SUM_DIGITS; d++)
        sum->digit[d] += d == place / 32 ? low : d == place / 32 + 1 ? high : 0;
}

/* Rounds the sum to nearest, ties to even. */
SB_KERNEL_FN float sb_digits_round(const sb_digits &sum)
{
    uint32_t word[SB_SUM_DIGITS + 1], dropped = 0, sticky = 0;
    uint64_t carry = 0;
    SB_UNROLL
    for (uint32_t d = 0; d < SB_SUM_DIGITS; d++) {
        carry += sum.digit[d];
        word[d] = static_cast<uint32_t>(carry);
        carry >>= 32;
    }
    word[SB_SUM_DIGITS] = static_cast<uint32_t>(carry);
    SB_UNROLL
    for (uint32_t step = 0; step + 1 < SB_SUM_DIGITS; step++) {
        uint32_t above = 0;
        SB_UNROLL
        for (uint32_t d = 2; d <= SB_SUM_DIGITS; d++)
            above |= word[d];
        if (!above)
            continue;
        sticky |= word[0];
        dropped += 32;
        SB_UNROLL
        for (uint32_t d = 0; d < SB_SUM_DIGITS; d++)
            word[d] = word[d + 1];
        word[SB_SUM_DIGITS] = 0;
    }
    const uint64_t size = static_cast<uint64_t>(word[1]) << 32 | word[0];
    const int lead =
        word[1] ? 63 - __clz(static_cast<int>(word[1])) : 31 - __clz(static_cast<int>(word[0]));
    if (lead <= 23)
        return sb_gpu_float(word[0]);
    const uint32_t drop = static_cast<uint32_t>(lead) - 23;
    const uint64_t kept = size >> drop, rest = size - (kept << drop),
                   half = uint64_t(1) << (drop - 1);
    if (SB_PLANT(sum_sticky))
        sticky = 0;
    const bool up = rest > half || (rest == half && (sticky || (kept & 1)));
    return sb_gpu_float(((dropped + drop) << 23) + static_cast<uint32_t>(kept) + up);
}

/* Returns, in every thread, the sum over the threads of a block. room: SB_SUM_DIGITS words for each
 * warp. */
SB_KERNEL_FN sb_digits sb_digits_block(sb_digits sum, sb_shared<uint64_t> room)
{
    SB_UNROLL
    for (uint32_t d = 0; d < SB_SUM_DIGITS; d++) {
        if (!__any_sync(0xffffffffu, sum.digit[d] != 0)) /* most sums have two non-zero digits */
            continue;
        for (int with = 16; with > 0; with /= 2)
            sum.digit[d] += __shfl_xor_sync(0xffffffffu, sum.digit[d], with);
    }
    __syncthreads(); /* an earlier call may still use `room` */
    if (threadIdx.x % 32 == 0) {
        SB_UNROLL
        for (uint32_t d = 0; d < SB_SUM_DIGITS; d++)
            room[threadIdx.x / 32 * SB_SUM_DIGITS + d] = sum.digit[d];
    }
    if (!SB_PLANT(sum_barrier))
        __syncthreads();
    sb_digits_clear(&sum);
    for (uint32_t warp = 0; warp < blockDim.x / 32; warp++) {
        SB_UNROLL
        for (uint32_t d = 0; d < SB_SUM_DIGITS; d++)
            sum.digit[d] += room[warp * SB_SUM_DIGITS + d];
    }
    return sum;
}

#endif
