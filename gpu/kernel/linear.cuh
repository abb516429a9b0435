/* linear.cuh - linear layers on the bf16 atom: weights in any format that is exact in bfloat16,
 * inputs in bfloat16, sums in binary32.
 *
 * The sequence of instructions is the same for any number of rows: weights are the operand with 16
 * rows, inputs the operand with 8 columns, and the atom computes each column by itself. So a row
 * has the same bits in a prompt, a step and a verify. */
#ifndef SB_KERNEL_LINEAR_CUH
#define SB_KERNEL_LINEAR_CUH

#include "gpu/kernel/linear_ring.cuh"
#include "gpu/kernel/tile.cuh"

static_assert(uint32_t(SB_TILE_WARPS) == uint32_t(SB_LINEAR_WARPS), "one way of cutting a sum");

enum : uint32_t { SB_LINEAR_THREADS = 32 * SB_LINEAR_WARPS, SB_LINEAR_COLUMNS = 8 };

/* --- the input as fragments ------------------------------------------------------------------- */
SB_KERNEL_FN uint32_t sb_linear_bits(float x)
{
    return sb_cvt_bf16x2_f32(x, 0.0f) & 0xffff;
}
SB_KERNEL_FN uint32_t sb_linear_bits(uint16_t x)
{
    return x;
}

/* An input (rows, cols) in memory. Any type with the member `bits` can be the input of a layer;
 * fused_stage.cuh defines other such types. */
template <class T> struct sb_linear_memory {
    sb_global<const T> in;
    uint32_t cols;

    SB_ATOM_FN uint32_t bits(uint32_t row, uint32_t column) const
    {
        const T value = in[static_cast<size_t>(row) * cols + column];
        return sb_linear_bits(value);
    }
};

/* Returns the element at a place of a row; padding is zero. */
template <class INPUT>
SB_KERNEL_FN uint32_t sb_linear_input(const sb_linear_shape &shape, const INPUT &in,
                                      sb_global<const uint32_t> columns, uint32_t rows,
                                      uint32_t row, uint32_t place)
{
    uint32_t column = place;
    if (shape.gathers)
        column = columns[place];
    if (!SB_PLANT(linear_padding) && (row >= rows || column >= shape.cols))
        return 0;
    return in.bits(row, column);
}
/* Returns the elements at a place and at the next place, in one word. */
template <class INPUT>
SB_KERNEL_FN uint32_t sb_linear_pair(const sb_linear_shape &shape, const INPUT &in,
                                     sb_global<const uint32_t> columns, uint32_t rows, uint32_t row,
                                     uint32_t place)
{
    return sb_linear_input(shape, in, columns, rows, row, place) |
           sb_linear_input(shape, in, columns, rows, row, place + 1) << 16;
}

/* out (row tiles, 4 chunks, 32): H-8: "Register r of B has column g and starts at k = W t + 4 W r".
 * Writes element `i` of out, two words, if it exists. `columns` is read only if the shape gathers.
 */
template <class INPUT>
SB_KERNEL_FN void sb_linear_stage_at(size_t i, const INPUT &in, sb_global<const uint32_t> columns,
                                     sb_global<uint2> out, const sb_linear_shape &shape,
                                     uint32_t rows)
{
    const uint32_t steps = shape.chunks * SB_STEPS, lane = i % 32;
    const size_t tile = i / 32 / steps;
    if (tile >= (rows + SB_LINEAR_COLUMNS - 1) / SB_LINEAR_COLUMNS)
        return;
    const uint32_t row = static_cast<uint32_t>(tile) * SB_LINEAR_COLUMNS + lane / 4;
    const uint32_t place = static_cast<uint32_t>(i / 32 % steps) * SB_STEP + lane % 4 * 2;
    uint32_t word[2];
    SB_UNROLL
    for (uint32_t r = 0; r < 2; r++)
        word[r] = sb_linear_pair(shape, in, columns, rows, row, place + 8 * r);
    out[i] = make_uint2(word[0], word[1]);
}
/* The index, in 32-bit words of the output of sb_linear_stage, of places 2 `pair` and 2 `pair` + 1
 * of a row. */
