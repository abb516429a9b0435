/* sample.cuh - section P of docs/spec.md: computes probabilities and a token from a row of logits,
 * and judges drafts. The bits are those of ref/run/sample.c: all sums are exact, all functions are
 * correctly rounded, and no order matters.
 *
 * A block computes one row. Tokens are not sorted. It suffices to find a limit in the order of P-2,
 * as a key of logit and id. A bisection finds the bits of this key one by one, until only one token
 * lies between a limit with too few tokens and a limit with enough tokens. */
#ifndef SB_KERNEL_SAMPLE_CUH
#define SB_KERNEL_SAMPLE_CUH

#include "gpu/kernel/argmax.cuh"
#include "gpu/kernel/exact_sum.cuh"
#include "gpu/math/fn.h"
#include "gpu/math/log1p.h"

enum : uint32_t { SB_SAMPLE_THREADS = SB_ARGMAX_THREADS, SB_SAMPLE_REFUSED = 0xffffffffu };

/* P-8: "Word 0 draws a token from the target" - the use of the four words of a random block. */
enum sb_sample_word : uint32_t { SB_WORD_token, SB_WORD_draft, SB_WORD_accept, SB_WORD_residual };

struct sb_sample_settings {
    uint32_t seed[2], sequence[2]; /* low word first */
    float temperature, top_p, min_p;
    uint32_t top_k;
};

/* --- random words ----------------------------------------------------------------------------- */

/* P-8: Philox4x32-10. */
SB_KERNEL_FN uint32_t sb_sample_random(const sb_sample_settings &s, uint32_t token,
                                       uint32_t position, uint32_t word)
{
    uint32_t c[4] = {token, position, s.sequence[0], s.sequence[1]};
    uint32_t key[2] = {s.seed[0], s.seed[1]};
    for (int round = 0; round < (SB_PLANT(sample_nine_rounds) ? 9 : 10); round++) {
        const uint64_t a = static_cast<uint64_t>(0xd2511f53u) * c[0];
        const uint64_t b = static_cast<uint64_t>(0xcd9e8d57u) * c[2];
        c[0] = static_cast<uint32_t>(b >> 32) ^ c[1] ^ key[0];
        c[1] = static_cast<uint32_t>(b);
        c[2] = static_cast<uint32_t>(a >> 32) ^ c[3] ^ key[1];
        c[3] = static_cast<uint32_t>(a);
        key[0] += 0x9e3779b9u;
        key[1] += 0xbb67ae85u;
    }
    word = SB_PLANT(sample_next_word) ? (word + 1) % 4 : word;
    return word == 0 ? c[0] : word == 1 ? c[1] : word == 2 ? c[2] : c[3];
}

/* P-9: "u = min( RN( (2w + 1) 2^-33 ), 1 - 2^-24 )" */
SB_KERNEL_FN float sb_sample_uniform(uint32_t w)
{
    const float u = static_cast<float>(2 * static_cast<uint64_t>(w) + 1) * 0x1p-33f;
    return u < 1 ? u : 1 - 0x1p-24f;
}

/* P-10: "g_i = -log( -log1p(-u_i) ), both functions rounded" */
SB_KERNEL_FN float sb_sample_gumbel(float u)
{
    return -sb_gpu_log(-sb_gpu_log1p_minus(u));
}

/* --- weights ---------------------------------------------------------------------------------- */

/* P-2: "by falling logit, equal logits by ascending id" */
SB_KERNEL_FN uint64_t sb_sample_key(float logit, uint32_t id)
{
    return static_cast<uint64_t>(~sb_rising(logit)) << 32 | (SB_PLANT(sample_ties) ? id ^ 1 : id);
}

/* Loops over the tokens of the row that belong to this thread. */
#define SB_SAMPLE_EACH(i, n) for (uint32_t i = threadIdx.x; i < (n); i += SB_SAMPLE_THREADS)

/* Returns, in every thread, the sum of `count` over the threads of a block. */
SB_KERNEL_FN uint32_t sb_sample_total(uint32_t count, sb_shared<uint64_t> room)
{
    for (int with = 16; with > 0; with /= 2)
        count += __shfl_xor_sync(0xffffffffu, count, with);
    if (!SB_PLANT(sample_barrier2))
        __syncthreads(); /* an earlier call may still use `room` */
    if (threadIdx.x % 32 == 0)
        room[threadIdx.x / 32] = count;
    if (!SB_PLANT(sample_barrier))
        __syncthreads();
    count = 0;
    for (uint32_t warp = 0; warp < SB_ARGMAX_WARPS; warp++) {
        const uint64_t other = room[warp];
        count += static_cast<uint32_t>(other);
    }
    return count;
}

