#include "tests/unit/draws_play.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/philox.h"
#include "ref/run/sample.h"
#include "tests/lib/suite.h"
#include "tools/judge/compare/draws_replay.h"

/* --- random numbers of the tests -------------------------------------------------------------- */

typedef struct numbers {
    uint64_t seed, next;
} numbers;

static double uniform(numbers *n)
{
    const uint32_t counter[4] = {(uint32_t)n->next, (uint32_t)(n->next >> 32), 7, 7};
    const uint32_t key[2] = {(uint32_t)n->seed, (uint32_t)(n->seed >> 32)};
    const sb_philox block = sb_philox4x32_10(counter, key);
    n->next++;
    return ((double)block.word[0] + (double)block.word[1] * 0x1p32 + 0.5) * 0x1p-64;
}

static double normal(numbers *n)
{
    return sqrt(-2 * log(uniform(n))) * cos(6.283185307179586 * uniform(n));
}

/* --- a sampler -------------------------------------------------------------------------------- */

typedef struct candidate {
    uint32_t id;
    float logit, p;
} candidate;

static int by_logit(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    if (x->logit != y->logit)
        return x->logit < y->logit ? 1 : -1;
    return x->id > y->id ? 1 : -1;
}

static void soften(candidate *c, size_t n, float hot)
{
    float sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += c[i].p = expf((c[i].logit - c[0].logit) / hot);
    for (size_t i = 0; i < n; i++)
        c[i].p /= sum;
}

typedef struct sequence {
    uint32_t tokens[32768];
    size_t count, prompt;
    numbers numbers;
    sb_mt19937 mt;
    sb_mt19937 start;
    uint64_t seed;
    uint32_t number;
} sequence;

static void penalize(const draws_engine *e, const sequence *s, candidate *c)
{
    const double *v = e->does.value;
    const int counts_all =
        e->does.sampler == SB_SAMPLER_llamacpp || e->does.sampler == SB_SAMPLER_mlx;
    size_t window = (size_t)v[SB_SETTING_penalty_window];
    size_t from = window && window < s->count ? s->count - window : 0;
    for (size_t i = 0; i < DRAWS_VOCAB; i++) {
        int all = 0, generated = 0;
        for (size_t k = from; k < s->count; k++)
            if (s->tokens[k] == i) {
                all++;
                generated += k >= s->prompt;
            }
        int counted = counts_all ? all : generated;
        for (int t = 0; t < e->penalized; t++) {
            const float r = (float)v[SB_SETTING_repetition_penalty];
            if (all)
                c[i].logit = c[i].logit > 0 ? c[i].logit / r : c[i].logit * r;
            if (counted)
                c[i].logit -= (float)v[SB_SETTING_presence_penalty] +
                              (float)counted * (float)v[SB_SETTING_frequency_penalty];
        }
    }
}

/* Sorts the candidates and cuts them; returns how many are left, with their probabilities. */
static size_t cut(const draws_engine *e, candidate *c)
{
    const double *v = e->does.value;
    const float hot = (float)v[SB_SETTING_temperature];
    size_t n = DRAWS_VOCAB;
    float now = 1;
    qsort(c, n, sizeof *c, by_logit);
    for (const char *step = sb_sampler_order_of(e->does.sampler)->steps; *step; step++) {
        soften(c, n, now);
        if (*step == 'T') {
            now = hot;
        } else if (*step == 'K' && v[SB_SETTING_top_k] > 0 && v[SB_SETTING_top_k] < (double)n) {
            n = (size_t)v[SB_SETTING_top_k];
        } else if (*step == 'P' && v[SB_SETTING_top_p] < 1) {
            float sum = 0;
            size_t kept = 0;
            while (kept < n && sum < (float)v[SB_SETTING_top_p])
                sum += c[kept++].p;
            if (e->dropped > 0)
                kept = kept > (size_t)e->dropped ? kept - (size_t)e->dropped : 1;
            else
                kept += (size_t)-e->dropped;
            n = kept < n ? kept : n;
        } else if (*step == 'M' && v[SB_SETTING_min_p] > 0) {
            const float least = c[0].p * (float)v[SB_SETTING_min_p];
            size_t kept = 1;
            while (kept < n && c[kept].p >= least)
                kept++;
            n = kept;
        }
    }
    soften(c, n, hot);
    return n;
}

static uint32_t inverse(const candidate *c, size_t n, double u)
{
    double sum = 0, total = 0;
    for (size_t i = 0; i < n; i++)
        total += (double)c[i].p;
    for (size_t i = 0; i < n; i++) {
        sum += (double)c[i].p;
        if (sum >= u * total)
            return c[i].id;
    }
    return c[n - 1].id;
}

static int by_id(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    return x->id > y->id ? 1 : -1;
}

