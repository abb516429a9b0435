/* linear_ring.cuh - weights in flight. Y-64: "Before a warp uses the first chunk of its
 * part, it asks for the weights of four chunks, of two for BF16, and of one in blocks of more than
 * 16 rows. When it has used a chunk, it asks for another."
 *
 * To keep memory busy, the bytes in flight must be the memory rate times the memory latency
 * (Little's law). With an assumed latency of 700 ns, 48 multiprocessors at 255 GB/s need 3.7 KB
 * each, and 132 at 3.35 TB/s need 17.8 KB. The eight warps of a single block have 16 KB of 4-bit
 * codes in flight, or 32 KB of 8 or 16 bits. */
#ifndef SB_KERNEL_LINEAR_RING_CUH
#define SB_KERNEL_LINEAR_RING_CUH

#include "gpu/kernel/linear_codes.cuh"

/* The number of chunks that a warp requests ahead. In blocks for many rows, the sums need the
 * registers. */
SB_SHAPE_FN constexpr uint32_t sb_linear_depth(int codes, int nt)
{
    return nt > 2 ? 1 : sb_codes_bits(static_cast<uint32_t>(codes)) == 16 ? 2 : 4;
}

/* A lane's part of a chunk: codes, block scales (NVFP4), and the group scales of both halves. */
template <int CODES> struct sb_linear_held {
    uint32_t raw[sb_codes_bits(CODES)];
    uint2 blocks;
    sb_linear_scales of[2];
};

/* Returns the index of the scale for half a chunk. The same as sb_linear_scale, but without
 * branches and division, which would delay the loads that follow. */
struct sb_linear_halves {
    uint32_t each; /* 2^32 / (halves that share a scale), rounded up; 0: nothing is shared */

    SB_ATOM_FN void begin(const sb_linear_shape &shape)
    {
        each = shape.parts == 1 ? 0xffffffffu / (2 * shape.shared) + 1 : 0;
    }
    SB_ATOM_FN uint32_t operator()(uint32_t half) const
    {
        const uint32_t shared = static_cast<uint32_t>(static_cast<uint64_t>(half) * each >> 32);
        return each ? shared : half;
    }
};

/* The weights that a warp has in flight, for MT tiles that are `stride` elements apart. */
template <int CODES, bool GROUPED, int MT, int NT> struct sb_linear_ring {
    enum : uint32_t { DEPTH = sb_linear_depth(CODES, NT), LOADS = sb_codes_bits(CODES) / 4 };
    sb_linear_held<CODES> held[DEPTH][MT];
    sb_linear_scales row[MT]; /* scales and bases of integer codes without group scales */
    sb_linear_halves halves;

    SB_ATOM_FN void ask_tile(sb_linear_held<CODES> &to, sb_global<const uint4> tile,
                             const sb_linear_shape &shape, uint32_t chunk, uint32_t lane) const
    {
        SB_UNROLL
        for (uint32_t i = 0; i < LOADS; i++) {
            const uint4 four = sb_load_weight(tile + ((chunk * LOADS + i) * 32 + lane));
            to.raw[4 * i] = four.x;
            to.raw[4 * i + 1] = four.y;
            to.raw[4 * i + 2] = four.z;
            to.raw[4 * i + 3] = four.w;
        }
        if constexpr (CODES == SB_CODES_nvfp4) {
            const sb_global<const uint4> scales = tile + shape.scale_at / sizeof(uint4);
            to.blocks = sb_cast<const uint2>(scales)[chunk * 8 + lane / 4];
        } else if constexpr (GROUPED) {
            SB_UNROLL
            for (uint32_t h = 0; h < 2; h++)
                sb_linear_find<CODES>(&to.of[h], tile, shape, halves(2 * chunk + h), lane);
        }
    }

    SB_ATOM_FN void ask(uint32_t place, sb_global<const uint4> weights, size_t stride,
                        const sb_linear_shape &shape, uint32_t chunk)
    {
        SB_UNROLL
        for (int m = 0; m < MT; m++)
            ask_tile(held[place][m], weights + m * stride, shape, chunk, threadIdx.x % 32);
    }

    /* Requests the first DEPTH of the chunks [first, last). Reads only weights. */
    SB_ATOM_FN void begin(sb_global<const uint4> weights, size_t stride,
                          const sb_linear_shape &shape, uint32_t first, uint32_t last)
    {
        if constexpr (GROUPED)
            halves.begin(shape);
        SB_UNROLL
        for (uint32_t d = 0; d < DEPTH; d++)
            if (first + d < last)
                ask(d, weights, stride, shape, first + d);
        if constexpr (sb_codes_integer(CODES) && !GROUPED) {
            SB_UNROLL
            for (int m = 0; m < MT; m++)
                sb_linear_find<CODES>(&row[m], weights + m * stride, shape, 0, threadIdx.x % 32);
        }
    }

    /* The scales of step s of a chunk that has arrived. */
    SB_ATOM_FN sb_linear_scales scales(uint32_t place, int m, uint32_t s) const
    {
        if constexpr (CODES == SB_CODES_nvfp4)
            return sb_linear_block_scales(held[place][m].blocks, s);
        else if constexpr (GROUPED)
            return held[place][m].of[s / 2];
        else
            return row[m];
    }
};

#endif