/* The number of tokens before a limit in the order of P-2, and with SUMS the sum of their e. */
struct sb_sample_run {
    uint32_t tokens;
    float sum;
};
template <bool SUMS>
SB_KERNEL_FN sb_sample_run sb_sample_before(sb_global<const float> logits, sb_global<const float> e,
                                            uint32_t n, uint64_t limit, sb_shared<uint64_t> room)
{
    sb_sample_run run = {0, 0.0f};
    sb_digits sum;
    sb_digits_clear(&sum);
    SB_SAMPLE_EACH(i, n)
    {
        const float x = logits[i];
        if (sb_sample_key(x, i) >= limit)
            continue;
        run.tokens++;
        if (SUMS) {
            const float value = e[i];
            sb_digits_add(&sum, value);
        }
    }
    run.tokens = sb_sample_total(run.tokens, room);
    if (SUMS)
        run.sum = sb_digits_block(sum, room);
    return run;
}

/* The next bit of the key in the bisection, from 63 down. Ids are below n, so their highest bits
 * are skipped. */
SB_KERNEL_FN int sb_sample_next_bit(int bit, uint32_t n)
{
    const int ids = 32 - __clz(static_cast<int>(n - 1));
    return bit == 32 ? ids - 1 : bit - 1;
}

/* Returns the limit after the fewest first tokens that are enough: enough.tokens tokens, or with
 * SUMS a sum of e of at least enough.sum. In the loop, too few tokens precede `last`, and enough
 * precede `end`. */
template <bool SUMS>
SB_KERNEL_FN uint64_t sb_sample_end(sb_global<const float> logits, sb_global<const float> e,
                                    uint32_t n, sb_sample_run enough, sb_shared<uint64_t> room)
{
    uint64_t last = 0, end = ~uint64_t(0);
    uint32_t few = 0, many = n;
    for (int bit = 63; bit >= 0 && many - few > 1; bit = sb_sample_next_bit(bit, n)) {
        const uint64_t limit = last | uint64_t(1) << bit;
        const sb_sample_run run = sb_sample_before<SUMS>(logits, e, n, limit, room);
        if (SUMS ? run.sum < enough.sum : run.tokens < enough.tokens) {
            last = limit;
            few = run.tokens;
        } else {
            end = limit;
            many = run.tokens;
        }
    }
    return SUMS && SB_PLANT(sample_top_p) && few ? last : end;
}

/* Sets e to 0 for all tokens at or after the limit. Each thread handles its own tokens. */
SB_KERNEL_FN void sb_sample_cut(sb_global<const float> logits, sb_global<float> e, uint32_t n,
                                uint64_t end)
{
    SB_SAMPLE_EACH(i, n)
    {
        const float x = logits[i];
        if (sb_sample_key(x, i) >= end)
            e[i] = 0.0f;
    }
}

/* P-5: "the shortest beginning of the order is kept whose sum(e) is at least RN(top_p sum(e) of all
 * tokens that top_k keeps)". Tokens that top_k does not keep have e = 0. */
SB_KERNEL_FN uint64_t sb_sample_top_p(sb_global<const float> logits, sb_global<const float> e,
                                      uint32_t n, float top_p, sb_shared<uint64_t> room)
{
    const sb_sample_run all = sb_sample_before<true>(logits, e, n, ~uint64_t(0), room);
    return sb_sample_end<true>(logits, e, n, {0, __fmul_rn(top_p, all.sum)}, room);
}

/* P-3 to P-7: replaces e by the probabilities. A thread reads and writes only its own tokens. */
SB_KERNEL_FN void sb_sample_weights(sb_global<const float> logits, sb_global<float> e, uint32_t n,
                                    const sb_sample_settings &s, float largest,
                                    sb_shared<uint64_t> room)
{
    SB_SAMPLE_EACH(i, n)
    {
        const float x = logits[i];
        e[i] = sb_gpu_exp(__fdiv_rn(__fsub_rn(x, largest), s.temperature));
    }
    /* P-4: "the first top_k tokens of the order are kept" */
    if (s.top_k > 0 && s.top_k < n)
        sb_sample_cut(logits, e, n, sb_sample_end<false>(logits, e, n, {s.top_k, 0.0f}, room));
    if (s.top_p < 1)
        sb_sample_cut(logits, e, n, sb_sample_top_p(logits, e, n, s.top_p, room));
    sb_digits sum;
    sb_digits_clear(&sum);
    SB_SAMPLE_EACH(i, n)
    {
        const float value = e[i];
        sb_digits_add(&sum, value < s.min_p ? 0.0f : value);
    }
    const float total = sb_digits_block(sum, room);
    SB_SAMPLE_EACH(i, n)
    {
        const float value = e[i];
        e[i] = value < s.min_p ? 0.0f : __fdiv_rn(value, total);
    }
}

/* --- a draw ----------------------------------------------------------------------------------- */

/* P-13: "w_i = max(RN(p_i - q_i), 0)", or p_i if `rest` is false. */
SB_KERNEL_FN float sb_sample_rest(float p, float q, bool rest)
{
    return !rest || SB_PLANT(sample_rest) ? p : p > q ? __fsub_rn(p, q) : 0.0f;
}

