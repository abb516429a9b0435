/* numbers.cc - launches that are not ops of the model: positions of a call, numbers for the next
 * call, and copies. */
#include "gpu/kernel/step.cuh"
#include "gpu/step/call.h"
#include "ref/ops/knob.h"

sb_status sb_step_begin(const sb_step_call &c, int ahead, int shift)
{
    sb_gpu_work work(c.gpu);
    const auto position = work.in("position", c.step->position, 1);
    const auto first = work.out("first", c.step->first, 1);
    const auto positions = work.out("positions", c.s->position, c.rows);
    SB_GPU_RUN(work, sb_step_begin_kernel, sb_gpu_blocks(c.rows, SB_STEP_THREADS), SB_STEP_THREADS,
               0, position, ahead, shift, static_cast<uint32_t>(c.rows), first, positions);
    return work.finish();
}

static sb_step_numbers numbers_of(sb_gpu_work &work, const sb_queued_step *step)
{
    sb_step_numbers n = sb_step_numbers();
    n.position = work.inout("position", step->position, 1);
    n.slot = work.inout("slot", step->slot, 1);
    n.kept = work.inout("kept", step->kept, 1);
    n.tokens = work.inout("tokens", step->tokens, step->options.rows + SB_STEP_SLOTS);
    n.picked = work.in("picked", step->picked, step->slots);
    return n;
}

sb_status sb_step_end(const sb_step_call &c, size_t logits)
{
    sb_gpu_work work(c.gpu);
    const sb_step_numbers numbers = numbers_of(work, c.step);
    SB_GPU_RUN(work, sb_step_end_kernel, 1, 1, 0, numbers, static_cast<uint32_t>(c.rows),
               static_cast<uint32_t>(c.trail), static_cast<uint32_t>(logits - 1));
    return work.finish();
}

sb_status sb_step_cut(const sb_step_call &c, bool accepts)
{
    const uint32_t rows = static_cast<uint32_t>(c.rows);
    sb_gpu_work work(c.gpu);
    const sb_step_numbers numbers = numbers_of(work, c.step);
    if (accepts)
        SB_GPU_RUN(work, sb_step_accept_kernel, 1, 1, 0, numbers, rows);
    SB_GPU_RUN(work, sb_step_keep_kernel, 1, 1, 0, numbers, rows);
    return work.finish();
}

/* Copies row *kept of `before` to row 0: the next token follows the last kept row. */
sb_status sb_step_turn(const sb_step_call &c)
{
    const size_t H = c.config->hidden_size;
    sb_gpu_work work(c.gpu);
    const auto rows = work.inout("before", c.step->before, (c.step->options.rows + 1) * H);
    const auto kept = work.in("kept", c.step->kept, 1);
    SB_GPU_RUN(work, sb_step_row_kernel, sb_gpu_blocks(H, SB_STEP_THREADS), SB_STEP_THREADS, 0,
               rows, kept, H);
    return work.finish();
}

/* K-28: "residual feeds the residual stream of that row before the final norm" */
sb_status sb_step_note(const sb_step_call &c)
{
    const size_t H = c.config->hidden_size, n = c.rows * H;
    const float *feature = SB_IS(c.knobs, mtp_hidden, residual) ? c.s->x : c.s->hidden;
    sb_gpu_work work(c.gpu);
    const auto from = work.in("feature", feature, n);
    const auto to = work.out("before", c.step->before + H, n);
    SB_GPU_RUN(work, sb_step_copy_kernel, sb_gpu_blocks(n, SB_STEP_THREADS), SB_STEP_THREADS, 0,
               from, to, n);
    return work.finish();
}

sb_status sb_step_join(const sb_step_call &c)
{
    const sb_scratch *s = c.s;
    const size_t H = c.config->hidden_size, n = c.rows * H;
    sb_gpu_work work(c.gpu);
    const auto embedding = work.in("embedding", s->y, n), hidden = work.in("hidden", s->out, n);
    const auto joined = work.out("joined", s->joined, 2 * n);
    SB_GPU_RUN(work, sb_step_join_kernel, sb_gpu_blocks(n, SB_STEP_THREADS), SB_STEP_THREADS, 0,
               embedding, hidden, joined, H, n);
    return work.finish();
}