SB_KERNEL_FN size_t sb_linear_pair_at(const sb_linear_shape &shape, uint32_t row, uint32_t pair)
{
    const size_t step = static_cast<size_t>(row / SB_LINEAR_COLUMNS) * shape.chunks * SB_STEPS +
                        pair / (SB_STEP / 2);
    const uint32_t lane = row % SB_LINEAR_COLUMNS * 4 + pair % 4;
    return (step * 32 + lane) * 2 + pair / 4 % 2;
}

/* A thread writes two words. */
template <class T>
static __global__ void __launch_bounds__(256)
    sb_linear_stage(sb_global<const T> in, sb_global<const uint32_t> columns, sb_global<uint2> out,
                    sb_linear_shape shape, uint32_t rows)
{
    sb_launch_ready();
    sb_launch_wait();
    const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    sb_linear_stage_at(i, sb_linear_memory<T>{in, shape.cols}, columns, out, shape, rows);
}

/* --- the product ------------------------------------------------------------------------------ */
/* Y-44: "a chain ends with the group and with the chunk. Its result times the scale is added to the
 * part, rounded once" */
template <int NT>
SB_KERNEL_FN void sb_linear_fold(float (&sum)[NT][4], float (&part)[NT][4],
                                 const sb_linear_scales &scales)
{
    SB_UNROLL
    for (int n = 0; n < NT; n++)
        SB_UNROLL
    for (int i = 0; i < 4; i++) {
        sum[n][i] = __fmaf_rn(part[n][i], scales.scale[i / 2], sum[n][i]);
        part[n][i] = 0.0f;
    }
}

/* The second operand, from the staged inputs of a block. Lanes with a padding column get zeros and
 * read nothing. */
struct sb_linear_fragments {
    sb_global<const uint2> x; /* sb_linear_stage, from the first row tile of the block on */
    size_t row_tile;          /* elements of a row tile */
    uint32_t rows;            /* existing rows */

    SB_ATOM_FN uint2 at(uint32_t n, uint32_t step) const
    {
        const uint32_t lane = threadIdx.x % 32;
        return sb_load_if(n * SB_LINEAR_COLUMNS + lane / 4 < rows,
                          x + (n * row_tile + step * 32 + lane));
    }
};

/* sum[m][n] += the product of MT tiles of weights with the first `live` of NT tiles of inputs, over
 * the chunks [first, last). All 32 lanes of a warp must call this function, after ring.begin for
 * the same chunks. */
