/* tile.cuh - the frame of linear layers on matrix units: 16 rows of weights times tiles of 8
 * inputs.
 *
 * A LAYER provides its operands and its atom:
 *
 *   template <int NT> ring
 *       weights that a warp has requested and not used yet
 *   template <int NT> void begin(ring<NT> &, uint32_t tile, uint32_t first, uint32_t last) const
 *       requests the first few of the units [first, last) of a tile; reads only weights
 *   template <int NT> void product(float (&sum)[NT][4], ring<NT> &, uint32_t tile,
 *                                  const uint32_t (&row)[NT], uint32_t live, uint32_t first,
 *                                  uint32_t last) const
 *       follows begin with the same tile and units. sum, 0 at first, becomes the product of the
 *       tile with the first `live` of NT tiles of 8 inputs. row[n] is the input row of this lane's
 *       column of tile n, or SB_NO_ROW. All 32 lanes of a warp call it.
 *   float finish(float y, uint32_t at, uint32_t row) const
 *       the output from the complete sum y, for row `at` of the weight and input row `row`
 *   LAYER at(uint32_t matrix) const
 *       the layer of another matrix, if there are several of one shape
 *   uint32_t rows, units
 *
 * The sequence of instructions is the same for any number of inputs: the atom computes each column
 * by itself, the cut of the units into 8 parts depends only on their number, and parts are added in
 * order. So a row has the same bits in a prompt, a step and a verify, and at any place. */
#ifndef SB_KERNEL_TILE_CUH
#define SB_KERNEL_TILE_CUH

#include "gpu/atom/convert.h"
#include "gpu/kernel/kernel.h"

enum : uint32_t {
    SB_TILE_WARPS = 8, /* warps of a block; each adds one part of a sum */
    SB_TILE_THREADS = 32 * SB_TILE_WARPS,
    SB_TILE_INPUTS = 8, /* columns of an atom */
    SB_NO_ROW = 0xffffffffu
};

/* The inputs of a block: `count` inputs from `first` on, all of one matrix. */
struct sb_tile_set {
    uint32_t matrix, first, count;
};

/* All input rows in order, for one matrix. EARLY: Y-64: "If these weights do not depend on an
 * earlier launch, the warp asks for the first of them before it waits for the launch before
 * (Y-16)." */
struct sb_all_rows {
    enum : bool { EARLY = true };
    uint32_t rows;

    SB_ATOM_FN bool find(uint32_t block, uint32_t most, sb_tile_set *set) const
    {
        set->matrix = 0;
        set->first = block * most;
        set->count = rows - set->first < most ? rows - set->first : most;
        return set->first < rows;
    }
    SB_ATOM_FN uint32_t input(uint32_t place) const
    {
        return place;
    }
    SB_ATOM_FN uint32_t output(uint32_t place) const
    {
        return place;
    }
};

SB_ATOM_FN void sb_tile_store(sb_global<float> out, size_t at, float y, uint32_t wide)
{
    out[at] = wide ? y : sb_atom_float(sb_cvt_bf16x2_f32(y, 0.0f) << 16);
}
SB_ATOM_FN void sb_tile_store(sb_global<uint16_t> out, size_t at, float y, uint32_t)
{
    out[at] = static_cast<uint16_t>(sb_cvt_bf16x2_f32(y, 0.0f));
}

/* Y-52: "The units of a row are cut into eight parts, part w from floor(w U / 8) on" */
SB_ATOM_FN uint32_t sb_tile_part(uint32_t units, uint32_t warp)
{
    return static_cast<uint32_t>(static_cast<uint64_t>(units) * warp / SB_TILE_WARPS);
}

/* Y-52: "the eight are added in binary32, from the first to the last"; `room` holds the parts as
 * [part][n][lane][4]. With fewer units than warps each unit is a part, and the other warps have
 * empty parts, which are 0. Adding several zeros has the same effect as adding one, so the sum
 * starts from 0 instead. */
