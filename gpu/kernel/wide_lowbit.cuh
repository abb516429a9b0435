/* wide_lowbit.cuh - linear layers of many rows with quantized inputs. The bits are those of
 * linear_w8a8.cuh and linear_w4a4.cuh. Codes and scales are loaded to shared memory once for the
 * whole block.
 *
 * Blocks, warps and tiles are as in wide.cuh, with a unit of Y-52 in place of a chunk. Nothing is
 * decoded: the matrix unit gets the packed codes of weights, and codes of inputs through ldmatrix.
 */
#ifndef SB_KERNEL_WIDE_LOWBIT_CUH
#define SB_KERNEL_WIDE_LOWBIT_CUH

#include "gpu/kernel/linear_w4a4.cuh"
#include "gpu/kernel/linear_w8a8.cuh"
#include "gpu/kernel/wide_launch.cuh"

/* --- the layout of a unit in shared memory ---------------------------------------------------- */
/* WEIGHT is the number of 16-byte words for the scales of a tile of weights. INPUT is the number of
 * bytes for the scales of an input. Members ..._AT are places in words of 16 bytes. */
template <uint32_t OF_STEPS, uint32_t OF_STAGES, uint32_t OF_WEIGHT, uint32_t OF_INPUT>
struct sb_wide_shared {
    enum : uint32_t {
        STEPS = OF_STEPS,
        STAGES = OF_STAGES, /* units that shared memory holds at once */
        WEIGHT = OF_WEIGHT,
        INPUT = OF_INPUT,
        PIECES = 2 * OF_STEPS, /* pieces of 16 bytes for the codes of an input */
        CODE = 32 * OF_STEPS,  /* words of 16 bytes for the codes of a tile */
        CODES_AT = SB_WIDE_ROWS * PIECES,
        WEIGHTS_AT = CODES_AT + SB_WIDE_TILES * CODE, /* scales of weights */
        INPUTS_AT = WEIGHTS_AT + SB_WIDE_TILES * WEIGHT,
        STAGE = INPUTS_AT + SB_WIDE_ROWS * INPUT / 16
    };
};
template <class LAYER> struct sb_wide_unit;
template <> struct sb_wide_unit<sb_w8a8<false>> : sb_wide_shared<4, 3, 0, 0> {
};
template <> struct sb_wide_unit<sb_w8a8<true>> : sb_wide_shared<4, 3, 4, 4> {
};
template <> struct sb_wide_unit<sb_w4a4> : sb_wide_shared<2, 5, 8, 8> {
};

/* True if scales multiply the sum of each unit. */
template <class LAYER> constexpr bool sb_wide_is_grouped = false;
template <> inline constexpr bool sb_wide_is_grouped<sb_w8a8<true>> = true;

template <class LAYER> constexpr size_t sb_wide_unit_bytes()
{
    return sizeof(uint4) * sb_wide_unit<LAYER>::STAGES * sb_wide_unit<LAYER>::STAGE;
}

/* The place of piece p of a row. Pieces are swizzled: in rows that ldmatrix reads together, piece p
 * lies in different banks. */
template <uint32_t PIECES> SB_KERNEL_FN uint32_t sb_wide_unit_piece(uint32_t row, uint32_t p)
{
    return row * PIECES + (p ^ row * PIECES / 8 % PIECES);
}

/* --- copies ----------------------------------------------------------------------------------- */
template <bool GROUPED>
SB_KERNEL_FN sb_global<const uint32_t> sb_wide_input_scales(const sb_w8a8<GROUPED> &layer)
{
    return sb_cast<const uint32_t>(layer.y);
}
SB_KERNEL_FN sb_global<const uint32_t> sb_wide_input_scales(const sb_w4a4 &layer)
{
    return layer.in_scale;
}

/* The inputs that a thread copies: one piece of each. Some threads also copy the scales of one
 * input. */
template <class LAYER> struct sb_wide_unit_rows {
    enum : uint32_t {
        TOGETHER = SB_LINEAR_THREADS / sb_wide_unit<LAYER>::PIECES, /* inputs of a pass */
        PASSES = SB_WIDE_ROWS / TOGETHER
    };
    uint32_t row[PASSES];

    static SB_ATOM_FN uint32_t place(uint32_t pass)
    {
        return pass * TOGETHER + threadIdx.x / sb_wide_unit<LAYER>::PIECES;
    }
    template <class ROWS> SB_ATOM_FN void find(const ROWS &rows, const sb_tile_set &set)
    {
        SB_UNROLL
        for (uint32_t i = 0; i < PASSES; i++)
            row[i] = place(i) < set.count ? rows.input(set.first + place(i)) : 0;
    }
};

