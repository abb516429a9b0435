/* linear_w8a8.cuh - E4M3 weights with E4M3 inputs on the FP8 atom, a layer of tile.cuh.
 *
 * The atom multiplies codes exactly and sums them. If groups have scales, the scales of input and
 * weight multiply the sum of each unit; otherwise they multiply the whole sum. */
#ifndef SB_KERNEL_LINEAR_W8A8_CUH
#define SB_KERNEL_LINEAR_W8A8_CUH

#include "gpu/atom/mma_e4m3.h"
#include "gpu/kernel/lowbit_shape.h"
#include "gpu/kernel/tile.cuh"

template <bool GROUPED> struct sb_w8a8 {
    uint32_t rows, units, steps;
    sb_global<const uint4> weight;   /* [tile][unit][step][lane] */
    sb_global<const float> scale;    /* [tile][scale][16] */
    sb_global<const uint32_t> codes; /* (inputs, words) of sb_act_fp8_kernel */
    sb_global<const float> y;        /* (inputs, scales) */
    sb_global<const float2> factor;  /* multiplier and divisor for each matrix and its input */

    SB_ATOM_FN sb_w8a8 at(uint32_t matrix) const
    {
        sb_w8a8 other = *this;
        const uint32_t tiles = (rows + SB_LOWBIT_ROWS - 1) / SB_LOWBIT_ROWS;
        const size_t scales = (GROUPED ? units : 1) * SB_LOWBIT_ROWS;
        other.weight += static_cast<size_t>(matrix) * tiles * units * steps * 32;
        other.scale += static_cast<size_t>(matrix) * tiles * scales;
        other.factor += matrix;
        return other;
    }

    /* The codes of steps in flight, also of the next unit: see linear_ring.cuh. */
    template <int NT> struct ring {
        enum : uint32_t { DEPTH = NT > 2 ? 2 : 4 };
        uint4 codes[DEPTH];
    };

    template <int NT>
    SB_ATOM_FN void ask(ring<NT> &to, uint32_t place, uint32_t tile, size_t step) const
    {
        const uint32_t lane = threadIdx.x % 32;
        to.codes[place] =
            sb_load_weight(weight + ((static_cast<size_t>(tile) * units * steps + step) * 32 +
                                     (SB_PLANT(lowbit_lanes) ? lane ^ 4 : lane)));
    }

    template <int NT>
    SB_ATOM_FN void begin(ring<NT> &to, uint32_t tile, uint32_t first, uint32_t last) const
    {
        const uint32_t at = first * steps, end = last * steps;
        SB_UNROLL
        for (uint32_t d = 0; d < to.DEPTH; d++)
            if (at + d < end)
                ask(to, d, tile, at + d);
    }

    /* Adds the products of a step. The layout of the input is that of H-8: "Register r of B has
     * column g and starts at k = W t + 4 W r" */
    template <int NT>
    SB_ATOM_FN void multiply(float (&sum)[NT][4], const uint4 &four, const uint32_t (&row)[NT],
                             uint32_t live, size_t step) const
    {
        const size_t words = static_cast<size_t>(units) * steps * SB_LOWBIT_WORDS;
        const uint32_t a[4] = {four.x, four.y, four.z, four.w};
        SB_UNROLL
        for (uint32_t n = 0; n < NT; n++) {
            if (n >= live)
                break;
            const size_t at = row[n] * words + step * SB_LOWBIT_WORDS + threadIdx.x % 4;
            const bool there = row[n] != SB_NO_ROW;
            const uint32_t b[2] = {sb_load_if(there, codes + at),
                                   sb_load_if(there, codes + (at + 4))};
            sb_mma_e4m3(sum[n], a, b);
        }
    }

    /* Y-53: "Its result times the scale of the input is rounded. The product of this and the scale
     * of the weight is added to the part with one rounding" */
    template <int NT>
    SB_ATOM_FN void fold(float (&sum)[NT][4], float (&part)[NT][4], uint32_t tile,
                         const uint32_t (&row)[NT], uint32_t live, uint32_t u) const
    {
        const uint32_t lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
        const size_t first = (static_cast<size_t>(tile) * units + u) * SB_LOWBIT_ROWS;
        const float of[2] = {scale[first + g], scale[first + g + 8]};
        SB_UNROLL
        for (uint32_t n = 0; n < NT; n++) {
            if (n >= live)
                break;
            float mine = 0.0f;
            if (row[n] != SB_NO_ROW)
                mine = y[static_cast<size_t>(row[n]) * units + u];
            const float of_input[2] = {__shfl_sync(0xffffffffu, mine, 8 * t),
                                       __shfl_sync(0xffffffffu, mine, 8 * t + 4)};
            SB_UNROLL
            for (int i = 0; i < 4; i++) {
                const float scaled = __fmul_rn(part[n][i], of_input[i % 2]);
                sum[n][i] = __fmaf_rn(scaled, of[i / 2], sum[n][i]);
                part[n][i] = 0.0f;
            }
        }
    }

    template <int NT>
    SB_ATOM_FN void product(float (&sum)[NT][4], ring<NT> &from, uint32_t tile,
                            const uint32_t (&row)[NT], uint32_t live, uint32_t first,
                            uint32_t last) const
    {
        const uint32_t end = last * steps;
        uint32_t u = first, left = steps; /* steps left of unit u */
        float part[NT][4] = {};
        for (uint32_t base = first * steps; base < end; base += from.DEPTH) {
            SB_UNROLL
            for (uint32_t d = 0; d < from.DEPTH; d++) {
                const uint32_t at = base + d;
                if (at >= end)
                    break;
                multiply(GROUPED ? part : sum, from.codes[d], row, live, at);
                if (at + from.DEPTH < end)
                    ask(from, SB_PLANT(tile_ring) ? d ^ 1 : d, tile, at + from.DEPTH);
                if (GROUPED && --left == 0) {
                    fold(sum, part, tile, row, live, u++);
                    left = steps;
                }
            }
        }
    }

    /* Y-54: "Where a row has one scale, the sum is multiplied by the scale of the input, then by
     * the scale of the weight" */
    SB_ATOM_FN float finish(float sum, uint32_t at, uint32_t row) const
    {
        if (!GROUPED) {
            const float of_input = y[row], of_weight = scale[at];
            sum = __fmul_rn(__fmul_rn(sum, of_input), of_weight);
        }
        const float2 by = *factor;
        return __fdiv_rn(__fmul_rn(sum, by.x), by.y);
    }
};

#endif
