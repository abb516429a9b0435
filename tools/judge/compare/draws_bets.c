/* draws_bets.c - how often tokens come, and whether sequences are independent: products of bets
 * whose expectation is at most 1 if the sampler is right (T-96). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tools/judge/bound/wide_fn.h"
#include "tools/judge/compare/bets.h"
#include "tools/judge/compare/draws_parts.h"

/* T-96: "the odds are 2 * 10^6 to 1" - for each of the two families of tests */
#define LOG_ODDS 14.508657738524219

static const struct {
    const char *words;
} suspects[SB_SUSPECTS] = {
#define SB_SUSPECT(name, words_, change) {words_},
#include "tools/judge/compare/suspects.def"
#undef SB_SUSPECT
};

const char *sb_suspect_words(size_t suspect)
{
    return suspects[suspect].words;
}

static void change_settings(size_t suspect, sb_settings *s)
{
    switch (suspect) {
#define SB_SUSPECT(name, words, change)                                                            \
    case SB_SUSPECT_##name:                                                                        \
        change;                                                                                    \
        break;
#include "tools/judge/compare/suspects.def"
#undef SB_SUSPECT
    default:
        break;
    }
}

/* T-96: "gets the share 1 / ((n + 1) (n + 2)) of the chance" */
static double threshold(size_t number, size_t tests)
{
    const double n = (double)number;
    return LOG_ODDS + sb_wide_log((n + 1) * (n + 2) * (double)tests);
}

/* --- frequencies ------------------------------------------------------------------------------ */

/* The bin of a token: how much less probable it is than the most probable one, in powers of 2. */
static size_t bin_of(double p, double most)
{
    size_t bin = 0;
    while (bin + 1 < SB_BINS && p < most * 0.5) {
        p *= 2;
        bin++;
    }
    return bin;
}

/* The bins as the row expects them. */
static void expect(const sb_draws *d, double most, double expected[SB_BINS])
{
    memset(expected, 0, SB_BINS * sizeof *expected);
    for (size_t i = 0; i < d->vocab; i++)
        if (d->p[i] > 0)
            expected[bin_of(d->p[i], most)] += d->p[i];
}

/* The bet that bins come as they have come so far. */
static double learned(sb_draw_bets *b, const double expected[SB_BINS], size_t bin, double p)
{
    double tilt[SB_BINS], sum = 0;
    for (size_t i = 0; i < SB_BINS; i++) {
        tilt[i] = (b->seen[i] + 4) / (b->expected[i] + 4);
        sum += tilt[i] * expected[i];
    }
    for (size_t i = 0; i < SB_BINS; i++)
        b->expected[i] += expected[i];
    b->seen[bin] += 1;
    return p * tilt[bin] / sum;
}

static void reject(sb_draws *d, const sb_drawn *s, size_t test, const sb_draw_bets *b, double log)
{
    char like[SB_WORDS] = "";
    if (d->odd)
        return;
    d->odd = 1;
    if (test < SB_SUSPECTS)
        snprintf(like, sizeof like, " than if %s", suspects[test].words);
    sb_draws_fail(d, s,
                  "tokens do not come as often as the declared sampler draws them: %zu draws are "
                  "10^%.1f times less probable%s",
                  b->draws, log / 2.302585092994046, like);
}

static void raise(sb_draws *d, const sb_drawn *s, sb_draw_bets *b, size_t number, size_t test,
                  double log_ratio)
{
    b->log[test] += log_ratio;
    if (b->log[test] > threshold(number, SB_TESTS))
        reject(d, s, test, b, b->log[test]);
}

static double log_of(double x)
{
    return x > 0 ? sb_wide_log(x) : -INFINITY;
}

/* What a bet on q wins on average, if q is right. */
static double gain_of(const sb_draws *d)
{
    double gain = 0;
    for (size_t i = 0; i < d->vocab; i++)
        if (d->q[i] > 0)
            gain += d->q[i] * (d->p[i] > 0 ? sb_wide_log(d->q[i] / d->p[i]) : 40);
    return gain;
}

static void note_fit(sb_draws *d, size_t test, double p)
{
    d->dead[test] |= !(p > 0);
    d->fits[test] += p > 0 ? sb_wide_log(p) : 0;
}