/* Y-91: "A block brings the codes of a unit, and the scales that belong to it, to shared memory by
 * asynchronous copies": all threads copy unit u into its stage. Missing rows and tiles become
 * zeros. */
template <class LAYER>
SB_KERNEL_FN void sb_wide_unit_copy(sb_shared<uint4> stage, const LAYER &layer,
                                    const sb_wide_unit_rows<LAYER> &inputs, const sb_tile_set &set,
                                    uint32_t first_tile, uint32_t u)
{
    using unit = sb_wide_unit<LAYER>;
    const uint32_t own = threadIdx.x, piece = own % unit::PIECES;
    const uint32_t tiles = (layer.rows + SB_LOWBIT_ROWS - 1) / SB_LOWBIT_ROWS;
    const uint32_t units = layer.units, before = set.matrix * tiles;
    SB_UNROLL
    for (uint32_t i = 0; i < inputs.PASSES; i++) {
        const uint32_t place = inputs.place(i);
        const uint32_t from = inputs.row[i] * units + u;
        sb_cp_async<16>(stage + sb_wide_unit_piece<unit::PIECES>(place, piece),
                        sb_cast<const uint4>(layer.codes) + (from * unit::PIECES + piece),
                        place < set.count ? 16u : 0u);
        if constexpr (unit::INPUT > 0) {
            if (piece == i)
                sb_cp_async<unit::INPUT>(sb_cast<uint32_t>(stage + uint32_t(unit::INPUTS_AT)) +
                                             place * (unit::INPUT / 4),
                                         sb_wide_input_scales(layer) + from * (unit::INPUT / 4),
                                         place < set.count ? unit::INPUT : 0u);
        }
    }
    SB_UNROLL
    for (uint32_t i = 0; i < SB_WIDE_TILES * unit::CODE / SB_LINEAR_THREADS; i++) {
        const uint32_t at = i * SB_LINEAR_THREADS + own, tile = first_tile + at / unit::CODE;
        sb_cp_async<16>(stage + (unit::CODES_AT + at),
                        layer.weight +
                            (((before + tile) * units + u) * unit::CODE + at % unit::CODE),
                        tile < tiles ? 16u : 0u);
    }
    if constexpr (unit::WEIGHT > 0) {
        const uint32_t tile = first_tile + own / unit::WEIGHT;
        if (own < SB_WIDE_TILES * unit::WEIGHT)
            sb_cp_async<16>(stage + (unit::WEIGHTS_AT + own),
                            sb_cast<const uint4>(layer.scale) +
                                (((before + tile) * units + u) * unit::WEIGHT + own % unit::WEIGHT),
                            tile < tiles ? 16u : 0u);
    }
}

/* --- products --------------------------------------------------------------------------------- */
/* The place of a warp in its block. tile: its first tile of weights. across: its index among the
 * two warps that share rows. live: the number of existing tiles of inputs. Tile n of inputs of the
 * warp is tile SB_WIDE_ACROSS n + across of the block. */
struct sb_wide_warp {
    uint32_t tile, across, live, lane;

    SB_ATOM_FN uint32_t input(uint32_t n) const
    {
        return (n * SB_WIDE_ACROSS + across) * SB_TILE_INPUTS;
    }
    SB_ATOM_FN bool has(uint32_t n) const
    {
        return n * SB_WIDE_ACROSS + across < live;
    }
};

/* PAIR below is the number of tiles of inputs that a warp multiplies at a time. With PAIR 2, the
 * warp holds the codes of its weights for a whole unit. PAIR 1 is for the portable bodies
 * (gpu/atom/target.h), whose calls leave fewer registers: the warp then holds the codes of only one
 * tile of weights. The choice changes no bit. */
#if defined(__CUDACC__) && !defined(SB_ATOM_NATIVE_12X)
enum : uint32_t { SB_WIDE_PAIR = 1 };
#else
enum : uint32_t { SB_WIDE_PAIR = 2 };
#endif

/* Loads the codes of the warp's tile m of weights for step s. */
template <uint32_t STEPS>
SB_KERNEL_FN void sb_wide_unit_weights(uint32_t (&a)[4], uint32_t m, uint32_t s,
                                       sb_shared<const uint4> codes, const sb_wide_warp &warp)
{
    const uint32_t lane = SB_PLANT(lowbit_lanes) ? warp.lane ^ 4 : warp.lane;
    const uint4 four = codes[((warp.tile + m) * STEPS + s) * 32 + lane];
    a[0] = four.x, a[1] = four.y, a[2] = four.z, a[3] = four.w;
}

