/* wide.cuh - linear layers of many rows on the bf16 atom. The bits are those of linear.cuh. Weights
 * and inputs are loaded to shared memory once for the whole block.
 *
 * A block computes 128 rows of weights times 128 inputs, over all of K. Y-87: "A warp takes the
 * parts of Y-43 one after the other, and adds each to the sum of those before." A warp computes 32
 * rows of weights times 64 inputs, so for each instruction it reads 128 bytes of inputs, and packed
 * weights, from shared memory. Y-88: "A weight is decoded by the two warps of a block that share
 * its row" - so both warps do the same decoding. If one warp decoded for both, the decoded weights
 * would pass through shared memory as bfloat16, with four times the bytes. */
#ifndef SB_KERNEL_WIDE_CUH
#define SB_KERNEL_WIDE_CUH

#include "gpu/atom/ldmatrix.h"
#include "gpu/kernel/experts_linear.cuh"

enum : uint32_t {
    SB_WIDE_ROWS = 128,  /* rows of weights, and inputs, of a block */
    SB_WIDE_TILES = 8,   /* tiles of weights of a block */
    SB_WIDE_ACROSS = 2,  /* warps that share rows of weights */
    SB_WIDE_STAGES = 3,  /* chunks that shared memory holds at once */
    SB_WIDE_PIECES = 8,  /* pieces of 16 bytes of a row of inputs in a chunk */
    SB_WIDE_TOGETHER = 8 /* rows of blocks that run side by side: Y-89 */
};
enum : int { SB_WIDE_MT = 2, SB_WIDE_NT = 8 }; /* tiles of weights and of inputs of a warp */

/* A layer of experts, or with ALONE a layer of one matrix. The factor of a single matrix is in its
 * shape. */
template <int CODES, bool GROUPED, bool ALONE>
struct sb_wide_layer : sb_expert_linear<CODES, GROUPED> {
    enum : int { codes = CODES };
    enum : bool { grouped = GROUPED };

    SB_ATOM_FN sb_wide_layer at(uint32_t matrix) const
    {
        sb_wide_layer other = *this;
        if constexpr (!ALONE)
            static_cast<sb_expert_linear<CODES, GROUPED> &>(other) =
                sb_expert_linear<CODES, GROUPED>::at(matrix);
        return other;
    }
};

/* --- sizes in shared memory for one chunk, in words of 16 bytes ------------------------------- */
SB_SHAPE_FN constexpr uint32_t sb_wide_inputs()
{
    return SB_WIDE_ROWS * SB_WIDE_PIECES;
}
/* The codes of a tile. */
SB_SHAPE_FN constexpr uint32_t sb_wide_codes(uint32_t codes)
{
    return sb_codes_bits(codes) / 4 * 32;
}
/* The scales of a tile. NVFP4 has 4 bytes per row. Integer codes need their base even without group
 * scales. */
SB_SHAPE_FN constexpr uint32_t sb_wide_scales(uint32_t codes, bool grouped)
{
    return codes == SB_CODES_nvfp4 ? 4
                                   : (grouped                   ? 2
                                      : sb_codes_integer(codes) ? 1
                                                                : 0) *
                                         sb_linear_scale_words(codes);
}
SB_SHAPE_FN constexpr uint32_t sb_wide_stage(uint32_t codes, bool grouped)
{
    return sb_wide_inputs() +
           SB_WIDE_TILES * (sb_wide_codes(codes) + sb_wide_scales(codes, grouped));
}
constexpr size_t sb_wide_bytes(uint32_t codes, bool grouped)
{
    return sizeof(uint4) * SB_WIDE_STAGES * sb_wide_stage(codes, grouped);
}

/* The place of piece p of a row. Pieces are swizzled: piece p of eight successive rows lies in
 * eight different banks. */
SB_KERNEL_FN uint32_t sb_wide_piece(uint32_t row, uint32_t p)
{
    return row * SB_WIDE_PIECES + (p ^ row % 8);
}

/* The coordinates of this block: tiles of weights, and inputs. Y-89: "Eight rows of blocks go along
 * the weights side by side" */
