/* experts_linear.cuh - a layer of tile.cuh on the bf16 atom, for experts whose inputs stay as they
 * are: the weights of linear.cuh, and its sequence of instructions, so that a pair has the bits
 * that sb_linear_kernel gives its row. Inputs are read row by row: those of an expert lie anywhere.
 */
#ifndef SB_KERNEL_EXPERTS_LINEAR_CUH
#define SB_KERNEL_EXPERTS_LINEAR_CUH

#include "gpu/kernel/linear.cuh"
#include "gpu/kernel/tile.cuh"

/* out (inputs, 32 chunks): pairs of bfloat16 in the places of the chunks; what only fills up is
 * zero. A thread for each. `columns`, which all experts share, is read where the shape gathers. */
static __global__ void __launch_bounds__(256)
    sb_expert_stage(sb_global<const float> in, sb_global<const uint32_t> columns,
                    sb_global<uint32_t> out, sb_linear_shape shape, uint32_t inputs)
{
    sb_launch_ready();
    sb_launch_wait();
    const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    const uint32_t wide = shape.chunks * (SB_CHUNK / 2);
    const uint32_t row = static_cast<uint32_t>(i / wide), place = static_cast<uint32_t>(i % wide);
    if (row >= inputs)
        return;
    out[i] = sb_linear_input(shape, in, columns, inputs, row, 2 * place) |
             sb_linear_input(shape, in, columns, inputs, row, 2 * place + 1) << 16;
}

template <int CODES, bool GROUPED> struct sb_expert_linear {
    uint32_t rows, units;
    sb_linear_shape shape;
    sb_global<const uint4> weight;    /* sb_pack_linear of each matrix, one behind the other */
    sb_global<const uint32_t> inputs; /* of sb_expert_stage */
    sb_global<const float> factor;    /* of each matrix; shape.is_divisor is that of all */

    SB_ATOM_FN sb_expert_linear at(uint32_t matrix) const
    {
        sb_expert_linear other = *this;
        const size_t tiles = (shape.rows + SB_TILE_ROWS - 1) / SB_TILE_ROWS;
        other.weight += matrix * tiles * (shape.tile_bytes / sizeof(uint4));
        other.shape.factor = factor[matrix];
        return other;
    }

    SB_ATOM_FN sb_global<const uint4> tile_at(uint32_t tile) const
    {
        return weight + tile * (shape.tile_bytes / sizeof(uint4));
    }

    SB_ATOM_FN uint32_t pair_at(uint32_t row, uint32_t place) const
    {
        if (row == SB_NO_ROW)
            return 0;
        return inputs[static_cast<size_t>(row) * (shape.chunks * (SB_CHUNK / 2)) + place];
    }

    template <int NT>
    SB_ATOM_FN void product(float (&sum)[NT][4], uint32_t tile, const uint32_t (&row)[NT],
                            uint32_t live, uint32_t first, uint32_t last) const
    {
        const uint32_t lane = threadIdx.x % 32;
        const sb_global<const uint4> weights = tile_at(tile);
        float part[NT][4] = {};
        for (uint32_t chunk = first; chunk < last; chunk++) {
            uint32_t raw[sb_codes_bits(CODES)];
            sb_linear_scales scales;
            sb_linear_load<CODES>(raw, weights, chunk, lane);
            SB_UNROLL
            for (uint32_t s = 0; s < SB_STEPS; s++) {
                uint32_t a[4];
                sb_linear_find<CODES>(&scales, weights, shape, chunk, s, lane);
                sb_linear_fragment<CODES>(a, raw, scales, s);
                const uint32_t place = (chunk * SB_STEPS + s) * 8 + lane % 4;
                SB_UNROLL
                for (uint32_t n = 0; n < NT; n++) {
                    if (n >= live)
                        break;
                    const uint32_t b[2] = {pair_at(row[n], place), pair_at(row[n], place + 4)};
                    sb_mma_bf16(GROUPED ? part[n] : sum[n], a, b);
                }
                if (GROUPED && (s == SB_STEPS - 1 || (s == 1 && shape.parts == 2)))
                    sb_linear_fold(sum, part, scales);
            }
        }
    }

    SB_ATOM_FN float finish(float sum, uint32_t at, uint32_t) const
    {
        return sb_linear_finish<CODES, GROUPED>(sum, tile_at(at / SB_TILE_ROWS), shape,
                                                at % SB_TILE_ROWS);
    }
};

#endif