/* Loads the codes of the warp's PAIR tiles of inputs from n on for step s, two registers per tile.
 * Lane 8 j + i points to row i of matrix j. */
template <uint32_t PIECES, uint32_t PAIR>
SB_KERNEL_FN void sb_wide_unit_inputs(uint32_t (&b)[2 * PAIR], sb_shared<const uint4> inputs,
                                      uint32_t n, uint32_t s, const sb_wide_warp &warp)
{
    const uint32_t row = warp.input(n + warp.lane / 16 % PAIR) + warp.lane % 8;
    const uint32_t piece = 2 * s + warp.lane / 8 % 2;
    sb_ldmatrix(b, inputs + sb_wide_unit_piece<PIECES>(SB_PLANT(wide_rows) ? row ^ 1 : row,
                                                       SB_PLANT(wide_piece) ? piece ^ 1 : piece));
}

/* Applies scales to the products of a step and to the sum of a unit. For E4M3 with a scale for each
 * row there is nothing to apply here: finish() applies the scales. */
template <class LAYER> struct sb_wide_unit_scales {
    SB_ATOM_FN void of_weights(sb_shared<const uint4>, const sb_wide_warp &)
    {
    }
    template <uint32_t PAIR>
    SB_ATOM_FN void of_inputs(sb_shared<const uint4>, uint32_t, const sb_wide_warp &)
    {
    }
    SB_ATOM_FN void product(float (&sum)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                            uint32_t, uint32_t, uint32_t) const
    {
        sb_mma_e4m3(sum, a, b);
    }
};

template <> struct sb_wide_unit_scales<sb_w8a8<true>> : sb_wide_unit_scales<sb_w8a8<false>> {
    using unit = sb_wide_unit<sb_w8a8<true>>;
    float w[SB_WIDE_MT * 2];
    float2 y[2];

    template <uint32_t PAIR>
    SB_ATOM_FN void of_sums(sb_shared<const uint4> stage, uint32_t n, const sb_wide_warp &warp)
    {
        const auto of_weights = sb_cast<const float>(stage + uint32_t(unit::WEIGHTS_AT));
        const auto of_inputs = sb_cast<const float2>(stage + uint32_t(unit::INPUTS_AT));
        SB_UNROLL
        for (uint32_t i = 0; i < SB_WIDE_MT * 2; i++)
            w[i] = of_weights[warp.tile * SB_LOWBIT_ROWS + 8 * i + warp.lane / 4];
        SB_UNROLL
        for (uint32_t t = 0; t < PAIR; t++) {
            const uint32_t at = warp.input(n + t) / 2 + warp.lane % 4;
            y[t] = of_inputs[SB_PLANT(wide_scales) ? at ^ 1 : at];
        }
    }
    /* Y-53: "Its result times the scale of the input is rounded. The product of this and the scale
     * of the weight is added to the part with one rounding" */
    SB_ATOM_FN void fold(float (&sum)[4], const float (&chain)[4], uint32_t m, uint32_t t) const
    {
        SB_UNROLL
        for (uint32_t i = 0; i < 4; i++) {
            const float of_input = i % 2 ? y[t].y : y[t].x, of_weight = w[m * 2 + i / 2];
            const bool turned = SB_PLANT(wide_fold);
            const float scaled = __fmul_rn(chain[i], turned ? of_weight : of_input);
            sum[i] = __fmaf_rn(scaled, turned ? of_input : of_weight, sum[i]);
        }
    }
};

template <> struct sb_wide_unit_scales<sb_w4a4> {
    using unit = sb_wide_unit<sb_w4a4>;
    uint32_t w[SB_WIDE_MT], y[2];

    SB_ATOM_FN void of_weights(sb_shared<const uint4> stage, const sb_wide_warp &warp)
    {
        const auto from = sb_cast<const uint32_t>(stage + uint32_t(unit::WEIGHTS_AT));
        SB_UNROLL
        for (uint32_t m = 0; m < SB_WIDE_MT; m++) {
            w[m] = from[(warp.tile + m) * 32 + warp.lane];
            if (SB_PLANT(w4a4_scales))
                w[m] = __byte_perm(w[m], 0, 0x2301);
        }
    }
    /* H-9: "the scales of column n in the word of lane 4 n + q". q is the step. */
    template <uint32_t PAIR>
    SB_ATOM_FN void of_inputs(sb_shared<const uint4> stage, uint32_t n, const sb_wide_warp &warp)
    {
        const auto from = sb_cast<const uint32_t>(stage + uint32_t(unit::INPUTS_AT));
        SB_UNROLL
        for (uint32_t t = 0; t < PAIR; t++) {
            const uint32_t at = (warp.input(n + t) + warp.lane / 4) * 2 + warp.lane % 2;
            y[t] = from[SB_PLANT(wide_scales) ? at ^ 2 : at];
        }
    }
    SB_ATOM_FN void product(float (&sum)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                            uint32_t s, uint32_t m, uint32_t t) const
    {
        if (s == 0)
            sb_mma_nvfp4<0, 0>(sum, a, b, w[m], y[t]);
        else
            sb_mma_nvfp4<1, 1>(sum, a, b, w[m], y[t]);
    }
};

