/* draw.cc - the choice of tokens by kernels: section P. */
#include "gpu/kernel/fused_argmax.cuh"
#include "gpu/kernel/sample.cuh"
#include "gpu/op/draw.h"
#include "gpu/op/fused.h"

enum : size_t { DRAW_ROWS = 16 }; /* the most rows of one launch */

static sb_sample_settings as_settings(const sb_sampling &s)
{
    return {{static_cast<uint32_t>(s.seed), static_cast<uint32_t>(s.seed >> 32)},
            {static_cast<uint32_t>(s.sequence), static_cast<uint32_t>(s.sequence >> 32)},
            s.temperature,
            s.top_p,
            s.min_p,
            s.top_k};
}

static size_t part_of(size_t rows, size_t first)
{
    return rows - first < DRAW_ROWS ? rows - first : size_t(DRAW_ROWS);
}

/* P-8: "position modulo 2^32" */
static void number(uint64_t position, size_t rows, uint32_t *positions)
{
    for (size_t t = 0; t < rows; t++)
        positions[t] = static_cast<uint32_t>(position + t);
}

sb_status sb_gpu_greedy(sb_gpu *gpu, const float *logits, size_t rows, uint32_t n, uint32_t *tokens)
{
    const uint32_t parts = sb_gpu_blocks(n, SB_GREEDY_PART), all = static_cast<uint32_t>(rows);
    sb_gpu_work work(gpu);
    const auto in = work.in("logits", logits, rows * n);
    const auto partial = work.scratch<uint64_t>("partial", rows * parts);
    const auto out = work.out("tokens", tokens, rows);
    SB_GPU_RUN(work, sb_argmax_part, dim3(parts, all), SB_ARGMAX_THREADS, 0, in, partial, n);
    SB_GPU_RUN(work, sb_argmax_end, all, SB_ARGMAX_THREADS, 0, partial, out, parts);
    return work.finish();
}

sb_status sb_gpu_greedy_once(sb_gpu *gpu, const float *logits, size_t rows, uint32_t n,
                             uint64_t *best, uint32_t *done, uint32_t *tokens)
{
    const uint32_t all = static_cast<uint32_t>(rows);
    sb_gpu_work work(gpu);
    const auto in = work.in("logits", logits, rows * n);
    const auto largest = work.inout("best", best, rows);
    const auto finished = work.inout("done", done, rows);
    const auto out = work.out("tokens", tokens, rows);
    if (work.ok())
        work.did(sb_argmax_launch(work.queue(), in, largest, finished, out, n, all,
                                  sb_gpu_blocks(n, SB_GREEDY_PART)));
    return work.finish();
}

static sb_status draw_part(sb_gpu *gpu, const sb_draw_args *a, size_t first, size_t rows)
{
    uint32_t positions[DRAW_ROWS];
    const size_t at = first * a->n, count = rows * a->n;
    number(a->position + first, rows, positions);
    sb_gpu_work work(gpu);
    const auto where = work.in("positions", positions, rows);
    const auto logits = work.in("logits", a->logits + at, count);
    const auto p = a->p ? work.out("p", a->p + at, count) : work.scratch<float>("p", count);
    const auto tokens = work.out("tokens", a->tokens + first, rows);
    SB_GPU_RUN(work, sb_sample_kernel, static_cast<uint32_t>(rows), SB_SAMPLE_THREADS, 0, logits, p,
               where, tokens, as_settings(a->settings), a->n, static_cast<uint32_t>(a->purpose));
    sb_status status = work.finish();
    for (size_t t = 0; t < rows && !status; t++)
        if (a->tokens[first + t] == SB_SAMPLE_REFUSED)
            status = sb_fail(work.err(), SB_ERR_NUMERIC, "row %zu has a logit that is not finite",
                             first + t);
    return status;
}

sb_status sb_gpu_draw(sb_gpu *gpu, const sb_draw_args *a)
{
    sb_status status = SB_OK;
    for (size_t first = 0; first < a->rows && !status; first += DRAW_ROWS)
        status = draw_part(gpu, a, first, part_of(a->rows, first));
    return status;
}

static sb_status judge_part(sb_gpu *gpu, const sb_judge_args *a, size_t first, size_t rows)
{
    uint32_t positions[DRAW_ROWS];
    const size_t at = first * a->n, count = rows * a->n;
    number(a->position + first, rows, positions);
    sb_gpu_work work(gpu);
    const auto where = work.in("positions", positions, rows);
    const auto p = work.in("p", a->p + at, count), q = work.in("q", a->q + at, count);
    const auto drafts = work.in("drafts", a->drafts + first, rows);
    const auto accepted = work.out("accepted", a->accepted + first, rows);
    const auto tokens = work.out("tokens", a->tokens + first, rows);
    SB_GPU_RUN(work, sb_sample_judge, static_cast<uint32_t>(rows), SB_SAMPLE_THREADS, 0, p, q,
               drafts, where, accepted, tokens, as_settings(a->settings), a->n);
    return work.finish();
}

sb_status sb_gpu_judge(sb_gpu *gpu, const sb_judge_args *a)
{
    sb_status status = SB_OK;
    for (size_t first = 0; first < a->rows && !status; first += DRAW_ROWS)
        status = judge_part(gpu, a, first, part_of(a->rows, first));
    return status;
}
