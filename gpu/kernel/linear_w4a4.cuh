/* linear_w4a4.cuh - E2M1 weights with E2M1 inputs, both with E4M3 scales for groups of 16, on the
 * NVFP4 atom; a layer of tile.cuh. */
#ifndef SB_KERNEL_LINEAR_W4A4_CUH
#define SB_KERNEL_LINEAR_W4A4_CUH

#include "gpu/atom/mma_nvfp4.h"
#include "gpu/kernel/lowbit_shape.h"
#include "gpu/kernel/tile.cuh"

/* A unit has two steps. For both steps together, the scales of weights are one word in each lane;
 * the first selector of the atom chooses the step. The scales of inputs are one word in half of the
 * lanes. H-9: "The scales of row m are in the word of lane 4 (m mod 8) + 2 p + m / 8, and the
 * scales of column n in the word of lane 4 n + q" */
struct sb_w4a4 {
    uint32_t rows, units;
    sb_global<const uint4> weight;   /* [tile][unit][2][lane] */
    sb_global<const uint32_t> scale; /* [tile][unit][lane] */
    sb_global<const uint32_t> codes; /* (inputs, words) of sb_act_fp4_kernel */
    sb_global<const uint32_t>
        in_scale;                   /* (inputs, 2 units) of sb_act_fp4_kernel: four scales each */
    sb_global<const float2> factor; /* multiplier and divisor for each matrix and its input */

    SB_ATOM_FN sb_w4a4 at(uint32_t matrix) const
    {
        sb_w4a4 other = *this;
        const size_t tiles = (rows + SB_LOWBIT_ROWS - 1) / SB_LOWBIT_ROWS;
        other.weight += matrix * tiles * units * 64;
        other.scale += matrix * tiles * units * 32;
        other.factor += matrix;
        return other;
    }

    template <int P>
    SB_ATOM_FN void step(float (&sum)[4], const uint32_t (&a)[4], uint32_t row, size_t unit,
                         uint32_t scales_a, uint32_t scales_b) const
    {
        const size_t at = (static_cast<size_t>(row) * units + unit) * 2 * SB_LOWBIT_WORDS +
                          P * SB_LOWBIT_WORDS + threadIdx.x % 4;
        const bool there = row != SB_NO_ROW;
        const uint32_t b[2] = {sb_load_if(there, codes + at), sb_load_if(there, codes + (at + 4))};
        sb_mma_nvfp4<P, P>(sum, a, b, scales_a, scales_b);
    }

    /* The codes and scales of units in flight: see linear_ring.cuh. */
    template <int NT> struct ring {
        enum : uint32_t { DEPTH = NT > 2 ? 1 : 2 };
        uint4 codes[DEPTH][2];
        uint32_t scales[DEPTH];
    };

    template <int NT>
    SB_ATOM_FN void ask(ring<NT> &to, uint32_t place, uint32_t tile, uint32_t u) const
    {
        const uint32_t lane = threadIdx.x % 32, from = SB_PLANT(lowbit_lanes) ? lane ^ 4 : lane;
        const size_t unit = static_cast<size_t>(tile) * units + u;
        to.codes[place][0] = sb_load_weight(weight + (unit * 64 + from));
        to.codes[place][1] = sb_load_weight(weight + (unit * 64 + 32 + from));
        to.scales[place] = scale[unit * 32 + lane];
    }

    template <int NT>
    SB_ATOM_FN void begin(ring<NT> &to, uint32_t tile, uint32_t first, uint32_t last) const
    {
        SB_UNROLL
        for (uint32_t d = 0; d < to.DEPTH; d++)
            if (first + d < last)
                ask(to, d, tile, first + d);
    }

    /* sum[n] += the product of unit u. Its weights are at `place` of the ring. */
    template <int NT>
    SB_ATOM_FN void multiply(float (&sum)[NT][4], const ring<NT> &from, uint32_t place,
                             const uint32_t (&row)[NT], uint32_t live, uint32_t u) const
    {
        const uint4 one = from.codes[place][0], two = from.codes[place][1];
        const uint32_t a[2][4] = {{one.x, one.y, one.z, one.w}, {two.x, two.y, two.z, two.w}};
        uint32_t scales_a = from.scales[place];
        if (SB_PLANT(w4a4_scales))
            scales_a = __byte_perm(scales_a, 0, 0x2301);
        SB_UNROLL
        for (uint32_t n = 0; n < NT; n++) {
            if (n >= live)
                break;
            const uint32_t scales_b = sb_load_if(
                row[n] != SB_NO_ROW && threadIdx.x % 4 < 2,
                in_scale + ((static_cast<size_t>(row[n]) * units + u) * 2 + threadIdx.x % 4));
            step<0>(sum[n], a[0], row[n], u, scales_a, scales_b);
            step<1>(sum[n], a[1], row[n], u, scales_a, scales_b);
        }
    }

    template <int NT>
    SB_ATOM_FN void product(float (&sum)[NT][4], ring<NT> &from, uint32_t tile,
                            const uint32_t (&row)[NT], uint32_t live, uint32_t first,
                            uint32_t last) const
    {
        for (uint32_t base = first; base < last; base += from.DEPTH) {
            SB_UNROLL
            for (uint32_t d = 0; d < from.DEPTH; d++) {
                const uint32_t u = base + d;
                if (u >= last)
                    break;
                multiply(sum, from, d, row, live, u);
                if (u + from.DEPTH < last)
                    ask(from, from.DEPTH > 1 && SB_PLANT(tile_ring) ? d ^ 1 : d, tile,
                        u + from.DEPTH);
            }
        }
    }

    SB_ATOM_FN float finish(float sum, uint32_t, uint32_t) const
    {
        const float2 by = *factor;
        return __fdiv_rn(__fmul_rn(sum, by.x), by.y);
    }
};

#endif