/* P-10: "the token with the largest RN( log(w_i) + g_i ) among those with w_i above 0, the lowest
 * id among equals". Returns 0 if all weights are 0. With `rest` the weights are those of P-13. */
SB_KERNEL_FN uint32_t sb_sample_pick(sb_global<const float> p, sb_global<const float> q, bool rest,
                                     uint32_t n, const sb_sample_settings &s, uint32_t position,
                                     uint32_t word, sb_shared<uint64_t> room)
{
    uint64_t best = 0;
    SB_SAMPLE_EACH(i, n)
    {
        const float mine = p[i];
        float other = 0.0f;
        if (rest)
            other = q[i];
        const float w = sb_sample_rest(mine, other, rest);
        if (!(w > 0))
            continue;
        const float g = sb_sample_gumbel(sb_sample_uniform(sb_sample_random(s, i, position, word)));
        const uint64_t key = sb_argmax_key(__fadd_rn(sb_gpu_log(w), g), i);
        best = key > best ? key : best;
    }
    best = sb_argmax_block(best, room);
    return best ? sb_argmax_id(best) : 0;
}

/* probabilities (rows, n) and tokens (rows); if a logit is not finite, the row is refused (P-1) and
 * its token is SB_SAMPLE_REFUSED. grid: rows */
static __global__ void __launch_bounds__(SB_SAMPLE_THREADS)
    sb_sample_kernel(sb_global<const float> logits, sb_global<float> probabilities,
                     sb_global<const uint32_t> positions, sb_global<uint32_t> tokens,
                     sb_sample_settings s, uint32_t n, uint32_t word)
{
    sb_launch_ready();
    sb_launch_wait();
    SB_SHARED(uint64_t, room, SB_ARGMAX_WARPS * SB_SUM_DIGITS);
    const size_t first = static_cast<size_t>(blockIdx.x) * n;
    const sb_global<const float> row = logits + first;
    const sb_global<float> p = probabilities + first;
    uint64_t best = 0;
    int finite = 1;
    SB_SAMPLE_EACH(i, n)
    {
        const float x = row[i];
        const uint64_t key = sb_argmax_key(x, i);
        finite &= (sb_gpu_bits(x) & 0x7f800000u) != 0x7f800000u;
        best = key > best ? key : best;
        p[i] = 0.0f;
    }
    const uint32_t greedy = sb_argmax_id(sb_argmax_block(best, room));
    uint32_t token = SB_SAMPLE_REFUSED;
    if (__syncthreads_and(finite)) {
        token = greedy;
        if (s.temperature == 0) {
            if (greedy % SB_SAMPLE_THREADS == threadIdx.x)
                p[greedy] = 1.0f;
        } else {
            const float largest = row[greedy];
            const uint32_t position = positions[blockIdx.x];
            sb_sample_weights(row, p, n, s, largest, room);
            token = sb_sample_pick(p, p, false, n, s, position, word, room);
        }
    }
    if (threadIdx.x == 0)
        tokens[blockIdx.x] = token;
}

/* P-12: "accepted exactly when u q(d) < p(d), the product not rounded". Writes the draft if it is
 * accepted, else the token of P-13. p and q (rows, n) are probabilities from sb_sample_kernel.
 * grid: rows */
static __global__ void __launch_bounds__(SB_SAMPLE_THREADS)
    sb_sample_judge(sb_global<const float> p, sb_global<const float> q,
                    sb_global<const uint32_t> drafts, sb_global<const uint32_t> positions,
                    sb_global<uint32_t> accepted, sb_global<uint32_t> tokens, sb_sample_settings s,
                    uint32_t n)
{
    sb_launch_ready();
    sb_launch_wait();
    SB_SHARED(uint64_t, room, SB_ARGMAX_WARPS);
    const size_t first = static_cast<size_t>(blockIdx.x) * n;
    const sb_global<const float> mine = p + first, other = q + first;
    const uint32_t draft = drafts[blockIdx.x], position = positions[blockIdx.x];
    const float u = sb_sample_uniform(sb_sample_random(s, draft, position, SB_WORD_accept));
    const float of_p = mine[draft], of_q = other[draft];
    const double product = SB_PLANT(sample_accept)
                               ? static_cast<double>(__fmul_rn(u, of_q))
                               : static_cast<double>(u) * static_cast<double>(of_q);
    const bool yes = of_q > 0 && product < static_cast<double>(of_p);
    int any = 0;
    SB_SAMPLE_EACH(i, n)
    {
        const float a = mine[i], b = other[i];
        any |= sb_sample_rest(a, b, true) > 0;
    }
    any = __syncthreads_or(any);
    const uint32_t token =
        yes ? draft : sb_sample_pick(mine, other, any != 0, n, s, position, SB_WORD_residual, room);
    if (threadIdx.x == 0) {
        accepted[blockIdx.x] = yes;
        tokens[blockIdx.x] = token;
    }
}

#endif