template <int CODES, bool GROUPED, int MT, int NT, class INPUTS>
SB_KERNEL_FN void
sb_linear_product(float (&sum)[MT][NT][4], sb_linear_ring<CODES, GROUPED, MT, NT> &ring,
                  sb_global<const uint4> weights, size_t stride, const INPUTS &inputs,
                  const sb_linear_shape &shape, uint32_t first, uint32_t last, uint32_t live)
{
    constexpr uint32_t DEPTH = sb_linear_depth(CODES, NT);
    float part[MT][NT][4] = {};
    for (uint32_t base = first; base < last; base += DEPTH) {
        SB_UNROLL
        for (uint32_t d = 0; d < DEPTH; d++) {
            const uint32_t chunk = base + d;
            if (chunk >= last)
                break;
            /* for few rows, the inputs of a chunk are asked for together */
            uint2 word[SB_STEPS][NT];
            if constexpr (NT <= 2) {
                SB_UNROLL
                for (uint32_t s = 0; s < SB_STEPS; s++)
                    SB_UNROLL
                for (uint32_t n = 0; n < NT; n++)
                    word[s][n] = inputs.at(n, chunk * SB_STEPS + s);
            }
            SB_UNROLL
            for (uint32_t s = 0; s < SB_STEPS; s++) {
                uint32_t a[MT][4];
                SB_UNROLL
                for (int m = 0; m < MT; m++)
                    sb_linear_fragment<CODES>(a[m], ring.held[d][m].raw, ring.scales(d, m, s), s);
                SB_UNROLL
                for (uint32_t n = 0; n < NT; n++) {
                    if (n >= live)
                        break;
                    if constexpr (NT > 2)
                        word[s][n] = inputs.at(n, chunk * SB_STEPS + s);
                    const uint32_t b[2] = {word[s][n].x, word[s][n].y};
                    SB_UNROLL
                    for (int m = 0; m < MT; m++)
                        sb_mma_bf16(GROUPED ? part[m][n] : sum[m][n], a[m], b);
                }
                if (GROUPED && (s == SB_STEPS - 1 || (s == 1 && shape.parts == 2))) {
                    SB_UNROLL
                    for (int m = 0; m < MT; m++)
                        sb_linear_fold(sum[m], part[m], ring.scales(d, m, s));
                }
            }
            if (chunk + DEPTH < last)
                ring.ask(DEPTH > 1 && SB_PLANT(linear_ring) ? d ^ 1 : d, weights, stride, shape,
                         chunk + DEPTH);
        }
    }
}

/* Y-45: "The sum is multiplied by the scale of the row, then multiplied by the factor, or divided
 * by the divisor; each rounds once." */
template <int CODES, bool GROUPED>
SB_KERNEL_FN float sb_linear_finish(float y, sb_global<const uint4> weights,
                                    const sb_linear_shape &shape, uint32_t row)
{
    if (CODES != SB_CODES_bf16 && CODES != SB_CODES_nvfp4 && !GROUPED) {
        const sb_global<const float> scales =
            sb_cast<const float>(weights + shape.scale_at / sizeof(uint4));
        y = __fmul_rn(y, scales[row * (sb_codes_integer(CODES) ? 2 : 1)]);
    }
    return shape.is_divisor ? __fdiv_rn(y, shape.factor) : __fmul_rn(y, shape.factor);
}

SB_KERNEL_FN void sb_linear_store(sb_global<float> out, size_t at, float y, uint32_t wide)
{
    out[at] = wide ? y : __uint_as_float(sb_linear_bits(y) << 16);
}
SB_KERNEL_FN void sb_linear_store(sb_global<uint16_t> out, size_t at, float y, uint32_t)
{
    out[at] = static_cast<uint16_t>(sb_linear_bits(y));
}

/* The bytes of dynamic shared memory of sb_linear_kernel. */
constexpr size_t sb_linear_bytes(int mt, int nt)
{
    return sizeof(float) * SB_LINEAR_WARPS * 128 * static_cast<size_t>(mt) *
           static_cast<size_t>(nt);
}

/* Y-65: "Up to four matrices of one input, with codes and scales of one kind, are one launch." */
enum : uint32_t { SB_LINEAR_MATRICES = 4 };
template <class OUT> struct sb_linear_matrix {
    sb_global<const uint4> weights; /* sb_pack_linear */
    sb_global<OUT> out;             /* (rows, N), rounded to bfloat16 unless `wide` */
    sb_linear_shape shape;
    uint32_t wide;
    uint32_t begin; /* the first block of this matrix */
};
template <class OUT> struct sb_linear_list {
    sb_linear_matrix<OUT> of[SB_LINEAR_MATRICES];
    uint32_t count;

    /* The index of the matrix that this block belongs to. */
    SB_ATOM_FN uint32_t find(uint32_t block) const
    {
        uint32_t found = 0;
        SB_UNROLL
        for (uint32_t i = 1; i < SB_LINEAR_MATRICES; i++)
            if (i < count && block >= of[i].begin)
                found = i;
        return found;
    }
};

