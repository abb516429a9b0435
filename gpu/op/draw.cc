/* draw.cc - the choice of tokens by kernels: section P. */
#include "gpu/kernel/fused_argmax.cuh"
#include "gpu/kernel/sample.cuh"
#include "gpu/op/draw.h"
#include "gpu/op/fused.h"

enum : size_t {
    DRAW_ROWS = 16,  /* the most rows of one launch */
    DRAW_PART = 2048 /* the number of tokens in a part of a row, at most SB_SAMPLE_PART */
};
static_assert(DRAW_PART <= SB_SAMPLE_PART, "the sums of a part have 32 bits");

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

/* One call of a draw. `limit` is the one of `limits` that the last selection has written. */
struct draw_call {
    sb_gpu_work *work;
    dim3 grid;
    sb_global<const float> logits;
    sb_global<float> p;
    sb_global<uint64_t> row, bins, limits[2];
    unsigned limit;
    uint32_t n;
};

/* Finds the last token that is kept, eight bits of its key in each launch: the four parts of the
 * logit, then those of the id. */
template <bool SUMS> static void select(draw_call *c, const sb_sample_enough &is)
{
    uint32_t ids = 0;
    while (ids < 32 && (c->n - 1) >> ids)
        ids += 8;
    for (uint32_t shift = 56;; shift = shift == 32 ? ids - 8 : shift - 8) {
        SB_GPU_RUN((*c->work), sb_sample_select<SUMS>, c->grid, SB_SAMPLE_THREADS, 0, c->logits,
                   c->p, c->row, c->bins, c->limits[c->limit], c->limits[c->limit ^ 1], is, shift,
                   static_cast<uint32_t>(shift == 56), c->n);
        c->limit ^= 1;
        if (shift == (ids ? 0 : 32))
            break;
    }
}

/* P-3 to P-7, up to the sum of the tokens that are kept */
static void weigh(draw_call *c, const sb_sampling &s)
{
    SB_GPU_RUN((*c->work), sb_sample_weigh, c->grid, SB_SAMPLE_THREADS, 0, c->logits, c->row, c->p,
               s.temperature, c->n);
    if (s.top_k > 0 && s.top_k < c->n)
        select<false>(c, {s.top_k, 0.0f});
    if (s.top_p < 1)
        select<true>(c, {0, s.top_p});
    SB_GPU_RUN((*c->work), sb_sample_sum, c->grid, SB_SAMPLE_THREADS, 0, c->logits, c->p, c->row,
               c->limits[c->limit], s.min_p, c->n);
}

static sb_status draw_part(sb_gpu *gpu, const sb_draw_args *a, size_t first, size_t rows)
{
    uint32_t positions[DRAW_ROWS];
    const size_t at = first * a->n, count = rows * a->n;
    const uint32_t all = static_cast<uint32_t>(rows);
    number(a->position + first, rows, positions);
    sb_gpu_work work(gpu);
    draw_call c = {};
    const auto where = work.in("positions", positions, rows);
    c.work = &work;
    c.grid = dim3(sb_gpu_blocks(a->n, DRAW_PART), all);
    c.logits = work.in("logits", a->logits + at, count);
    c.p = a->p ? work.out("p", a->p + at, count) : work.scratch<float>("p", count);
    c.row = work.scratch<uint64_t>("row", rows * SB_SAMPLE_ROW);
    c.bins = work.scratch<uint64_t>("bins", rows * SB_SAMPLE_BINS * SB_SAMPLE_BIN);
    c.limits[0] = work.scratch<uint64_t>("limit", rows * SB_LIMIT_ROW);
    c.limits[1] = work.scratch<uint64_t>("next limit", rows * SB_LIMIT_ROW);
    c.n = a->n;
    const auto tokens = work.out("tokens", a->tokens + first, rows);
    SB_GPU_RUN(work, sb_sample_begin, all, SB_SAMPLE_THREADS, 0, c.row, c.limits[0], c.limits[1],
               c.bins);
    SB_GPU_RUN(work, sb_sample_look, c.grid, SB_SAMPLE_THREADS, 0, c.logits, c.row, c.n);
    if (a->settings.temperature != 0)
        weigh(&c, a->settings);
    SB_GPU_RUN(work, sb_sample_pick, c.grid, SB_SAMPLE_THREADS, 0, c.logits, c.p, c.row,
               c.limits[c.limit], where, tokens, as_settings(a->settings), c.n,
               static_cast<uint32_t>(a->purpose));
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