/* sum += the product of a unit of the warp's weights with its inputs. Y-92: "In FP8 with blocks the
 * chain of a unit has an accumulator of its own." */
template <class LAYER, uint32_t PAIR>
SB_KERNEL_FN void sb_wide_unit_multiply(float (&sum)[SB_WIDE_MT][SB_WIDE_NT][4],
                                        sb_shared<const uint4> stage, const sb_wide_warp &warp)
{
    using unit = sb_wide_unit<LAYER>;
    constexpr bool GROUPED = sb_wide_is_grouped<LAYER>;
    const sb_shared<const uint4> codes = stage + uint32_t(unit::CODES_AT);
    uint32_t a[SB_WIDE_MT][unit::STEPS][4];
    sb_wide_unit_scales<LAYER> scales;
    SB_UNROLL
    for (uint32_t i = 0; PAIR > 1 && i < SB_WIDE_MT * unit::STEPS; i++) {
        const uint32_t m = i / unit::STEPS, s = i % unit::STEPS;
        sb_wide_unit_weights<unit::STEPS>(a[m][s], m, s, codes, warp);
    }
    scales.of_weights(stage, warp);
    SB_UNROLL
    for (uint32_t n = 0; n < SB_WIDE_NT; n += PAIR) {
        if (!warp.has(n))
            break;
        float chain[SB_WIDE_MT][PAIR][4] = {};
        scales.template of_inputs<PAIR>(stage, n, warp);
        SB_UNROLL
        for (uint32_t s = 0; s < unit::STEPS; s++) {
            uint32_t b[2 * PAIR];
            sb_wide_unit_inputs<unit::PIECES, PAIR>(b, stage, n, s, warp);
            SB_UNROLL
            for (uint32_t i = 0; i < PAIR * SB_WIDE_MT; i++) {
                const uint32_t m = i % SB_WIDE_MT, t = i / SB_WIDE_MT;
                const uint32_t own[2] = {b[2 * t], b[2 * t + 1]};
                if (PAIR == 1)
                    sb_wide_unit_weights<unit::STEPS>(a[m][s], m, s, codes, warp);
                scales.product(GROUPED ? chain[m][t] : sum[m][n + t], a[m][s], own, s, m, t);
            }
        }
        if constexpr (GROUPED) {
            scales.template of_sums<PAIR>(stage, n, warp);
            SB_UNROLL
            for (uint32_t i = 0; i < PAIR * SB_WIDE_MT; i++)
                scales.fold(sum[i % SB_WIDE_MT][n + i / SB_WIDE_MT],
                            chain[i % SB_WIDE_MT][i / SB_WIDE_MT], i % SB_WIDE_MT, i / SB_WIDE_MT);
        }
    }
}

/* Y-52: "The units of a row are cut into eight parts, part w from floor(w U / 8) on" */
SB_KERNEL_FN uint32_t sb_wide_unit_part(uint32_t units, uint32_t part)
{
    return SB_PLANT(wide_cut) ? (units * part + SB_TILE_WARPS - 1) / SB_TILE_WARPS
                              : sb_tile_part(units, part);
}

/* --- the kernel ------------------------------------------------------------------------------- */
/* out (rows, N), rounded to bfloat16 unless `wide`. grid: (blocks of the weight, sets of
 * SB_WIDE_ROWS inputs), SB_LINEAR_THREADS threads, sb_wide_unit_bytes() of shared memory. MOST: an
 * upper bound of PAIR. */