SB_ATOM_FN float sb_tile_sum(sb_shared<const float> room, uint32_t units, uint32_t size,
                             uint32_t at)
{
    const bool few = units < SB_TILE_WARPS;
    float y = 0.0f;
    if (!few)
        y = room[at];
    for (uint32_t part = few ? 0 : 1; part < (few ? units : SB_TILE_WARPS); part++)
        y = __fadd_rn(y, room[part * size + at]);
    return y;
}

/* The bytes of dynamic shared memory of sb_tile_kernel. */
constexpr size_t sb_tile_bytes(int nt)
{
    return sizeof(float) * SB_TILE_WARPS * 128 * static_cast<size_t>(nt);
}

/* One layer, or two layers of one shape with the same inputs (Y-66). */
template <class LAYER, class OUT> struct sb_tile_layers {
    LAYER of[2];
    sb_global<OUT> out[2]; /* (rows, N), rounded to bfloat16 unless `wide` */
};
template <class LAYER, class OUT>
sb_tile_layers<LAYER, OUT> sb_tile_alone(const LAYER &layer, sb_global<OUT> out)
{
    return {{layer, layer}, {out, out}};
}

/* grid: (tiles of the weight, sets of NT tiles of inputs, layers), SB_TILE_THREADS threads,
 * sb_tile_bytes(NT). */
template <class LAYER, int NT, class ROWS, class OUT>
__global__ void __launch_bounds__(SB_TILE_THREADS, 1)
    sb_tile_kernel(const __grid_constant__ sb_tile_layers<LAYER, OUT> layers, ROWS rows,
                   uint32_t wide)
{
    sb_launch_ready();
    if (!ROWS::EARLY)
        sb_launch_wait();
    SB_SHARED_DYNAMIC(float, room);
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32, tile = blockIdx.x;
    sb_tile_set set;
    if (!rows.find(blockIdx.y, SB_TILE_INPUTS * NT, &set))
        return;
    const uint32_t which = SB_PLANT(experts_both) ? 0 : blockIdx.z;
    const LAYER layer = layers.of[which].at(set.matrix);
    const uint32_t units = layer.units - (SB_PLANT(tile_tail) ? 1 : 0);
    const uint32_t first = sb_tile_part(units, warp), last = sb_tile_part(units, warp + 1);
    typename LAYER::template ring<NT> ring;
    layer.begin(ring, tile, first, last);
    if (ROWS::EARLY && !SB_PLANT(tile_wait))
        sb_launch_wait();
    const uint32_t live = (set.count + SB_TILE_INPUTS - 1) / SB_TILE_INPUTS;
    uint32_t row[NT];
    SB_UNROLL
    for (uint32_t n = 0; n < NT; n++) {
        const uint32_t place = n * SB_TILE_INPUTS + lane / 4;
        row[n] = SB_NO_ROW;
        if (place < set.count)
            row[n] = rows.input(set.first + place);
    }
    float sum[NT][4] = {};
    const uint32_t part = units < SB_TILE_WARPS ? first : warp;
    layer.product(sum, ring, tile, row, live, first, last);
    SB_UNROLL
    for (uint32_t n = 0; n < NT; n++)
        SB_UNROLL
    for (uint32_t i = 0; i < 4; i++)
        if (n < live && first < last)
            room[(part * NT + n) * 128 + lane * 4 + i] = sum[n][i];
    if (!SB_PLANT(tile_barrier))
        __syncthreads();
    for (uint32_t i = threadIdx.x; i < NT * 128; i += SB_TILE_THREADS) {
        /* H-8: "Element i of C and D has row g + 8 (i / 2) and column 2 t + i mod 2" */
        const uint32_t r = i % 16, c = i / 16 % 8, n = i / 128;
        const uint32_t at = n * 128 + (r % 8 * 4 + c / 2) * 4 + r / 8 * 2 + c % 2;
        const uint32_t of = tile * 16 + r, place = n * SB_TILE_INPUTS + c;
        if (of >= layer.rows || place >= set.count)
            continue;
        const float y =
            layer.finish(sb_tile_sum(room, units, NT * 128, at), of, rows.input(set.first + place));
        const size_t to = rows.output(set.first + place);
        sb_tile_store(layers.out[blockIdx.z], to * layer.rows + of, y, wide);
    }
}

#endif
