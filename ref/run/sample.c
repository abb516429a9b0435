#include "ref/run/sample.h"

#include <stdlib.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/base/philox.h"
#include "ref/fast/dot/dot.h"
#include "ref/math/fn.h"
#include "ref/run/session.h"

struct sb_sampler {
    sb_sampling settings;
    uint32_t vocab;
    uint64_t *order; /* (V) tokens in the order of P-2 */
    float *run;      /* (V) values of P-3 in that order */
    float *p;        /* (V) scratch of a draw from logits */
};

/* P-1: "temperature is finite and not below 0, top_p is above 0 and at most 1, min_p is from 0 to
 * 1" - written so that NaN is refused, too. */
sb_status sb_sampling_check(const sb_sampling *s, sb_error *err)
{
    if (!sb_is_finite_f32(s->temperature) || !(s->temperature >= 0))
        return sb_fail(err, SB_ERR_USAGE, "temperature %g; expected a finite number from 0 on",
                       (double)s->temperature);
    if (!(s->top_p > 0) || !(s->top_p <= 1))
        return sb_fail(err, SB_ERR_USAGE, "top_p %g; expected a number above 0 and at most 1",
                       (double)s->top_p);
    if (!(s->min_p >= 0) || !(s->min_p <= 1))
        return sb_fail(err, SB_ERR_USAGE, "min_p %g; expected a number from 0 to 1",
                       (double)s->min_p);
    return SB_OK;
}

sb_status sb_sampler_new(const sb_sampling *s, uint32_t vocab, sb_sampler **out, sb_error *err)
{
    sb_status status = sb_sampling_check(s, err);
    if (status)
        return status;
    if (vocab == 0)
        return sb_fail(err, SB_ERR_USAGE, "a sampler for 0 tokens; expected at least one");
    sb_sampler *sampler = sb_alloc(1, sizeof *sampler);
    if (sampler) {
        *sampler = (sb_sampler){.settings = *s, .vocab = vocab};
        sampler->order = sb_alloc(vocab, sizeof *sampler->order);
        sampler->run = sb_alloc(vocab, sizeof *sampler->run);
        sampler->p = sb_alloc(vocab, sizeof *sampler->p);
    }
    if (!sampler || !sampler->order || !sampler->run || !sampler->p) {
        sb_sampler_free(sampler);
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a sampler of %u tokens",
                       (unsigned)vocab);
    }
    *out = sampler;
    return SB_OK;
}

void sb_sampler_free(sb_sampler *sampler)
{
    if (!sampler)
        return;
    free(sampler->order);
    free(sampler->run);
    free(sampler->p);
    free(sampler);
}

const sb_sampling *sb_sampler_settings(const sb_sampler *sampler)
{
    return &sampler->settings;
}

/* A number that grows as the logit falls; the same for both zeros. */
static uint32_t falling(float logit)
{
    uint32_t bits = logit == 0 ? 0 : sb_bits_f32(logit);
    return bits >> 31 ? bits : ~(bits | 0x80000000u);
}