template <class LAYER, class ROWS, class OUT, uint32_t MOST = 2>
static __global__ void __launch_bounds__(SB_LINEAR_THREADS, 1)
    sb_wide_lowbit_kernel(LAYER layer, ROWS rows, sb_global<OUT> out, uint32_t wide)
{
    SB_SHARED_DYNAMIC(uint4, room);
    using unit = sb_wide_unit<LAYER>;
    constexpr uint32_t AHEAD = unit::STAGES - 1, PAIR = MOST < SB_WIDE_PAIR ? MOST : SB_WIDE_PAIR;
    const uint2 block = sb_wide_block();
    const uint32_t first_tile = block.x * SB_WIDE_TILES;
    sb_wide_warp warp = {threadIdx.x / 32 / SB_WIDE_ACROSS * SB_WIDE_MT,
                         threadIdx.x / 32 % SB_WIDE_ACROSS, 0, threadIdx.x % 32};
    sb_tile_set set;
    sb_launch_ready();
    sb_launch_wait();
    if (!rows.find(block.y, SB_WIDE_ROWS, &set))
        return;
    const uint32_t units = layer.units;
    if ((first_tile + warp.tile) * SB_LOWBIT_ROWS < layer.rows)
        warp.live = (set.count + SB_TILE_INPUTS - 1) / SB_TILE_INPUTS;
    sb_wide_unit_rows<LAYER> inputs;
    inputs.find(rows, set);
    SB_UNROLL
    for (uint32_t u = 0; u < AHEAD; u++) {
        if (u < units)
            sb_wide_unit_copy(room + u * unit::STAGE, layer, inputs, set, first_tile, u);
        sb_cp_async_commit();
    }
    float total[SB_WIDE_MT][SB_WIDE_NT][4], sum[SB_WIDE_MT][SB_WIDE_NT][4] = {};
    sb_wide_begin(total, units);
    uint32_t stage = 0;
    for (uint32_t part = 0; part < SB_LINEAR_WARPS; part++) {
        const uint32_t last = sb_wide_unit_part(units, part + 1);
        for (uint32_t u = sb_wide_unit_part(units, part); u < last; u++) {
            if (!SB_PLANT(wide_wait))
                sb_cp_async_wait<AHEAD - 1>();
            if (!SB_PLANT(wide_barrier))
                __syncthreads();
            if (u + AHEAD < units)
                sb_wide_unit_copy(room + (stage + AHEAD) % unit::STAGES * unit::STAGE, layer,
                                  inputs, set, first_tile, u + AHEAD);
            sb_cp_async_commit();
            if (warp.has(0))
                sb_wide_unit_multiply<LAYER, PAIR>(sum, room + stage * unit::STAGE, warp);
            stage = (stage + 1) % unit::STAGES;
        }
        if (!SB_PLANT(wide_parts) || part + 1 < SB_LINEAR_WARPS)
            sb_wide_add(total, sum);
    }
    sb_wide_store(out, total, layer.at(set.matrix), rows, set, first_tile + warp.tile, warp.across,
                  wide);
}

/* --- the calls that use the kernel ------------------------------------------------------------ */
/* Y-90: "if their units have as many instructions as a unit of 128 columns." Indices of 16-byte
 * words must fit into 32 bits. */
static inline bool sb_wide_fits(const sb_lowbit_shape &shape, uint64_t inputs, uint64_t matrices)
{
    const uint32_t steps = shape.bits == 8 ? uint32_t(sb_wide_unit<sb_w8a8<true>>::STEPS)
                                           : uint32_t(sb_wide_unit<sb_w4a4>::STEPS);
    return shape.steps == steps && inputs * sb_lowbit_words(shape) / 4 <= UINT32_MAX &&
           matrices * sb_lowbit_fragments(shape) <= UINT32_MAX;
}

static inline bool sb_wide_takes(const sb_lowbit_shape &shape, uint32_t rows)
{
    return sb_wide_fits(shape, rows, 1) && sb_wide_takes(shape.rows, rows);
}

/* Launches the kernel for a single layer. */
template <uint32_t MOST = 2, class LAYER>
static sb_status sb_wide_lowbit_launch(const sb_queue *queue, const LAYER &layer,
                                       sb_global<float> out, uint32_t rows, uint32_t wide)
{
    const sb_all_rows all = {rows};
    return SB_LAUNCH(queue, (sb_wide_lowbit_kernel<LAYER, sb_all_rows, float, MOST>),
                     sb_wide_grid(layer.rows, (rows + SB_WIDE_ROWS - 1) / SB_WIDE_ROWS),
                     SB_LINEAR_THREADS, sb_wide_unit_bytes<LAYER>(), layer, all, out, wide);
}

#endif
