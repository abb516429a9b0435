#include "tools/judge/fault/drawer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/philox.h"
#include "ref/math/fn.h"
#include "ref/run/sample.h"
#include "tools/judge/bound/wide_fn.h"
#include "tools/judge/compare/draws_replay.h"

typedef struct candidate {
    uint32_t id;
    float logit, p;
} candidate;

struct sb_plain_drawer {
    sb_drawing how;
    size_t vocab;
    uint32_t *tokens, number;
    size_t count, room, prompt, draws;
    uint64_t seed, key, next; /* key and next: of the unpublished random numbers */
    sb_mt19937 mt, start;
    candidate *all; /* (V) */
};

sb_status sb_plain_drawer_new(const sb_drawing *how, size_t vocab, uint32_t sequence, uint64_t salt,
                              sb_plain_drawer **out, sb_error *err)
{
    const uint32_t of = how->seed_of_first ? 0 : sequence;
    sb_plain_drawer *d = *out = sb_alloc(1, sizeof *d);
    if (d)
        *d = (sb_plain_drawer){.how = *how,
                               .vocab = vocab,
                               .number = of,
                               .seed = how->does.seed + of,
                               .key = salt ^ (0x1000u + of),
                               .all = sb_alloc(vocab, sizeof(candidate))};
    if (!d || !d->all)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a sampler");
    sb_mt19937_seed(&d->start, (uint32_t)d->seed);
    d->mt = d->start;
    return SB_OK;
}

void sb_plain_drawer_free(sb_plain_drawer *d)
{
    if (!d)
        return;
    free(d->tokens);
    free(d->all);
    free(d);
}

sb_status sb_plain_drawer_feed(sb_plain_drawer *d, uint32_t token, int given, sb_error *err)
{
    uint32_t *more = sb_grow(d->tokens, d->count, &d->room, sizeof *more);
    if (!more)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a sampler");
    d->tokens = more;
    d->tokens[d->count++] = token;
    d->prompt += (size_t)(given != 0);
    return SB_OK;
}

static double uniform(sb_plain_drawer *d)
{
    const uint32_t counter[4] = {(uint32_t)d->next, (uint32_t)(d->next >> 32), 7, 7};
    const uint32_t key[2] = {(uint32_t)d->key, (uint32_t)(d->key >> 32)};
    const sb_philox block = sb_philox4x32_10(counter, key);
    d->next++;
    return ((double)block.word[0] + (double)block.word[1] * 0x1p32 + 0.5) * 0x1p-64;
}

static int by_logit(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    if (x->logit != y->logit)
        return x->logit < y->logit ? 1 : -1;
    return x->id > y->id ? 1 : -1;
}

static int by_id(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    return x->id > y->id ? 1 : -1;
}

static void soften(candidate *c, size_t n, float hot)
{
    float sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += c[i].p = sb_exp((c[i].logit - c[0].logit) / hot);
    for (size_t i = 0; i < n; i++)
        c[i].p /= sum;
}

/* How often a token occurs among those that penalties see: of all, or of the generated ones. */
static int occurs(const sb_plain_drawer *d, uint32_t id, int generated)
{
    const size_t window = (size_t)d->how.does.value[SB_SETTING_penalty_window];
    int found = 0;
    for (size_t k = window && window < d->count ? d->count - window : 0; k < d->count; k++)
        found += d->tokens[k] == id && (k >= d->prompt || !generated);
    return found;
}

static void penalize(const sb_plain_drawer *d, candidate *c)
{
    const double *v = d->how.does.value;
    const float r = (float)v[SB_SETTING_repetition_penalty];
    const int generated = sb_sampler_order_of(d->how.does.sampler)->generated;
    if (r == 1 && v[SB_SETTING_presence_penalty] == 0 && v[SB_SETTING_frequency_penalty] == 0)
        return;
    for (uint32_t i = 0; i < d->vocab; i++) {
        const int all = occurs(d, i, d->how.answer_only);
        const int counted = occurs(d, i, generated || d->how.answer_only);
        for (int t = 0; t < d->how.penalized; t++) {
            if (all)
                c[i].logit = c[i].logit > 0 ? c[i].logit / r : c[i].logit * r;
            if (counted)
                c[i].logit -= (float)v[SB_SETTING_presence_penalty] +
                              (float)counted * (float)v[SB_SETTING_frequency_penalty];
        }
    }
}

/* The number of tokens that top_p keeps of the first n. */
static size_t top_p(const sb_plain_drawer *d, const candidate *c, size_t n)
{
    float sum = 0;
    size_t kept = 0;
    while (kept < n && sum < (float)d->how.does.value[SB_SETTING_top_p])
        sum += c[kept++].p;
    if (d->how.dropped > 0)
        kept = kept > (size_t)d->how.dropped ? kept - (size_t)d->how.dropped : 1;
    else
        kept += (size_t)-d->how.dropped;
    return kept < n ? kept : n;
}

static size_t min_p(const sb_plain_drawer *d, const candidate *c, size_t n)
{
    const float least = (d->how.absolute ? 1 : c[0].p) * (float)d->how.does.value[SB_SETTING_min_p];
    size_t kept = 1;
    while (kept < n && c[kept].p >= least)
        kept++;
    return kept;
}

