/* step.cuh - the numbers of a step's sequence, in memory that kernels read and write, so that the
 * same launches also run the next step. A single thread updates these numbers. */
#ifndef SB_GPU_KERNEL_STEP_CUH
#define SB_GPU_KERNEL_STEP_CUH

#include "gpu/cuda.h"
#include "gpu/kernel/kernel.h"

constexpr uint32_t SB_STEP_THREADS = 128;

/* Sets the positions of a call: *first, the position of row 0, is *position + ahead. The rotary
 * position of each row is `shift` larger than its position, and at least 0. */
static __global__ void __launch_bounds__(SB_STEP_THREADS)
    sb_step_begin_kernel(sb_global<const uint32_t> position, int ahead, int shift, uint32_t rows,
                         sb_global<uint32_t> first, sb_global<uint32_t> positions)
{
    sb_launch_ready();
    sb_launch_wait();
    const uint32_t row = blockIdx.x * SB_STEP_THREADS + threadIdx.x;
    const int here = static_cast<int>(static_cast<uint32_t>(*position)) + ahead;
    if (row == 0)
        *first = static_cast<uint32_t>(here);
    if (row < rows) {
        const int at = here + static_cast<int>(row) + shift;
        positions[row] = static_cast<uint32_t>(at < 0 ? 0 : at);
    }
}

/* The numbers that one step passes to the next. */
struct sb_step_numbers {
    sb_global<uint32_t> position;     /* the number of tokens fed */
    sb_global<uint32_t> slot;         /* the slot with the current state */
    sb_global<uint32_t> kept;         /* kept rows of the last call */
    sb_global<uint32_t> tokens;       /* tokens of the rows; the first is for the next step */
    sb_global<const uint32_t> picked; /* the next token of each row with logits */
};

/* Ends a call of `rows` rows. picked[last] is the token after the last row. */
static __global__ void sb_step_end_kernel(const sb_step_numbers step, uint32_t rows, uint32_t trail,
                                          uint32_t last)
{
    sb_launch_ready();
    sb_launch_wait();
    const uint32_t before = *step.position, slot = *step.slot, next = step.picked[last];
    *step.position = SB_PLANT(step_position) ? before : before + rows;
    if (!SB_PLANT(step_slot))
        *step.slot = trail ? rows - 1 : slot == 0;
    *step.kept = rows;
    if (!SB_PLANT(step_token))
        step.tokens[0] = next;
}

/* S-9: tokens[1] and later are drafts. A draft is accepted if it equals the token that was picked
 * after the row before, and all earlier drafts were accepted. *kept becomes the number of accepted
 * rows. */
static __global__ void sb_step_accept_kernel(const sb_step_numbers step, uint32_t rows)
{
    sb_launch_ready();
    sb_launch_wait();
    for (uint32_t row = 1; row < rows; row++) {
        const uint32_t draft = step.tokens[row], right = step.picked[row - 1];
        if (draft != right) {
            *step.kept = row;
            return;
        }
    }
    *step.kept = rows;
}

/* S-10: "Keeping the first n rows of a round leaves the state, to the bit, that feeding only these
 * rows would have left". Keeps *kept of `rows` rows, at least one. */
static __global__ void sb_step_keep_kernel(const sb_step_numbers step, uint32_t rows)
{
    sb_launch_ready();
    sb_launch_wait();
    const uint32_t said = *step.kept, behind = *step.position;
    const uint32_t kept = SB_PLANT(step_kept) && said < rows ? said + 1 : said;
    const uint32_t next = step.picked[kept - 1];
    *step.position = behind - (rows - kept);
    *step.slot = kept - 1;
    step.tokens[0] = next;
}

/* Copies row *row of `rows` to row 0, which may be the same row. A row has n elements. */
static __global__ void __launch_bounds__(SB_STEP_THREADS)
    sb_step_row_kernel(sb_global<float> rows, sb_global<const uint32_t> row, size_t n)
{
    sb_launch_ready();
    sb_launch_wait();
    const size_t i = static_cast<size_t>(blockIdx.x) * SB_STEP_THREADS + threadIdx.x;
    const size_t from = static_cast<uint32_t>(*row);
    if (i < n) {
        const float x = rows[from * n + i];
        rows[i] = x;
    }
}

/* Copies n elements. */
static __global__ void __launch_bounds__(SB_STEP_THREADS)
    sb_step_copy_kernel(sb_global<const float> from, sb_global<float> to, size_t n)
{
    sb_launch_ready();
    sb_launch_wait();
    const size_t i = static_cast<size_t>(blockIdx.x) * SB_STEP_THREADS + threadIdx.x;
    if (i < n) {
        const float x = from[i];
        to[i] = x;
    }
}

/* R-21: "the embedding half first": an output row has 2 width elements. Each input has n elements
 * in all rows together. */
static __global__ void __launch_bounds__(SB_STEP_THREADS)
    sb_step_join_kernel(sb_global<const float> embedding, sb_global<const float> hidden,
                        sb_global<float> joined, size_t width, size_t n)
{
    sb_launch_ready();
    sb_launch_wait();
    const size_t i = static_cast<size_t>(blockIdx.x) * SB_STEP_THREADS + threadIdx.x;
    const size_t row = i / width, column = i % width;
    if (i < n) {
        const float x = embedding[i], y = hidden[i];
        joined[2 * row * width + column] = x;
        joined[(2 * row + 1) * width + column] = y;
    }
}

#endif
