/* sample.cuh - section P of docs/spec.md: computes probabilities and a token from a row of logits,
 * and judges drafts. The bits are those of ref/run/sample.c: all sums are exact, all functions are
 * correctly rounded, and no order matters.
 *
 * A draw is several launches; sample_select.cuh says how they cut a row, and how they find the
 * tokens that are kept. */
#ifndef SB_KERNEL_SAMPLE_CUH
#define SB_KERNEL_SAMPLE_CUH

#include "gpu/kernel/sample_select.cuh"
#include "gpu/math/fn.h"
#include "gpu/math/log1p.h"

enum : uint32_t { SB_SAMPLE_REFUSED = 0xffffffffu };

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

/* --- the launches of a draw, in order --------------------------------------------------------- */

/* Clears what later launches add to: row (rows, SB_SAMPLE_ROW), limit (rows, SB_LIMIT_ROW) twice,
 * bins (rows, SB_SAMPLE_BINS, SB_SAMPLE_BIN). grid: rows */
static __global__ void __launch_bounds__(SB_SAMPLE_THREADS)
    sb_sample_begin(sb_global<uint64_t> row, sb_global<uint64_t> limit, sb_global<uint64_t> other,
                    sb_global<uint64_t> bins)
{
    sb_launch_ready();
    sb_launch_wait();
    const size_t mine = blockIdx.x;
    if (threadIdx.x < SB_SAMPLE_ROW)
        row[mine * SB_SAMPLE_ROW + threadIdx.x] = 0;
    if (threadIdx.x < SB_LIMIT_ROW) {
        limit[mine * SB_LIMIT_ROW + threadIdx.x] = 0;
        other[mine * SB_LIMIT_ROW + threadIdx.x] = 0;
    }
    for (uint32_t i = threadIdx.x; i < SB_SAMPLE_BINS * SB_SAMPLE_BIN; i += SB_SAMPLE_THREADS)
        bins[mine * SB_SAMPLE_BINS * SB_SAMPLE_BIN + i] = 0;
}

/* Finds the largest logit, and whether all are finite (P-1). grid (parts, rows) */
static __global__ void __launch_bounds__(SB_SAMPLE_THREADS)
    sb_sample_look(sb_global<const float> logits, sb_global<uint64_t> rows, uint32_t n)
{
    sb_launch_ready();
    sb_launch_wait();
    SB_SHARED(uint64_t, room, SB_ARGMAX_WARPS);
    const sb_sample_part part = sb_sample_part_of(n);
    const sb_global<uint64_t> row = rows + part.row * SB_SAMPLE_ROW;
    uint64_t best = 0;
    int finite = 1;
    SB_SAMPLE_EACH(i, part.first, part.end)
    {
        const float x = logits[part.row * n + i];
        const uint64_t key = sb_argmax_key(x, i);
        finite &= (sb_gpu_bits(x) & 0x7f800000u) != 0x7f800000u;
        best = key > best ? key : best;
    }
    best = sb_argmax_block(best, room);
    finite = __syncthreads_and(finite);
    if (threadIdx.x != 0)
        return;
    sb_sample_max(row + SB_SAMPLE_best, best);
    if (!finite)
        sb_sample_max(row + SB_SAMPLE_refused, 1);
}

/* P-3: "temperature: e_i = exp( RN( RN(l_i - max l) / temperature ) )". e (rows, n) of refused rows
 * is not written. grid (parts, rows) */
static __global__ void __launch_bounds__(SB_SAMPLE_THREADS)
    sb_sample_weigh(sb_global<const float> logits, sb_global<const uint64_t> rows,
                    sb_global<float> e, float temperature, uint32_t n)
{
    sb_launch_ready();
    sb_launch_wait();
    const sb_sample_part part = sb_sample_part_of(n);
    const sb_global<const uint64_t> row = rows + part.row * SB_SAMPLE_ROW;
    if (row[SB_SAMPLE_refused])
        return;
    const uint32_t greedy = sb_argmax_id(row[SB_SAMPLE_best]);
    const float largest = logits[part.row * n + greedy];
    SB_SAMPLE_EACH(i, part.first, part.end)
    {
        const float x = logits[part.row * n + i];
        e[part.row * n + i] = sb_gpu_exp(__fdiv_rn(__fsub_rn(x, largest), temperature));
    }
}

/* P-7: "the sum over the tokens that are kept". P-6: "the tokens with e_i of at least min_p are
 * kept". grid (parts, rows) */
static __global__ void __launch_bounds__(SB_SAMPLE_THREADS)
    sb_sample_sum(sb_global<const float> logits, sb_global<const float> e, sb_global<uint64_t> rows,
                  sb_global<const uint64_t> limit, float min_p, uint32_t n)
{
    sb_launch_ready();
    sb_launch_wait();
    SB_SHARED(uint64_t, room, SB_ARGMAX_WARPS * SB_SUM_DIGITS);
    const sb_sample_part part = sb_sample_part_of(n);
    const sb_global<uint64_t> row = rows + part.row * SB_SAMPLE_ROW;
    if (row[SB_SAMPLE_refused])
        return;
    const uint64_t end = ~limit[part.row * SB_LIMIT_ROW + SB_LIMIT_cut];
    sb_digits sum;
    sb_digits_clear(&sum);
    SB_SAMPLE_EACH(i, part.first, part.end)
    {
        const float x = logits[part.row * n + i], value = e[part.row * n + i];
        sb_digits_add(&sum, sb_sample_key(x, i) > end || value < min_p ? 0.0f : value);
    }
    sum = sb_digits_block(sum, room);
    SB_UNROLL
    for (uint32_t d = 0; d < SB_SUM_DIGITS; d++)
        if (threadIdx.x == 0)
            sb_sample_add(row + (SB_SAMPLE_total + d), sum.digit[d]);
}