SB_KERNEL_FN uint2 sb_wide_block()
{
    const uint32_t id = blockIdx.y * gridDim.x + blockIdx.x, each = SB_WIDE_TOGETHER * gridDim.x;
    const uint32_t first = id / each * SB_WIDE_TOGETHER, left = gridDim.y - first;
    const uint32_t high = left < SB_WIDE_TOGETHER ? left : uint32_t(SB_WIDE_TOGETHER);
    return make_uint2(id % each / high, first + id % each % high);
}

/* --- copies ----------------------------------------------------------------------------------- */
/* The sources of a thread's copies for the next chunk. */
struct sb_wide_source {
    sb_global<const uint4> inputs, codes, scales;
    size_t step;             /* the distance between tiles of weights that the thread copies */
    uint32_t inputs_live;    /* existing rows of inputs */
    uint32_t tiles_live;     /* existing tiles of weights */
    uint32_t scale, of_this; /* the next chunk's first scale; how many chunks have used it */
};

/* The distance, in tiles, between two tiles of codes that a thread copies. */
SB_SHAPE_FN constexpr uint32_t sb_wide_apart(uint32_t codes)
{
    return SB_LINEAR_THREADS / sb_wide_codes(codes);
}

template <class LAYER>
SB_KERNEL_FN sb_wide_source sb_wide_open(const LAYER &layer, uint32_t first_tile, uint32_t live)
{
    constexpr uint32_t CODES = LAYER::codes, CODE = sb_wide_codes(CODES);
    constexpr uint32_t SCALES = sb_wide_scales(CODES, LAYER::grouped);
    const sb_linear_shape &shape = layer.shape;
    const size_t tile = shape.tile_bytes / sizeof(uint4);
    sb_wide_source from;
    from.inputs = sb_cast<const uint4>(layer.inputs) + threadIdx.x % SB_WIDE_PIECES;
    from.codes = layer.tile_at(first_tile + threadIdx.x / CODE) + threadIdx.x % CODE;
    from.scales = from.codes;
    if constexpr (SCALES > 0)
        from.scales = layer.tile_at(first_tile + threadIdx.x / SCALES) +
                      (shape.scale_at / sizeof(uint4) + threadIdx.x % SCALES);
    from.step = sb_wide_apart(CODES) * tile;
    from.inputs_live = live;
    from.tiles_live = (shape.rows + SB_TILE_ROWS - 1) / SB_TILE_ROWS - first_tile;
    from.scale = 0;
    from.of_this = 0;
    return from;
}

/* Y-86: "A block brings codes, scales and inputs to shared memory chunk by chunk": all threads copy
 * the next chunk into its stage. `row` holds the begin of each input row of the block. Missing rows
 * and tiles become zeros. */
template <class LAYER>
SB_KERNEL_FN void sb_wide_copy(sb_shared<uint4> stage, sb_wide_source *from,
                               sb_shared<const uint64_t> row, const sb_linear_shape &shape)
{
    constexpr uint32_t CODES = LAYER::codes, CODE = sb_wide_codes(CODES);
    constexpr uint32_t SCALES = sb_wide_scales(CODES, LAYER::grouped);
    constexpr uint32_t ONE = sb_linear_scale_words(CODES);
    SB_UNROLL
    for (uint32_t i = 0; i < sb_wide_inputs() / SB_LINEAR_THREADS; i++) {
        const uint32_t at = (i * SB_LINEAR_THREADS + threadIdx.x) / SB_WIDE_PIECES;
        const uint64_t line = row[at];
        sb_cp_async<16>(stage + sb_wide_piece(at, threadIdx.x % SB_WIDE_PIECES),
                        from->inputs + line, at < from->inputs_live ? 16u : 0u);
    }
    from->inputs += uint32_t(SB_WIDE_PIECES);
    const sb_shared<uint4> codes = stage + sb_wide_inputs();
    SB_UNROLL
    for (uint32_t i = 0; i < SB_WIDE_TILES / sb_wide_apart(CODES); i++) {
        const uint32_t tile = threadIdx.x / CODE + i * sb_wide_apart(CODES);
        sb_cp_async<16>(codes + (i * SB_LINEAR_THREADS + threadIdx.x), from->codes + i * from->step,
                        tile < from->tiles_live ? 16u : 0u);
    }
    from->codes += CODE;
    if constexpr (SCALES > 0) {
        const uint32_t i = threadIdx.x;
        if (i < SB_WIDE_TILES * SCALES && (i % SCALES < ONE || shape.parts == 2))
            sb_cp_async<16>(codes + (SB_WIDE_TILES * CODE + i), from->scales + from->scale * ONE,
                            i / SCALES < from->tiles_live ? 16u : 0u);
        if (CODES == SB_CODES_nvfp4)
            from->scale++;
        else if (shape.parts == 2)
            from->scale += 2;
        else if (shape.parts == 1 && ++from->of_this == shape.shared) {
            from->of_this = 0;
            from->scale++;
        }
    }
}

