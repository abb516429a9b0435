#include "tests/unit/sample_plain.h"

#include <math.h>
#include <stdlib.h>

#include "ref/base/mem.h"
#include "ref/base/philox.h"
#include "ref/math/exact.h"
#include "ref/math/fn.h"

/* --- P-2 to P-7 ------------------------------------------------------------------------------- */

/* What the steps pass on: e of P-3 (`e`), and e for the steps that decide which tokens stay
 * (`seen`). */
typedef struct work {
    plain_mistake mistake;
    const sb_sampling *s;
    const float *logits;
    uint32_t n, kept;
    uint32_t *order;
    float *e, *seen;
} work;

static int stands_before(const work *w, uint32_t a, uint32_t b)
{
    float x = w->logits[a], y = w->logits[b];
    if (x != y)
        return x > y;
    if (w->mistake == PLAIN_zeros_apart && !signbit(x) != !signbit(y))
        return signbit(y) != 0;
    return w->mistake == PLAIN_highest_first ? a > b : a < b;
}

static void find_order(work *w)
{
    for (uint32_t i = 0; i < w->n; i++) {
        uint32_t rank = 0;
        for (uint32_t j = 0; j < w->n; j++)
            rank += (uint32_t)(j != i && stands_before(w, j, i));
        w->order[rank] = i;
    }
}

static void find_exponentials(work *w)
{
    float largest = w->logits[w->order[0]], t = w->s->temperature;
    for (uint32_t i = 0; i < w->n; i++) {
        float below = w->logits[i] - largest, tempered = below / t;
        if (w->mistake == PLAIN_divided_first) {
            float high = largest / t;
            tempered = w->logits[i] / t - high;
        }
        w->e[i] = sb_exp(tempered);
        w->seen[i] = w->mistake == PLAIN_temperature_last ? sb_exp(below) : w->e[i];
    }
}

static void apply_top_k(work *w)
{
    w->kept = w->s->top_k && w->s->top_k < w->n ? w->s->top_k : w->n;
    if (w->mistake == PLAIN_ties_kept)
        while (w->kept < w->n && w->logits[w->order[w->kept]] == w->logits[w->order[w->kept - 1]])
            w->kept++;
}

/* The value that top_p adds for the token of this rank. */
static float share(const work *w, uint32_t rank)
{
    uint32_t i = w->order[rank];
    return w->mistake == PLAIN_top_p_untempered ? sb_exp(w->logits[i] - w->logits[w->order[0]])
                                                : w->seen[i];
}

static float sum_of(const work *w, uint32_t count)
{
    sb_exact sum;
    sb_exact_clear(&sum);
    for (uint32_t j = 0; j < count; j++)
        sb_exact_add(&sum, share(w, j));
    return sb_exact_round(&sum);
}

/* The sum of the shares so far, kept in three ways. */
typedef struct prefix {
    sb_exact exact;
    float narrow;
    double wide;
} prefix;

static int is_enough(const work *w, prefix *sum, float term, float enough)
{
    sb_exact_add(&sum->exact, term);
    sum->narrow += term;
    sum->wide += (double)term;
    float rounded = sb_exact_round(&sum->exact);
    if (w->mistake == PLAIN_sum_binary32)
        return sum->narrow >= enough;
    if (w->mistake == PLAIN_sum_unrounded)
        return sum->wide >= (double)enough;
    return w->mistake == PLAIN_top_p_strict ? rounded > enough : rounded >= enough;
}

static void apply_top_p(work *w)
{
    if (!(w->s->top_p < 1))
        return;
    float enough = w->s->top_p * sum_of(w, w->mistake == PLAIN_top_p_of_all ? w->n : w->kept);
    prefix sum = {.narrow = 0};
    sb_exact_clear(&sum.exact);
    for (uint32_t j = 0; j < w->kept; j++)
        if (is_enough(w, &sum, share(w, j), enough)) {
            w->kept = w->mistake == PLAIN_top_p_below && j > 0 ? j : j + 1;
            return;
        }
}

static void apply_min_p(work *w)
{
    float total = w->mistake == PLAIN_min_p_absolute ? sum_of(w, w->kept) : 1;
    uint32_t j = 0;
    while (j < w->kept) {
        float value = w->seen[w->order[j]] / total;
        if (value < w->s->min_p || (w->mistake == PLAIN_min_p_strict && value == w->s->min_p))
            break;
        j++;
    }
    w->kept = j;
}

static void write_probabilities(const work *w, float *p)
{
    if (w->mistake == PLAIN_normalised_twice) {
        float all = sb_exact_sum(w->e, 1, w->n);
        for (uint32_t i = 0; i < w->n; i++)
            w->e[i] = w->e[i] / all;
    }
    for (uint32_t i = 0; i < w->n; i++)
        p[i] = 0;
    for (uint32_t j = 0; j < w->kept; j++)
        p[w->order[j]] = w->e[w->order[j]];
    float total = sb_exact_sum(p, 1, w->n);
    for (uint32_t i = 0; i < w->n; i++)
        p[i] = p[i] / total;
}