/* P-10: the key of RN( log(w_i) + g_i ), "the lowest id among equals"; 0 if w_i is 0. */
SB_KERNEL_FN uint64_t sb_sample_drawn(float w, uint32_t id, const sb_sample_settings &s,
                                      uint32_t position, uint32_t word)
{
    if (!(w > 0))
        return 0;
    const float g = sb_sample_gumbel(sb_sample_uniform(sb_sample_random(s, id, position, word)));
    return sb_argmax_key(__fadd_rn(sb_gpu_log(w), g), id);
}

/* Replaces e, in p (rows, n), by the probabilities, and draws tokens (rows) if the temperature is
 * not 0; otherwise the tokens are the greedy ones. Refused rows have probabilities of 0 and the
 * token SB_SAMPLE_REFUSED. grid (parts, rows) */
static __global__ void __launch_bounds__(SB_SAMPLE_THREADS)
    sb_sample_pick(sb_global<const float> logits, sb_global<float> p, sb_global<uint64_t> rows,
                   sb_global<const uint64_t> limit, sb_global<const uint32_t> positions,
                   sb_global<uint32_t> tokens, sb_sample_settings s, uint32_t n, uint32_t word)
{
    sb_launch_ready();
    sb_launch_wait();
    SB_SHARED(uint64_t, room, SB_ARGMAX_WARPS);
    SB_SHARED(uint32_t, last, 1);
    const sb_sample_part part = sb_sample_part_of(n);
    const sb_global<uint64_t> row = rows + part.row * SB_SAMPLE_ROW;
    const bool refused = row[SB_SAMPLE_refused] != 0, draws = !refused && s.temperature != 0;
    const uint32_t greedy = sb_argmax_id(row[SB_SAMPLE_best]);
    uint32_t position = 0;
    uint64_t end = 0, best = 0;
    float total = 1.0f;
    if (draws) { /* P-7: "p_i = RN( e_i / sum(e) ), and 0 for every other token" */
        sb_digits sum;
        SB_UNROLL
        for (uint32_t d = 0; d < SB_SUM_DIGITS; d++)
            sum.digit[d] = row[SB_SAMPLE_total + d];
        total = sb_digits_round(sum);
        end = ~limit[part.row * SB_LIMIT_ROW + SB_LIMIT_cut];
        position = positions[part.row];
    }
    SB_SAMPLE_EACH(i, part.first, part.end)
    {
        const size_t at = part.row * n + i;
        float w = !refused && i == greedy ? 1.0f : 0.0f;
        if (draws) {
            const float x = logits[at], e = p[at];
            w = sb_sample_key(x, i) > end || e < s.min_p ? 0.0f : __fdiv_rn(e, total);
            const uint64_t key = sb_sample_drawn(w, i, s, position, word);
            best = key > best ? key : best;
        }
        p[at] = w;
    }
    best = sb_argmax_block(best, room);
    if (threadIdx.x == 0)
        sb_sample_max(row + SB_SAMPLE_drawn, best);
    if (!sb_sample_is_last(row, last) || threadIdx.x != 0)
        return;
    best = atomicExch(sb_cast<unsigned long long>(row + SB_SAMPLE_drawn), 0ull);
    tokens[part.row] = refused ? uint32_t(SB_SAMPLE_REFUSED)
                       : draws ? best ? sb_argmax_id(best) : 0
                               : greedy;
}

/* --- drafts ----------------------------------------------------------------------------------- */

/* P-13: "w_i = max(RN(p_i - q_i), 0)", or p_i if `rest` is false. */
SB_KERNEL_FN float sb_sample_rest(float p, float q, bool rest)
{
    return !rest || SB_PLANT(sample_rest) ? p : p > q ? __fsub_rn(p, q) : 0.0f;
}

/* P-12: "accepted exactly when u q(d) < p(d), the product not rounded". Writes the draft if it is
 * accepted, else the token of P-13. p and q (rows, n) are probabilities from sb_sample_pick.
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
    SB_SAMPLE_EACH(i, 0, n)
    {
        const float a = mine[i], b = other[i];
        any |= sb_sample_rest(a, b, true) > 0;
    }
    any = __syncthreads_or(any);
    uint64_t best = 0;
    if (!yes) {
        SB_SAMPLE_EACH(i, 0, n)
        {
            const float a = mine[i], b = other[i];
            const float w = sb_sample_rest(a, b, any != 0);
            const uint64_t key = sb_sample_drawn(w, i, s, position, SB_WORD_residual);
            best = key > best ? key : best;
        }
    }
    best = sb_argmax_block(best, room);
    if (threadIdx.x == 0) {
        accepted[blockIdx.x] = yes;
        tokens[blockIdx.x] = yes ? draft : best ? sb_argmax_id(best) : 0;
    }
}

#endif
