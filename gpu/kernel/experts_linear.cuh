/* experts_linear.cuh - a layer of tile.cuh on the bf16 atom, for experts whose inputs are not
 * quantized. The packed weights and the sequence of instructions are the same as in linear.cuh, so
 * a pair has the same bits as its row in sb_linear_kernel. Inputs are read row by row, since the
 * rows of an expert are scattered. */
#ifndef SB_KERNEL_EXPERTS_LINEAR_CUH
#define SB_KERNEL_EXPERTS_LINEAR_CUH

#include "gpu/kernel/linear.cuh"
#include "gpu/kernel/tile.cuh"

/* Writes word `i` of `out`, if it exists. out (inputs, 32 chunks): words of two bfloat16, in the
 * order of the chunks; padding is zero. `columns` is the same for all experts, and is read only if
 * the shape gathers. */
template <class INPUT>
SB_KERNEL_FN void sb_expert_stage_at(size_t i, const INPUT &in, sb_global<const uint32_t> columns,
                                     sb_global<uint32_t> out, const sb_linear_shape &shape,
                                     uint32_t inputs)
{
    const uint32_t wide = shape.chunks * (SB_CHUNK / 2);
    const uint32_t row = static_cast<uint32_t>(i / wide), place = static_cast<uint32_t>(i % wide);
    if (row < inputs)
        out[i] = sb_linear_pair(shape, in, columns, inputs, row, 2 * place);
}

/* A thread writes one word, a pair of bfloat16. */
template <class T>
static __global__ void __launch_bounds__(256)
    sb_expert_stage(sb_global<const T> in, sb_global<const uint32_t> columns,
                    sb_global<uint32_t> out, sb_linear_shape shape, uint32_t inputs)
{
    sb_launch_ready();
    sb_launch_wait();
    const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    sb_expert_stage_at(i, sb_linear_memory<T>{in, shape.cols}, columns, out, shape, inputs);
}

/* The second operand of the atom, from input rows at arbitrary places. */
template <int NT> struct sb_expert_inputs {
    sb_global<const uint32_t> inputs; /* of sb_expert_stage */
    size_t wide;                      /* words of a row */
    const uint32_t (&row)[NT];        /* the input rows of this lane's columns */

    SB_ATOM_FN uint2 at(uint32_t n, uint32_t step) const
    {
        const sb_global<const uint32_t> place =
            inputs + (row[n] * wide + step * 8 + threadIdx.x % 4);
        const bool there = row[n] != SB_NO_ROW;
        return make_uint2(sb_load_if(there, place), sb_load_if(there, place + 4));
    }
};

template <int CODES, bool GROUPED> struct sb_expert_linear {
    uint32_t rows, units;
    sb_linear_shape shape;
    sb_global<const uint4> weight;    /* sb_pack_linear of each matrix, one after the other */
    sb_global<const uint32_t> inputs; /* of sb_expert_stage */
    sb_global<const float> factor;    /* the factor of each matrix; all share shape.is_divisor */

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

    template <int NT> using ring = sb_linear_ring<CODES, GROUPED, 1, NT>;

    template <int NT>
    SB_ATOM_FN void begin(ring<NT> &on_its_way, uint32_t tile, uint32_t first, uint32_t last) const
    {
        on_its_way.begin(tile_at(tile), 0, shape, first, last);
    }

    template <int NT>
    SB_ATOM_FN void product(float (&sum)[NT][4], ring<NT> &on_its_way, uint32_t tile,
                            const uint32_t (&row)[NT], uint32_t live, uint32_t first,
                            uint32_t last) const
    {
        const sb_expert_inputs<NT> all = {inputs, shape.chunks * (SB_CHUNK / 2), row};
        float one[1][NT][4] = {};
        sb_linear_product(one, on_its_way, tile_at(tile), 0, all, shape, first, last, live);
        SB_UNROLL
        for (int n = 0; n < NT; n++)
            SB_UNROLL
        for (int i = 0; i < 4; i++)
            sum[n][i] = one[0][n][i];
    }

    SB_ATOM_FN float finish(float sum, uint32_t at, uint32_t) const
    {
        return sb_linear_finish<CODES, GROUPED>(sum, tile_at(at / SB_TILE_ROWS), shape,
                                                at % SB_TILE_ROWS);
    }
};

#endif