/* A block computes MT tiles of weights for NT row tiles; its warps split the chunks. grid: x is the
 * sum of tiles / MT over all matrices, y is row tiles / NT. SB_LINEAR_THREADS threads. */
template <int CODES, bool GROUPED, int MT, int NT, class OUT>
static __global__ void __launch_bounds__(SB_LINEAR_THREADS, MT *NT > 2 ? 1 : 2)
    sb_linear_kernel(const __grid_constant__ sb_linear_list<OUT> list, sb_global<const uint2> x,
                     uint32_t rows)
{
    sb_launch_ready();
    SB_SHARED_DYNAMIC(float, room);
    constexpr uint32_t SIZE = MT * NT * 128;
    const sb_linear_matrix<OUT> &mine = list.of[list.find(blockIdx.x)];
    const sb_linear_shape &shape = mine.shape;
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const uint32_t tiles = (shape.rows + SB_TILE_ROWS - 1) / SB_TILE_ROWS;
    const uint32_t row_tiles = (rows + SB_LINEAR_COLUMNS - 1) / SB_LINEAR_COLUMNS;
    const uint32_t block = SB_PLANT(linear_block) ? blockIdx.x : blockIdx.x - mine.begin;
    const uint32_t first_tile = block * MT, first_row = blockIdx.y * NT;
    const size_t tile = shape.tile_bytes / sizeof(uint4);
    const size_t row_tile = static_cast<size_t>(shape.chunks) * SB_STEPS * 32;
    const uint32_t chunks = shape.chunks - (SB_PLANT(linear_tail) ? 1 : 0);
    const uint32_t first = sb_tile_part(chunks, warp), last = sb_tile_part(chunks, warp + 1);
    const uint32_t part = chunks < SB_LINEAR_WARPS ? first : warp;
    const size_t stride = first_tile + MT <= tiles ? tile : 0;
    const sb_global<const uint4> weights =
        mine.weights + (SB_PLANT(linear_tile) ? first_tile ^ 1 : first_tile) * tile;
    sb_linear_ring<CODES, GROUPED, MT, NT> ring;
    ring.begin(weights, stride, shape, first, last);
    if (!SB_PLANT(linear_wait))
        sb_launch_wait();
    const sb_linear_fragments inputs = {x + first_row * row_tile, row_tile,
                                        rows - first_row * SB_LINEAR_COLUMNS};
    float sum[MT][NT][4] = {};
    sb_linear_product(sum, ring, weights, stride, inputs, shape, first, last,
                      row_tiles - first_row);
    SB_UNROLL
    for (uint32_t i = 0; i < MT * NT * 4; i++)
        if (i / 4 % NT < row_tiles - first_row && first < last)
            room[(part * MT * NT + i / 4) * 128 + lane * 4 + i % 4] =
                sum[i / 4 / NT][i / 4 % NT][i % 4];
    if (!SB_PLANT(linear_barrier))
        __syncthreads();
    for (uint32_t i = threadIdx.x; i < SIZE; i += SB_LINEAR_THREADS) {
        /* H-8: "Element i of C and D has row g + 8 (i / 2) and column 2 t + i mod 2" */
        const uint32_t r = i % 16, m = i / 16 % MT, c = i / 16 / MT % 8, n = i / 16 / MT / 8;
        const uint32_t row = (first_tile + m) * SB_TILE_ROWS + r;
        const uint32_t column = (first_row + n) * SB_LINEAR_COLUMNS + c;
        const uint32_t at = (m * NT + n) * 128 + (r % 8 * 4 + c / 2) * 4 + r / 8 * 2 + c % 2;
        if (first_tile + m >= tiles || row >= shape.rows || column >= rows)
            continue;
        const float y = sb_linear_finish<CODES, GROUPED>(sb_tile_sum(room, chunks, SIZE, at),
                                                         weights + m * tile, shape, r);
        sb_linear_store(mine.out, static_cast<size_t>(column) * shape.rows + row, y, mine.wide);
    }
}

#endif