static int compare_keys(const void *a, const void *b)
{
    uint64_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

/* P-2: "by falling logit, equal logits by ascending id; -0 equals +0" - a key has the logit in its
 * upper half and the id in its lower half. So no two keys are equal, and every sorting algorithm
 * gives the same order. */
static void sort_tokens(const float *logits, uint32_t n, uint64_t *order)
{
    for (uint32_t i = 0; i < n; i++)
        order[i] = (uint64_t)falling(logits[i]) << 32 | i;
    qsort(order, n, sizeof *order, compare_keys);
    for (uint32_t i = 0; i < n; i++)
        order[i] &= 0xffffffffu;
}

/* P-3: "e_i = exp( RN( RN(l_i - max l) / temperature ) )" - the difference is computed first, so
 * that a small temperature can make the quotient -Inf, and e_i 0, but never NaN. */
static void exponentials(const float *logits, uint32_t n, float temperature, float *e)
{
    float largest = logits[sb_greedy(logits, n)];
    for (uint32_t i = 0; i < n; i++) {
        float below = logits[i] - largest;
        e[i] = sb_exp(below / temperature);
    }
}

/* P-5: "the shortest beginning of the order is kept whose sum(e) is at least RN(top_p sum(e) of all
 * tokens that top_k keeps)". A correctly rounded sum never decreases when a nonnegative term is
 * added, so that bisection finds the shortest run. */
static uint32_t shortest_run(const float *run, uint32_t kept, float top_p)
{
    float enough = top_p * sb_sum(run, kept);
    uint32_t low = 1, high = kept;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (sb_sum(run, middle) >= enough)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* P-4: "the first top_k tokens of the order are kept, all of them where top_k is 0 or above V" */
static void keep_first(sb_sampler *sampler, const float *logits, float *e)
{
    const sb_sampling *s = &sampler->settings;
    uint32_t n = sampler->vocab, kept = s->top_k > 0 && s->top_k < n ? s->top_k : n;
    if (kept == n && !(s->top_p < 1))
        return;
    sort_tokens(logits, n, sampler->order);
    for (uint32_t j = 0; j < n; j++)
        sampler->run[j] = e[sampler->order[j]];
    if (s->top_p < 1)
        kept = shortest_run(sampler->run, kept, s->top_p);
    for (uint32_t j = kept; j < n; j++)
        e[sampler->order[j]] = 0;
}

/* P-6: "the tokens with e_i of at least min_p"; P-7: "p_i = RN( e_i / sum(e) )" */
static void normalise(float *p, uint32_t n, float min_p)
{
    for (uint32_t i = 0; i < n; i++)
        if (p[i] < min_p)
            p[i] = 0;
    float total = sb_sum(p, n);
    for (uint32_t i = 0; i < n; i++)
        p[i] = p[i] / total;
}

sb_status sb_sample_check(const float *logits, size_t rows, uint32_t vocab, sb_error *err)
{
    for (size_t i = 0; i < rows * vocab; i++)
        if (!sb_is_finite_f32(logits[i]))
            return sb_fail(err, SB_ERR_NUMERIC, "the logit of token %u is not finite",
                           (unsigned)(i % vocab));
    return SB_OK;
}

sb_status sb_sample_probabilities(sb_sampler *sampler, const float *logits, float *p, sb_error *err)
{
    const sb_sampling *s = &sampler->settings;
    uint32_t n = sampler->vocab;
    sb_status status = sb_sample_check(logits, 1, n, err);
    if (status)
        return status;
    if (s->temperature == 0) {
        /* P-1: "Temperature 0 gives the greedy token of R-20 the probability 1" */
        for (uint32_t i = 0; i < n; i++)
            p[i] = 0;
        p[sb_greedy(logits, n)] = 1;
        return SB_OK;
    }
    exponentials(logits, n, s->temperature, p);
    keep_first(sampler, logits, p);
    normalise(p, n, s->min_p);
    return SB_OK;
}

/* P-8: "The counter is token id, position modulo 2^32, and sequence, low word first; the key is the
 * seed, low word first" */
static uint32_t random_word(const sb_sampling *s, uint32_t token, uint64_t position,
                            sb_purpose purpose)
{
    const uint32_t counter[4] = {token, (uint32_t)position, (uint32_t)s->sequence,
                                 (uint32_t)(s->sequence >> 32)};
    const uint32_t key[2] = {(uint32_t)s->seed, (uint32_t)(s->seed >> 32)};
    return sb_philox4x32_10(counter, key).word[purpose];
}

/* P-9: "u = min( RN( (2w + 1) 2^-33 ), 1 - 2^-24 )" */
float sb_sample_uniform(const sb_sampling *s, uint32_t token, uint64_t position, sb_purpose purpose)
{
    uint64_t odd = 2 * (uint64_t)random_word(s, token, position, purpose) + 1;
    float u = (float)odd * 0x1p-33f;
    return u < 1 ? u : 1 - 0x1p-24f;
}

/* P-10: "g_i = -log( -log1p(-u_i) ), both functions rounded" */
float sb_sample_gumbel(const sb_sampling *s, uint32_t token, uint64_t position, sb_purpose purpose)
{
    float waiting = -sb_log1p(-sb_sample_uniform(s, token, position, purpose));
    return -sb_log(waiting);
}

/* P-10: "the token with the largest RN( log(w_i) + g_i ) among those with w_i above 0, the lowest
 * id among equals" */
uint32_t sb_sample_pick(const sb_sampler *sampler, const float *p, uint64_t position,
                        sb_purpose purpose)
{
    uint32_t token = 0;
    float best = 0;
    int any = 0;
    for (uint32_t i = 0; i < sampler->vocab; i++) {
        if (!(p[i] > 0))
            continue;
        float mine = sb_log(p[i]) + sb_sample_gumbel(&sampler->settings, i, position, purpose);
        if (!any || mine > best) {
            token = i;
            best = mine;
            any = 1;
        }
    }
    return token;
}

sb_status sb_sample_draw(sb_sampler *sampler, const float *logits, uint64_t position,
                         sb_purpose purpose, uint32_t *token, sb_error *err)
{
    sb_status status = sb_sample_probabilities(sampler, logits, sampler->p, err);
    if (status)
        return status;
    *token = sb_sample_pick(sampler, sampler->p, position, purpose);
    return SB_OK;
}

/* P-12: "accepted exactly when u q(d) < p(d), the product not rounded" - the product has 48 bits,
 * so it is exact in binary64. If q(d) is 0, d cannot have been drawn; it is rejected. */
int sb_sample_accepts(const sb_sampler *sampler, const float *p, const float *q, uint32_t draft,
                      uint64_t position)
{
    float u = sb_sample_uniform(&sampler->settings, draft, position, SB_DRAW_accept);
    return q[draft] > 0 && (double)u * (double)q[draft] < (double)p[draft];
}

/* P-13: "w_i = max(RN(p_i - q_i), 0). If these are 0 for every token, which only rounding can
 * cause, w_i = p_i" */
uint32_t sb_sample_residual(const sb_sampler *sampler, const float *p, const float *q,
                            uint64_t position)
{
    float *rest = sampler->run;
    int any = 0;
    for (uint32_t i = 0; i < sampler->vocab; i++) {
        rest[i] = p[i] > q[i] ? p[i] - q[i] : 0;
        any |= rest[i] > 0;
    }
    return sb_sample_pick(sampler, any ? rest : p, position, SB_DRAW_residual);
}