/* True if both settings penalize alike. */
static int same_penalties(const sb_settings *a, const sb_settings *b)
{
    for (unsigned i = SB_SETTING_repetition_penalty; i < SB_SETTINGS; i++)
        if (a->value[i] != b->value[i])
            return 0;
    return a->times == b->times && a->generated == b->generated;
}

static int has_penalties(const sb_settings *s)
{
    return s->value[SB_SETTING_repetition_penalty] != 1 ||
           s->value[SB_SETTING_presence_penalty] != 0 ||
           s->value[SB_SETTING_frequency_penalty] != 0;
}

/* True if a sampler with these settings draws as the declared one, whatever the logits are. */
static int draws_alike(const sb_settings *a, const sb_settings *declared)
{
    const double *value = declared->value;
    const int top_p = value[SB_SETTING_top_p]<1, min_p = value[SB_SETTING_min_p]> 0;
    for (unsigned i = 0; i < SB_SETTING_repetition_penalty; i++)
        if (a->value[i] != value[i])
            return 0;
    /* without top_p and min_p, the order of the steps does not matter */
    return (!has_penalties(declared) || same_penalties(a, declared)) && (!top_p || !a->more) &&
           (!min_p || !a->absolute) &&
           ((!top_p && !min_p) || strcmp(a->steps, declared->steps) == 0);
}

static void bet_on_suspects(sb_draws *d, sb_drawn *s, const sb_settings *declared,
                            const sb_token_counts *counts, uint32_t token, double most)
{
    enum { EVERY = 16 }; /* the gain is estimated from one draw in 16 */
    sb_draw_bets *b = s->alone ? &s->bets : &d->together;
    const size_t number = s->alone ? 1 + (size_t)(s - d->items) : 0;
    sb_settings sorted = *declared;
    for (size_t i = 0; i < SB_SUSPECTS; i++) {
        sb_settings changed = *declared;
        change_settings(i, &changed);
        if (draws_alike(&changed, declared)) {
            note_fit(d, i, d->p[token]);
            continue;
        }
        if (!same_penalties(&changed, &sorted))
            sb_sampler_row_order(d->row, &changed, s->logits, counts);
        sorted = changed;
        sb_sampler_row_point(d->row, &changed, d->q);
        note_fit(d, i, d->q[token]);
        if (!s->alone && b->draws % EVERY == 0)
            d->gain[i] += (double)EVERY * gain_of(d);
        if (most > 0)
            raise(d, s, b, number, i, log_of(d->q[token]) - log_of(most));
    }
    if (!same_penalties(declared, &sorted))
        sb_sampler_row_order(d->row, declared, s->logits, counts);
}

/* --- independence ----------------------------------------------------------------------------- */

static int are_independent(const sb_step_sampling *a, const sb_step_sampling *b)
{
    if (a->seed_kind == SB_SEED_unknown || b->seed_kind == SB_SEED_unknown)
        return 0;
    if (a->generator == SB_GENERATOR_philox && b->generator == a->generator &&
        a->sequence != b->sequence)
        return 1;
    return !(a->seed_kind == SB_SEED_number && b->seed_kind == SB_SEED_number &&
             a->seed == b->seed);
}

static void reject_pair(sb_draws *d, const sb_drawn *s, const sb_drawn *other, double log)
{
    if (d->odd)
        return;
    d->odd = s == other ? 3 : 2;
    if (s == other)
        sb_draws_fail(
            d, s,
            "each draw resembles the one before it; the chance of that is 10^-%.1f: as if "
            "every token got the same random number",
            log / 2.302585092994046);
    else
        sb_draws_fail(d, s,
                      "the draws resemble those of sequence %u, whose seed is another; the chance "
                      "of that is 10^-%.1f: as if both had one seed",
                      (unsigned)other->sampling.sequence, log / 2.302585092994046);
}

/* Bets that token and place are those of the other sequence's draw. The order of the declared
 * sampler's row stands in d->row. */