/* --- products --------------------------------------------------------------------------------- */
/* The decoded weights of a warp for a chunk: two tiles, four steps. */
template <int CODES> struct sb_wide_weights {
    uint32_t a[SB_WIDE_MT][SB_STEPS][4];
    sb_linear_scales scales[SB_WIDE_MT][2]; /* for both halves of the chunk */
};

template <int CODES, bool GROUPED>
SB_KERNEL_FN void sb_wide_decode(sb_wide_weights<CODES> *w, sb_shared<const uint4> codes,
                                 uint32_t tile, uint32_t parts, uint32_t lane)
{
    constexpr uint32_t CODE = sb_wide_codes(CODES), SCALES = sb_wide_scales(CODES, GROUPED);
    constexpr uint32_t ONE = sb_linear_scale_words(CODES);
    SB_UNROLL
    for (uint32_t m = 0; m < SB_WIDE_MT; m++) {
        uint32_t raw[sb_codes_bits(CODES)];
        sb_linear_load<CODES>(raw, codes + (tile + m) * CODE, 0, lane);
        const sb_shared<const uint4> at = codes + SB_WIDE_TILES * CODE + (tile + m) * SCALES;
        SB_UNROLL
        for (uint32_t s = 0; s < SB_STEPS; s++) {
            sb_linear_scales *scales = &w->scales[m][s / 2];
            if (SCALES > 0 && (CODES == SB_CODES_nvfp4 || s % 2 == 0))
                sb_linear_scales_at<CODES>(scales, at + (GROUPED && parts == 2 ? s / 2 * ONE : 0),
                                           s, lane);
            sb_linear_fragment<CODES>(w->a[m][s], raw, *scales, s);
        }
    }
}

/* Y-44: adds the chains of two tiles of inputs, n and n + 1, to their sums. The next chains start
 * from 0. */
SB_KERNEL_FN void sb_wide_fold(float (&sum)[SB_WIDE_NT][4], uint32_t n, float (&chain)[2][4],
                               const sb_linear_scales &scales)
{
    SB_UNROLL
    for (uint32_t t = 0; t < 2; t++)
        SB_UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        sum[n + t][i] = __fmaf_rn(chain[t][i], scales.scale[i / 2], sum[n + t][i]);
        chain[t][i] = 0.0f;
    }
}

/* sum += the product of a chunk of the warp's weights with its inputs. Tile n of the warp is tile
 * SB_WIDE_ACROSS n + across of the block; it exists if this number is below `live`. */