static uint32_t by_noise(const draws_engine *e, sequence *s, const candidate *c, size_t n)
{
    const uint32_t number =
        e->does.generator == SB_GENERATOR_torch_cpu ? sb_mt19937_torch_seed(&s->mt) : 0;
    const sb_sampling sampling = {.seed = s->seed, .sequence = s->number};
    size_t best = 0;
    double most = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        const double g =
            e->does.generator == SB_GENERATOR_torch_cpu
                ? sb_torch_noise(number, c[i].id)
                : (double)sb_sample_gumbel(&sampling, c[i].id, s->count, SB_DRAW_token);
        if (log((double)c[i].p) + g > most) {
            most = log((double)c[i].p) + g;
            best = i;
        }
    }
    return c[best].id;
}

static uint32_t draw(const draws_engine *e, sequence *s, const float *logits, float *u)
{
    candidate c[DRAWS_VOCAB];
    for (uint32_t i = 0; i < DRAWS_VOCAB; i++)
        c[i] = (candidate){i, logits[i], 0};
    penalize(e, s, c);
    const size_t n = cut(e, c);
    if (e->stuck) {
        s->numbers.next = 0;
        s->mt = s->start;
    }
    *u = (float)uniform(&s->numbers);
    if (e->does.generator == SB_GENERATOR_torch_cpu || e->does.generator == SB_GENERATOR_philox)
        return by_noise(e, s, c, n);
    if (e->does.generator == SB_GENERATOR_inverse_ids)
        qsort(c, n, sizeof *c, by_id);
    if (e->does.generator != SB_GENERATOR_mt19937)
        return inverse(c, n, (double)*u);
    if (!(e->does.value[SB_SETTING_top_k] > 0) && e->does.value[SB_SETTING_top_p] >= 1)
        qsort(c, n, sizeof *c, by_id);
    return inverse(c, n, sb_mt19937_uniform(&s->mt));
}

/* --- the play --------------------------------------------------------------------------------- */

static void begin(const draws_play *play, sb_draws *d, sequence *s, uint32_t i)
{
    sb_step_sampling declared = play->declared;
    declared.sequence = i;
    declared.seed += i;
    assert_int_equal(sb_draws_declare(d, &declared, NULL), SB_OK);
    const uint32_t of = play->engine.seed_of_first ? 0 : i;
    s->number = of;
    s->seed = play->declared.seed + of;
    s->numbers = (numbers){play->seed ^ (0x1000u + of), 0};
    sb_mt19937_seed(&s->start, (uint32_t)s->seed);
    s->mt = s->start;
    for (uint32_t k = 0; k < 8; k++) {
        s->tokens[s->count] = (k * 5) % DRAWS_VOCAB;
        assert_int_equal(sb_draws_feed(d, i, s->count, s->tokens[s->count], 1, NULL), SB_OK);
        s->count++;
    }
    s->prompt = s->count;
}

static void make_logits(const draws_play *play, numbers *n, float *logits)
{
    for (size_t i = 0; i < DRAWS_VOCAB; i++) {
        logits[i] = (float)(play->spread * normal(n));
        if (play->ties)
            logits[i] = floorf(2 * logits[i]) / 2;
    }
}

static void one(const draws_play *play, sb_draws *d, sequence *s, uint32_t i, numbers *of_logits,
                numbers *of_noise)
{
    float logits[DRAWS_VOCAB], seen[DRAWS_VOCAB], u;
    sb_verdict verdict;
    make_logits(play, of_logits, logits);
    for (size_t k = 0; k < DRAWS_VOCAB; k++)
        seen[k] = logits[k] + (float)(play->noise * (uniform(of_noise) - 0.5));
    const uint32_t token = draw(&play->engine, s, logits, &u);
    const sb_draw_row row = {
        .position = s->count - 1, .logits = seen, .pair = 2 * play->noise, .uniform = &u};
    assert_int_equal(sb_draws_row(d, i, &row, NULL), SB_OK);
    assert_int_equal(sb_draws_token(d, i, token, &verdict, NULL), SB_OK);
    assert_int_not_equal(verdict, SB_VERDICT_none);
    assert_int_equal(sb_draws_feed(d, i, s->count, token, 0, NULL), SB_OK);
    s->tokens[s->count++] = token;
}

void draws_run(const draws_play *play, sb_sampler_verdict *out)
{
    sb_draws *d = NULL;
    sequence *s = calloc(play->sequences, sizeof *s);
    numbers of_logits = {play->seed, 0}, of_noise = {play->seed ^ 0x77, 0};
    assert_non_null(s);
    assert_int_equal(sb_draws_new(DRAWS_VOCAB, &d, NULL), SB_OK);
    for (uint32_t i = 0; i < play->sequences; i++)
        begin(play, d, &s[i], i);
    for (size_t t = 0; t < play->tokens; t++)
        for (uint32_t i = 0; i < play->sequences; i++) {
            if (play->same_rows)
                of_logits.next = t * 1024;
            one(play, d, &s[i], i, &of_logits, &of_noise);
        }
    sb_draws_finish(d, out);
    sb_draws_free(d);
    free(s);
}