static void bet_on_pair(sb_draws *d, const sb_drawn *s, const sb_drawn *other, size_t draw,
                        uint32_t token, size_t place)
{
    const size_t a = (size_t)(s - d->items), b = (size_t)(other - d->items);
    double *logs = a < b ? d->pairs[a][b] : d->pairs[b][a];
    const uint32_t id = other->ids[draw], at = sb_sampler_row_at(d->row, other->places[draw]);
    const double chance[2] = {sb_sampler_row_most(d->row, id), sb_sampler_row_most(d->row, at)};
    const int happened[2] = {id == token, other->places[draw] == place};
    const size_t high = a < b ? b : a, low = a < b ? a : b;
    for (int i = 0; i < 2; i++) {
        if (!(chance[i] > 0) || chance[i] >= 1)
            continue;
        const double log = sb_bet_on_event(logs + 2 * i, happened[i], chance[i]);
        if (log > threshold(high * (high + 1) / 2 + low, 4))
            reject_pair(d, s, other, log);
    }
}

static void bet_on_pairs(sb_draws *d, const sb_drawn *s, uint32_t token)
{
    const size_t place = sb_sampler_row_place(d->row, token);
    if (s - d->items >= SB_PAIRED)
        return;
    for (size_t i = 0; i < d->count && i < SB_PAIRED; i++) {
        const sb_drawn *other = &d->items[i];
        if (other == s) {
            if (s->draws)
                bet_on_pair(d, s, s, s->draws - 1, token, place);
        } else if (s->draws < other->draws && are_independent(&s->sampling, &other->sampling)) {
            bet_on_pair(d, s, other, s->draws, token, place);
        }
    }
}

/* --- the draw --------------------------------------------------------------------------------- */

void sb_draws_bet(sb_draws *d, sb_drawn *s, const sb_token_counts *counts, uint32_t token)
{
    const sb_sampler_order *order = sb_sampler_order_of(s->sampling.sampler);
    const sb_settings declared =
        sb_settings_of(&s->sampling, order ? order : sb_sampler_order_of(SB_SAMPLER_samebit));
    sb_draw_bets *b = s->alone ? &s->bets : &d->together;
    const double most = sb_sampler_row_most(d->row, token);
    const int open = sb_sampling_is_open(&s->sampling);
    double expected[SB_BINS], largest = 0;
    sb_sampler_row_order(d->row, &declared, s->logits, counts);
    if (open)
        return;
    sb_sampler_row_point(d->row, &declared, d->p);
    bet_on_suspects(d, s, &declared, counts, token, most);
    d->v.tested++;
    b->draws++;
    note_fit(d, SB_LEARNED, d->p[token]);
    for (size_t i = 0; i < d->vocab; i++)
        largest = d->p[i] > largest ? d->p[i] : largest;
    expect(d, largest, expected);
    if (d->p[token] > 0 && most > 0)
        raise(d, s, b, s->alone ? 1 + (size_t)(s - d->items) : 0, SB_LEARNED,
              log_of(learned(b, expected, bin_of(d->p[token], largest), d->p[token])) -
                  log_of(most));
    bet_on_pairs(d, s, token);
}

/* --- words ------------------------------------------------------------------------------------ */

static void list_weak(const sb_draws *d, char *out, size_t room)
{
    *out = '\0';
    for (size_t i = 0; i < SB_SUSPECTS; i++) {
        const size_t used = strlen(out);
        if (d->gain[i] > 1e-3 && d->gain[i] < threshold(0, SB_TESTS))
            snprintf(out + used, room - used, "%s%s", used ? "; " : "", suspects[i].words);
    }
}

/* T-96: "named if it fits 1000 times better than every other one, and than the declared sampler" */
void sb_draws_name(sb_draws *d, char *out, size_t room)
{
    size_t best = SB_TESTS;
    int close = 0;
    *out = '\0';
    list_weak(d, d->v.weak, sizeof d->v.weak);
    if (d->odd > 1 || !(d->odd || d->v.outside))
        return;
    for (size_t i = 0; i < SB_TESTS; i++)
        if (!d->dead[i] && (best == SB_TESTS || d->fits[i] > d->fits[best]))
            best = i;
    for (size_t i = 0; i < SB_TESTS && best < SB_SUSPECTS; i++)
        close |= !d->dead[i] && d->fits[i] != d->fits[best] && /* equal: the same distribution */
                 d->fits[i] > d->fits[best] - 6.907755278982137;
    if (best < SB_SUSPECTS && !close)
        snprintf(out, room, "; it draws as if %s", suspects[best].words);
}