template <int CODES, bool GROUPED>
SB_KERNEL_FN void sb_wide_multiply(float (&sum)[SB_WIDE_MT][SB_WIDE_NT][4],
                                   const sb_wide_weights<CODES> &w, sb_shared<const uint4> inputs,
                                   uint32_t across, uint32_t live, uint32_t parts, uint32_t lane)
{
    /* lane 8 j + i points to row i of matrix j; the matrices are the two halves of a step, for two
     * tiles */
    const uint32_t row = (lane / 16 * SB_WIDE_ACROSS + across) * SB_TILE_INPUTS + lane % 8;
    SB_UNROLL
    for (uint32_t n = 0; n < SB_WIDE_NT; n += 2) {
        if (n * SB_WIDE_ACROSS + across >= live)
            break;
        float chain[SB_WIDE_MT][2][4] = {};
        SB_UNROLL
        for (uint32_t s = 0; s < SB_STEPS; s++) {
            const uint32_t at = row + n * SB_WIDE_ACROSS * SB_TILE_INPUTS;
            const uint32_t piece = 2 * s + lane / 8 % 2;
            uint32_t b[4];
            sb_ldmatrix(b, inputs + sb_wide_piece(SB_PLANT(wide_rows) ? at ^ 1 : at,
                                                  SB_PLANT(wide_piece) ? piece ^ 1 : piece));
            SB_UNROLL
            for (uint32_t t = 0; t < 2; t++) {
                const uint32_t own[2] = {b[2 * t], b[2 * t + 1]};
                SB_UNROLL
                for (uint32_t m = 0; m < SB_WIDE_MT; m++)
                    sb_mma_bf16(GROUPED ? chain[m][t] : sum[m][n + t], w.a[m][s], own);
            }
            if (GROUPED && (s == SB_STEPS - 1 || (s == 1 && parts == 2))) {
                SB_UNROLL
                for (uint32_t m = 0; m < SB_WIDE_MT; m++)
                    sb_wide_fold(sum[m], n, chain[m], w.scales[m][s / 2]);
            }
        }
    }
}

/* Sets the total before the first part: to -0, which changes no part, or to 0 if there are fewer
 * chunks than parts (tile.cuh). */
SB_KERNEL_FN void sb_wide_begin(float (&total)[SB_WIDE_MT][SB_WIDE_NT][4], uint32_t chunks)
{
    SB_UNROLL
    for (uint32_t i = 0; i < SB_WIDE_MT * SB_WIDE_NT * 4; i++)
        total[i / 4 / SB_WIDE_NT][i / 4 % SB_WIDE_NT][i % 4] =
            chunks < SB_LINEAR_WARPS ? 0.0f : -0.0f;
}

/* Y-43: "the eight are added in binary32, from the first to the last" */
SB_KERNEL_FN void sb_wide_add(float (&total)[SB_WIDE_MT][SB_WIDE_NT][4],
                              float (&sum)[SB_WIDE_MT][SB_WIDE_NT][4])
{
    SB_UNROLL
    for (int m = 0; m < SB_WIDE_MT; m++)
        SB_UNROLL
    for (int n = 0; n < SB_WIDE_NT; n++)
        SB_UNROLL
    for (int i = 0; i < 4; i++) {
        total[m][n][i] = __fadd_rn(total[m][n][i], sum[m][n][i]);
        sum[m][n][i] = 0.0f;
    }
}

/* Writes the sums of a warp to the outputs; first_tile is the first tile of weights of the warp. */
template <class LAYER, class ROWS, class OUT>
SB_KERNEL_FN void sb_wide_store(sb_global<OUT> out, const float (&total)[SB_WIDE_MT][SB_WIDE_NT][4],
                                const LAYER &layer, const ROWS &rows, const sb_tile_set &set,
                                uint32_t first_tile, uint32_t across, uint32_t wide)
{
    const uint32_t lane = threadIdx.x % 32;
    SB_UNROLL
    for (uint32_t n = 0; n < SB_WIDE_NT; n++)
        SB_UNROLL
    for (uint32_t c = 0; c < 2; c++) {
        /* H-8: "Element i of C and D has row g + 8 (i / 2) and column 2 t + i mod 2" */
        const uint32_t place = (SB_WIDE_ACROSS * n + across) * SB_TILE_INPUTS + lane % 4 * 2 + c;
        if (place >= set.count)
            continue;
        const size_t to = static_cast<size_t>(rows.output(set.first + place)) * layer.rows;
        const uint32_t input = rows.input(set.first + place);
        SB_UNROLL
        for (uint32_t i = 0; i < SB_WIDE_MT * 2; i++) {
            const uint32_t of = first_tile * SB_TILE_ROWS + lane / 4 + 8 * i;
            if (of < layer.rows)
                sb_tile_store(out, to + of, layer.finish(total[i / 2][n][c + i % 2 * 2], of, input),
                              wide);
        }
    }
}

