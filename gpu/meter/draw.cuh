/* draw.cuh - random packed weights, computed on the device from their index, so that nothing is
 * copied. */
#ifndef SB_METER_DRAW_CUH
#define SB_METER_DRAW_CUH

#include "gpu/cuda.h"
#include "gpu/kernel/kernel.h"
#include "gpu/meter/counter.h"

/* The contents of 16 bytes. The last number of each comment is the root mean square. */
enum sb_drawn : uint32_t {
    SB_DRAWN_float,      /* the values of SB_DRAWN_bf16, in binary32 */
    SB_DRAWN_bf16,       /* random sign and fraction, one of four exponents: 0.88 * 2^top */
    SB_DRAWN_e4m3,       /* the same, with exponents 2^0 to 2^3: 7 */
    SB_DRAWN_e2m1,       /* any code: 2.93 */
    SB_DRAWN_e4m3_scale, /* 1 to 1.875: 1.46 */
    SB_DRAWN_scale       /* binary32, 0.75 to 1.5 times `scale`: 1.14 `scale` */
};

/* Tiles of `period` words of 16 bytes each: first `codes`, then `scales` from word scales_at on. */
struct sb_drawn_tiles {
    sb_drawn codes, scales;
    uint64_t period, scales_at;
    uint32_t top; /* the largest exponent, with the bias of bfloat16 */
    float scale;
};

/* Returns two random values in bfloat16. */
SB_KERNEL_FN uint32_t sb_draw_pair(uint32_t bits, uint32_t top)
{
    const uint32_t down = (bits >> 7 & 0x3) | (bits >> 7 & 0x30000);
    return (bits & 0x807f807fu) | ((top * 0x10001u - down) << 7);
}

SB_KERNEL_FN uint32_t sb_draw_word(sb_drawn what, uint32_t bits, const sb_drawn_tiles &tiles)
{
    switch (what) {
    case SB_DRAWN_float:
        return sb_draw_pair(bits, tiles.top) & 0xffff0000u;
    case SB_DRAWN_bf16:
        return sb_draw_pair(bits, tiles.top);
    case SB_DRAWN_e4m3: /* exponents 7 to 10 of four codes */
        return (bits & 0x87878787u) | (0x38383838u + (bits & 0x18181818u));
    case SB_DRAWN_e2m1:
        return bits;
    case SB_DRAWN_e4m3_scale:
        return 0x38383838u | (bits & 0x07070707u);
    case SB_DRAWN_scale:
        break;
    }
    const float upto = __uint_as_float(0x3f800000u | bits >> 9); /* in [1, 2) */
    return __float_as_uint(__fmul_rn(__fmul_rn(upto, 0.75f), tiles.scale));
}

/* The 16-byte word i is made from numbers 2 i and 2 i + 1 of the stream. A thread writes one word.
 */
static __global__ void __launch_bounds__(256)
    sb_draw_weights(sb_global<uint4> to, size_t words, sb_drawn_tiles tiles, uint64_t key)
{
    sb_launch_ready();
    sb_launch_wait();
    const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= words)
        return;
    const sb_drawn what = i % tiles.period < tiles.scales_at ? tiles.codes : tiles.scales;
    const uint64_t low = sb_counter_bits(key, 2 * i), high = sb_counter_bits(key, 2 * i + 1);
    to[i] = make_uint4(sb_draw_word(what, static_cast<uint32_t>(low), tiles),
                       sb_draw_word(what, static_cast<uint32_t>(low >> 32), tiles),
                       sb_draw_word(what, static_cast<uint32_t>(high), tiles),
                       sb_draw_word(what, static_cast<uint32_t>(high >> 32), tiles));
}

#endif