void plain_probabilities(plain_mistake mistake, const sb_sampling *s, const float *logits,
                         uint32_t n, float *p)
{
    work w = {.mistake = mistake, .s = s, .logits = logits, .n = n};
    w.order = sb_alloc(n, sizeof *w.order);
    w.e = sb_alloc(n, sizeof *w.e);
    w.seen = sb_alloc(n, sizeof *w.seen);
    if (!w.order || !w.e || !w.seen)
        abort();
    find_order(&w);
    if (s->temperature == 0) {
        for (uint32_t i = 0; i < n; i++)
            p[i] = i == w.order[0] ? 1.0f : 0.0f;
    } else {
        find_exponentials(&w);
        apply_top_k(&w);
        if (mistake == PLAIN_min_p_first)
            apply_min_p(&w);
        apply_top_p(&w);
        apply_min_p(&w);
        write_probabilities(&w, p);
    }
    free(w.order);
    free(w.e);
    free(w.seen);
}

/* --- P-8 to P-13 ------------------------------------------------------------------------------ */

static uint32_t word_of(plain_mistake m, const sb_sampling *s, uint32_t token, uint64_t position,
                        sb_purpose purpose)
{
    uint64_t seed = s->seed, sequence = s->sequence;
    unsigned word = (unsigned)purpose;
    if (m == PLAIN_seed_low)
        seed &= 0xffffffffu;
    if (m == PLAIN_sequence_low)
        sequence &= 0xffffffffu;
    if (m == PLAIN_sequence_unused)
        sequence = 0;
    if (m == PLAIN_position_unused)
        position = 0;
    if (m == PLAIN_token_unused)
        token = 0;
    if (m == PLAIN_one_word)
        word = 0;
    if (m == PLAIN_next_word)
        word = (word + 1) % 4;
    const uint32_t counter[4] = {token, (uint32_t)position, (uint32_t)sequence,
                                 (uint32_t)(sequence >> 32)};
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    return sb_philox4x32_10(counter, key).word[word];
}

float plain_uniform(plain_mistake m, const sb_sampling *s, uint32_t token, uint64_t position,
                    sb_purpose purpose)
{
    uint32_t w = word_of(m, s, token, position, purpose);
    if (m == PLAIN_u_without_half)
        return fminf((float)((double)w * 0x1p-32), 1 - 0x1p-24f);
    if (m == PLAIN_u_short)
        return (float)(((double)(w >> 8) + 0.5) * 0x1p-24);
    float u = (float)(((double)w + 0.5) * 0x1p-32);
    return m == PLAIN_u_to_one ? u : fminf(u, 1 - 0x1p-24f);
}

float plain_gumbel(plain_mistake m, const sb_sampling *s, uint32_t token, uint64_t position,
                   sb_purpose purpose)
{
    float u = plain_uniform(m, s, token, position, purpose);
    return -sb_log(m == PLAIN_log_of_u ? -sb_log(u) : -sb_log1p(-u));
}

uint32_t plain_pick(plain_mistake m, const sb_sampling *s, const float *weights, uint32_t n,
                    uint64_t position, sb_purpose purpose)
{
    uint32_t best = n;
    float score = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (weights[i] <= 0)
            continue;
        float mine = sb_log(weights[i]) + plain_gumbel(m, s, i, position, purpose);
        if (best == n || mine > score || (m == PLAIN_last_of_equals && mine == score)) {
            best = i;
            score = mine;
        }
    }
    return best < n ? best : 0;
}

int plain_accepts(plain_mistake m, const sb_sampling *s, const float *p, const float *q,
                  uint32_t draft, uint64_t position)
{
    uint32_t token = m == PLAIN_accept_token_0 ? 0 : draft;
    float u = plain_uniform(m, s, token, position, SB_DRAW_accept), product = u * q[draft];
    double exact = (double)u * (double)q[draft];
    if (q[draft] == 0)
        return m == PLAIN_accept_impossible && p[draft] > 0;
    if (m == PLAIN_product_rounded)
        return product < p[draft];
    return exact < (double)p[draft] || (m == PLAIN_accept_equal && exact == (double)p[draft]);
}

uint32_t plain_residual(plain_mistake m, const sb_sampling *s, const float *p, const float *q,
                        uint32_t n, uint64_t position)
{
    float *rest = sb_alloc(n, sizeof *rest), largest = 0;
    if (!rest)
        abort();
    for (uint32_t i = 0; i < n; i++) {
        rest[i] = m == PLAIN_residual_absolute ? fabsf(p[i] - q[i]) : fmaxf(p[i] - q[i], 0);
        largest = fmaxf(largest, rest[i]);
    }
    int from_p = m == PLAIN_residual_of_p || (largest == 0 && m != PLAIN_residual_of_nothing);
    sb_purpose purpose = m == PLAIN_residual_word ? SB_DRAW_token : SB_DRAW_residual;
    uint32_t token = plain_pick(m, s, from_p ? p : rest, n, position, purpose);
    free(rest);
    return token;
}