/* --- the kernel ------------------------------------------------------------------------------- */
/* out (rows, N), rounded to bfloat16 unless `wide`. grid: (blocks of the weight, sets of
 * SB_WIDE_ROWS inputs), SB_LINEAR_THREADS threads, sb_wide_bytes(). */
template <class LAYER, class ROWS, class OUT>
static __global__ void __launch_bounds__(SB_LINEAR_THREADS, 1)
    sb_wide_kernel(LAYER layers, ROWS rows, sb_global<OUT> out, uint32_t wide)
{
    SB_SHARED_DYNAMIC(uint4, room);
    SB_SHARED(uint64_t, row, SB_WIDE_ROWS);
    constexpr int CODES = LAYER::codes;
    constexpr bool GROUPED = LAYER::grouped;
    constexpr uint32_t STAGE = sb_wide_stage(CODES, GROUPED), AHEAD = SB_WIDE_STAGES - 1;
    const uint32_t lane = threadIdx.x % 32, across = threadIdx.x / 32 % SB_WIDE_ACROSS;
    const uint32_t own_tile = threadIdx.x / 32 / SB_WIDE_ACROSS * SB_WIDE_MT;
    const uint2 block = sb_wide_block();
    const uint32_t first_tile = block.x * SB_WIDE_TILES;
    sb_tile_set set;
    sb_launch_ready();
    sb_launch_wait();
    if (!rows.find(block.y, SB_WIDE_ROWS, &set))
        return;
    const LAYER layer = layers.at(set.matrix);
    if (threadIdx.x < SB_WIDE_ROWS)
        row[threadIdx.x] = threadIdx.x < set.count
                               ? static_cast<uint64_t>(rows.input(set.first + threadIdx.x)) *
                                     (layer.units * SB_WIDE_PIECES)
                               : 0;
    __syncthreads();
    const uint32_t chunks = layer.units;
    const bool idle = (first_tile + own_tile) * SB_TILE_ROWS >= layer.rows;
    const uint32_t live = idle ? 0 : (set.count + SB_TILE_INPUTS - 1) / SB_TILE_INPUTS;
    sb_wide_source from = sb_wide_open(layer, first_tile, set.count);
    SB_UNROLL
    for (uint32_t chunk = 0; chunk < AHEAD; chunk++) {
        if (chunk < chunks)
            sb_wide_copy<LAYER>(room + chunk * STAGE, &from, row, layer.shape);
        sb_cp_async_commit();
    }
    float total[SB_WIDE_MT][SB_WIDE_NT][4], sum[SB_WIDE_MT][SB_WIDE_NT][4] = {};
    sb_wide_begin(total, chunks);
    uint32_t stage = 0;
    for (uint32_t part = 0; part < SB_LINEAR_WARPS; part++) {
        const uint32_t last = sb_tile_part(chunks, part + 1);
        for (uint32_t chunk = sb_tile_part(chunks, part); chunk < last; chunk++) {
            if (!SB_PLANT(wide_wait))
                sb_cp_async_wait<AHEAD - 1>();
            if (!SB_PLANT(wide_barrier))
                __syncthreads();
            if (chunk + AHEAD < chunks)
                sb_wide_copy<LAYER>(room + (stage + AHEAD) % SB_WIDE_STAGES * STAGE, &from, row,
                                    layer.shape);
            sb_cp_async_commit();
            if (live > across) {
                const sb_shared<const uint4> here = room + stage * STAGE;
                sb_wide_weights<CODES> weights;
                sb_wide_decode<CODES, GROUPED>(&weights, here + sb_wide_inputs(), own_tile,
                                               layer.shape.parts, lane);
                sb_wide_multiply<CODES, GROUPED>(sum, weights, here, across, live,
                                                 layer.shape.parts, lane);
            }
            stage = (stage + 1) % SB_WIDE_STAGES;
        }
        if (!SB_PLANT(wide_parts) || part + 1 < SB_LINEAR_WARPS)
            sb_wide_add(total, sum);
    }
    sb_wide_store(out, total, layer, rows, set, first_tile + own_tile, across, wide);
}

#endif