/* Sorts the candidates and cuts them; returns how many are left, with their probabilities. */
static size_t cut(const sb_plain_drawer *d, candidate *c)
{
    const double *v = d->how.does.value;
    const float hot = (float)v[SB_SETTING_temperature];
    size_t n = d->vocab;
    float now = 1;
    qsort(c, n, sizeof *c, by_logit);
    for (const char *step = sb_sampler_order_of(d->how.does.sampler)->steps; *step; step++) {
        soften(c, n, now);
        if (*step == 'T')
            now = hot;
        else if (*step == 'K' && v[SB_SETTING_top_k] > 0 && v[SB_SETTING_top_k] < (double)n)
            n = (size_t)v[SB_SETTING_top_k];
        else if (*step == 'P' && v[SB_SETTING_top_p] < 1)
            n = top_p(d, c, n);
        else if (*step == 'M' && v[SB_SETTING_min_p] > 0)
            n = min_p(d, c, n);
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

static uint32_t by_noise(sb_plain_drawer *d, const candidate *c, size_t n)
{
    const int torch = d->how.does.generator == SB_GENERATOR_torch_cpu;
    const uint32_t number = torch ? sb_mt19937_torch_seed(&d->mt) : 0;
    const sb_sampling sampling = {.seed = d->seed, .sequence = d->number};
    size_t best = 0;
    double most = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        const double g =
            torch ? sb_torch_noise(number, c[i].id)
                  : (double)sb_sample_gumbel(&sampling, c[i].id, d->count, SB_DRAW_token);
        const double at = c[i].p > 0 ? sb_wide_log((double)c[i].p) + g : -INFINITY;
        if (at > most) {
            most = at;
            best = i;
        }
    }
    return c[best].id;
}

uint32_t sb_plain_drawer_draw(sb_plain_drawer *d, const float *logits, float *u)
{
    enum { ONE_OUTSIDE_IN = 16 };
    candidate *c = d->all;
    const sb_trace_generator generator = d->how.does.generator;
    for (uint32_t i = 0; i < d->vocab; i++)
        c[i] = (candidate){i, logits[i], 0};
    penalize(d, c);
    const size_t n = cut(d, c);
    if (d->how.stuck) {
        d->next = 0;
        d->mt = d->start;
    }
    *u = (float)uniform(d);
    if (d->how.biased)
        *u *= 0.75f;
    if (d->how.outside && ++d->draws % ONE_OUTSIDE_IN == 0)
        return c[n < d->vocab ? n : n - 1].id;
    if (generator == SB_GENERATOR_torch_cpu || generator == SB_GENERATOR_philox)
        return by_noise(d, c, n);
    if (generator == SB_GENERATOR_inverse_ids)
        qsort(c, n, sizeof *c, by_id);
    if (generator != SB_GENERATOR_mt19937)
        return inverse(c, n, (double)*u);
    if (!(d->how.does.value[SB_SETTING_top_k] > 0) && d->how.does.value[SB_SETTING_top_p] >= 1)
        qsort(c, n, sizeof *c, by_id);
    return inverse(c, n, sb_mt19937_uniform(&d->mt));
}

/* --- the list --------------------------------------------------------------------------------- */

const sb_draw_fault sb_draw_faults[] = {
#define SB_DRAW(name, declares, does, words) {#name, words, 0},
#define SB_DRAW_SOUND(name, declares, does, words) {#name, words, 1},
#include "tools/judge/fault/lists/draws.def"
#undef SB_DRAW
#undef SB_DRAW_SOUND
    {NULL, NULL, 0}};

const sb_draw_fault *sb_draw_fault_find(const char *name)
{
    for (const sb_draw_fault *f = sb_draw_faults; f->name; f++)
        if (strcmp(f->name, name) == 0)
            return f;
    return NULL;
}

enum {
#define SB_DRAW(name, declares, does, words) DRAW_##name,
#define SB_DRAW_SOUND SB_DRAW
#include "tools/judge/fault/lists/draws.def"
#undef SB_DRAW
#undef SB_DRAW_SOUND
    DRAWS
};

static void declare(size_t row, sb_step_sampling *s)
{
    switch (row) {
#define SB_DRAW(name, declares, does, words)                                                       \
    case DRAW_##name:                                                                              \
        declares;                                                                                  \
        break;
#define SB_DRAW_SOUND SB_DRAW
#include "tools/judge/fault/lists/draws.def"
#undef SB_DRAW
#undef SB_DRAW_SOUND
    default:
        break;
    }
}

static void change(size_t row, sb_drawing *how)
{
    switch (row) {
#define SB_DRAW(name, declares, does, words)                                                       \
    case DRAW_##name:                                                                              \
        does;                                                                                      \
        break;
#define SB_DRAW_SOUND SB_DRAW
#include "tools/judge/fault/lists/draws.def"
#undef SB_DRAW
#undef SB_DRAW_SOUND
    default:
        break;
    }
}

void sb_draw_fault_set(const sb_draw_fault *fault, sb_step_sampling *declared, sb_drawing *how)
{
    *declared =
        (sb_step_sampling){.sampler = SB_SAMPLER_samebit, .seed_kind = SB_SEED_number, .seed = 42};
    for (unsigned i = 0; i < SB_SETTINGS; i++) {
        declared->has[i] = 1;
        declared->value[i] = sb_setting_at((sb_setting)i)->off;
    }
    declare((size_t)(fault - sb_draw_faults), declared);
    *how = (sb_drawing){.does = *declared, .penalized = 1};
    change((size_t)(fault - sb_draw_faults), how);
}
