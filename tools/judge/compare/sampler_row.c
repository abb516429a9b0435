#include "tools/judge/compare/sampler_row.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "tools/judge/compare/sampler_row_parts.h"
#include "tools/judge/bound/wide_fn.h"

/* T-95: "the roundings of penalties and temperature" - at most four, in binary32 */
#define ROUNDINGS 0x1p-22

sb_settings sb_settings_of(const sb_step_sampling *declared, const sb_sampler_order *order)
{
    sb_settings s = {.steps = order->steps,
                     .generated = order->generated,
                     .rounding = order->rounding,
                     .times = 1};
    for (unsigned i = 0; i < SB_SETTINGS; i++)
        s.value[i] = declared->has[i] ? declared->value[i] : sb_setting_at((sb_setting)i)->off;
    return s;
}

sb_status sb_sampler_row_new(size_t vocab, sb_sampler_row **out, sb_error *err)
{
    sb_sampler_row *r = sb_alloc(1, sizeof *r);
    if (r) {
        r->vocab = vocab;
        r->items = sb_alloc(vocab, sizeof *r->items);
        r->by_least = sb_alloc(vocab, sizeof *r->by_least);
        r->by_most = sb_alloc(vocab, sizeof *r->by_most);
        r->sums = sb_alloc(4 * (vocab + 1), sizeof *r->sums);
        r->all = sb_alloc(vocab, sizeof *r->all);
        r->generated = sb_alloc(vocab, sizeof *r->generated);
        r->support = sb_alloc(vocab, sizeof *r->support);
        r->order = sb_alloc(vocab, sizeof *r->order);
    }
    if (!r || !r->items || !r->by_least || !r->by_most || !r->sums || !r->all || !r->generated ||
        !r->support || !r->order) {
        sb_sampler_row_free(r);
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for the sampler of %zu tokens", vocab);
    }
    *out = r;
    return SB_OK;
}

void sb_sampler_row_free(sb_sampler_row *r)
{
    if (!r)
        return;
    free(r->items);
    free(r->by_least);
    free(r->by_most);
    free(r->sums);
    free(r->all);
    free(r->generated);
    free(r->support);
    free(r->order);
    free(r);
}

/* --- penalties -------------------------------------------------------------------------------- */

void sb_sampler_row_count(sb_sampler_row *r, const sb_token_counts *c, double window)
{
    memset(r->all, 0, r->vocab * sizeof *r->all);
    memset(r->generated, 0, r->vocab * sizeof *r->generated);
    size_t first = window > 0 && window < (double)c->count ? c->count - (size_t)window : 0;
    for (size_t i = first; i < c->count; i++) {
        r->all[c->tokens[i]]++;
        r->generated[c->tokens[i]] += i >= c->prompt;
    }
}

double sb_penalized(const sb_sampler_row *r, const sb_settings *s, uint32_t token, double logit)
{
    const double *value = s->value;
    const double repetition = value[SB_SETTING_repetition_penalty];
    const uint32_t all = r->all[token], counted = s->generated ? r->generated[token] : all;
    for (int i = 0; i < s->times; i++) {
        if (all)
            logit = logit > 0 ? logit / repetition : logit * repetition;
        if (counted)
            logit -= value[SB_SETTING_presence_penalty] +
                     (double)counted * value[SB_SETTING_frequency_penalty];
    }
    return logit;
}

/* --- intervals -------------------------------------------------------------------------------- */

static int compare_least(const void *a, const void *b)
{
    const sb_row_item *x = *(const sb_row_item *const *)a, *y = *(const sb_row_item *const *)b;
    return (x->least < y->least) - (x->least > y->least);
}

static int compare_most(const void *a, const void *b)
{
    const sb_row_item *x = *(const sb_row_item *const *)a, *y = *(const sb_row_item *const *)b;
    return (x->most < y->most) - (x->most > y->most);
}

/* The logarithm of the sum of e^logit. */
static double log_sum(const float *logits, size_t n, double largest)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += sb_wide_exp((double)logits[i] - largest);
    return largest + sb_wide_log(sum);
}

static int knows_penalties(const sb_step_sampling *d)
{
    return d->has[SB_SETTING_repetition_penalty] && d->has[SB_SETTING_presence_penalty] &&
           d->has[SB_SETTING_frequency_penalty];
}

/* T-95: "The logit of a token that occurred before may be any number if a penalty is not declared"
 */
static void fill(sb_sampler_row *r, const sb_step_sampling *declared, const sb_settings *s,
                 const float *logits, double pair)
{
    const int known = knows_penalties(declared);
    double largest = (double)logits[0];
    for (size_t i = 1; i < r->vocab; i++)
        largest = sb_wide_max(largest, (double)logits[i]);
    const double sum = s->rounding > 0 ? log_sum(logits, r->vocab, largest) : 0;
    for (size_t i = 0; i < r->vocab; i++) {
        const uint32_t token = (uint32_t)i;
        double logit = (double)logits[i], mid = sb_penalized(r, s, token, logit);
        double e = ROUNDINGS * (sb_wide_abs(logit) + sb_wide_abs(mid) + sb_wide_abs(largest)) +
                   s->rounding * sb_wide_abs(sum - logit);
        sb_row_item *item = &r->items[i];
        *item = (sb_row_item){.token = token, .support = SB_SUPPORT_in};
        item->least = sb_penalized(r, s, token, logit - pair / 2) - e;
        item->most = sb_penalized(r, s, token, logit + pair / 2) + e;
        if (!known && r->all[i]) {
            item->least = -INFINITY;
            item->most = INFINITY;
        }
        r->by_least[i] = r->by_most[i] = item;
    }
    qsort(r->by_least, r->vocab, sizeof *r->by_least, compare_least);
    qsort(r->by_most, r->vocab, sizeof *r->by_most, compare_most);
    r->largest = largest;
}

/* The number of tokens of by_least whose interval is above x. */
static size_t surely_above(const sb_sampler_row *r, double x)
{
    size_t low = 0, high = r->vocab;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (r->by_least[middle]->least > x)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The number of tokens of by_most whose interval reaches x. */
static size_t perhaps_above(const sb_sampler_row *r, double x)
{
    size_t low = 0, high = r->vocab;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (r->by_most[middle]->most >= x)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* --- sums over the beginnings of both orders -------------------------------------------------- */

enum { SURE_LEAST, SURE_MOST, PERHAPS_MOST, PERHAPS_LEAST };

static double *sums_of(const sb_sampler_row *r, unsigned which)
{
    return r->sums + which * (r->vocab + 1);
}

/* e^(x / temperature), relative to the largest logit. */
static double weight(const sb_sampler_row *r, double x, double temperature)
{
    return sb_wide_exp((x - r->largest) / temperature);
}

/* Element n of a sum is over the first n tokens: of by_least, over tokens that are surely kept; of
 * by_most, over tokens that are perhaps kept, and over those of them that are surely kept. */
static void add_up(sb_sampler_row *r, double temperature)
{
    double *sum[4];
    for (unsigned i = 0; i < 4; i++) {
        sum[i] = sums_of(r, i);
        sum[i][0] = 0;
    }
    for (size_t i = 0; i < r->vocab; i++) {
        r->items[i].light = weight(r, r->items[i].least, temperature);
        r->items[i].heavy = weight(r, r->items[i].most, temperature);
    }
    for (size_t i = 0; i < r->vocab; i++) {
        const sb_row_item *sure = r->by_least[i], *perhaps = r->by_most[i];
        const int in = sure->support == SB_SUPPORT_in;
        sum[SURE_LEAST][i + 1] = sum[SURE_LEAST][i] + (in ? sure->light : 0);
        sum[SURE_MOST][i + 1] = sum[SURE_MOST][i] + (in ? sure->heavy : 0);
        sum[PERHAPS_MOST][i + 1] = sum[PERHAPS_MOST][i] + (perhaps->support ? perhaps->heavy : 0);
        sum[PERHAPS_LEAST][i + 1] =
            sum[PERHAPS_LEAST][i] + (perhaps->support == SB_SUPPORT_in ? perhaps->light : 0);
    }
}

/* The least share of the tokens before the item, and the largest. NaN and infinity: not known. */
static sb_share shares_of(const sb_sampler_row *r, const sb_row_item *item)
{
    const size_t n = r->vocab, sure = surely_above(r, item->most),
                 perhaps = perhaps_above(r, item->least);
    const double mine_most = item->heavy, mine_least = item->light;
    const double above = sums_of(r, SURE_LEAST)[sure];
    const double below = sums_of(r, PERHAPS_MOST)[n] - sums_of(r, SURE_MOST)[sure];
    const double most = sums_of(r, PERHAPS_MOST)[perhaps] - (item->support ? mine_most : 0);
    const double mine = item->support == SB_SUPPORT_in ? mine_least : 0;
    const double rest = sums_of(r, PERHAPS_LEAST)[n] - sums_of(r, PERHAPS_LEAST)[perhaps] + mine;
    sb_share share = {.before_least = above > 0 ? above / (above + below) : 0,
                      .before_most = most > 0 ? most / (most + rest) : 0};
    /* with the token itself: its weight moves from the rest to the sum */
    share.with_least = (above + mine_least) / (above + mine_least + below - mine_most);
    share.with_most = (most + mine_most) / (most + mine_most + rest - mine);
    return share;
}

/* --- the steps -------------------------------------------------------------------------------- */

static void lower(sb_row_item *item, sb_support to)
{
    if (to < item->support)
        item->support = to;
}

/* A step whose setting is not known may cut any token but the largest. */
static void cut_unknown(sb_sampler_row *r)
{
    for (size_t i = 0; i < r->vocab; i++)
        if (perhaps_above(r, r->items[i].least) > 1)
            lower(&r->items[i], SB_SUPPORT_open);
}

static void cut_top_k(sb_sampler_row *r, double k)
{
    double *sure = sums_of(r, 0), *perhaps = sums_of(r, 1);
    sure[0] = perhaps[0] = 0;
    for (size_t i = 0; i < r->vocab; i++) {
        sure[i + 1] = sure[i] + (r->by_least[i]->support == SB_SUPPORT_in);
        perhaps[i + 1] = perhaps[i] + (r->by_most[i]->support != SB_SUPPORT_out);
    }
    for (size_t i = 0; i < r->vocab; i++) {
        sb_row_item *item = &r->items[i];
        if (sure[surely_above(r, item->most)] >= k)
            item->next = SB_SUPPORT_out;
        else if (perhaps[perhaps_above(r, item->least)] > k) /* counts the token itself */
            item->next = SB_SUPPORT_open;
        else
            item->next = SB_SUPPORT_in;
    }
    for (size_t i = 0; i < r->vocab; i++)
        lower(&r->items[i], r->items[i].next);
}

/* T-95: "a sum of V terms in binary32, in any order" */
static double slack_of(const sb_sampler_row *r)
{
    return (double)(r->vocab + 8) * 0x1p-24;
}

static void cut_top_p(sb_sampler_row *r, double p, double temperature)
{
    const double slack = slack_of(r);
    add_up(r, temperature);
    for (size_t i = 0; i < r->vocab; i++) {
        sb_row_item *item = &r->items[i];
        const sb_share share = shares_of(r, item);
        item->next = SB_SUPPORT_open;
        if (share.before_least >= p + slack)
            item->next = SB_SUPPORT_out;
        else if (share.before_most <= p - slack)
            item->next = SB_SUPPORT_in;
    }
    for (size_t i = 0; i < r->vocab; i++)
        lower(&r->items[i], r->items[i].next);
}

static void cut_min_p(sb_sampler_row *r, double min_p, double temperature)
{
    const double below = temperature * sb_wide_log(min_p),
                 slack = 0x1p-20 * (sb_wide_abs(below) + temperature + 1);
    const double least = r->by_least[0]->least, most = r->by_most[0]->most;
    for (size_t i = 0; i < r->vocab; i++) {
        sb_row_item *item = &r->items[i];
        if (item->most < least + below - slack)
            lower(item, SB_SUPPORT_out);
        else if (!(item->least >= most + below + slack))
            lower(item, SB_SUPPORT_open);
    }
}

static void take_steps(sb_sampler_row *r, const sb_step_sampling *d, const sb_settings *s)
{
    double temperature = 1;
    int knows = 1;
    for (const char *step = s->steps; *step; step++) {
        const sb_setting which = *step == 'T'   ? SB_SETTING_temperature
                                 : *step == 'K' ? SB_SETTING_top_k
                                 : *step == 'P' ? SB_SETTING_top_p
                                                : SB_SETTING_min_p;
        const double value = s->value[which];
        const int off = d->has[which] && value == sb_setting_at(which)->off;
        if (*step == 'T') {
            knows = d->has[which] && value > 0;
            temperature = knows ? value : 1;
        } else if (!d->has[which] || (!knows && *step != 'K' && !off)) {
            cut_unknown(r);
        } else if (!off && *step == 'K') {
            cut_top_k(r, value);
        } else if (!off && *step == 'P') {
            cut_top_p(r, value, temperature);
        } else if (!off) {
            cut_min_p(r, value, temperature);
        }
    }
    r->temperature = temperature;
    r->knows = knows;
}

void sb_sampler_row_judge(sb_sampler_row *r, const sb_step_sampling *d, const float *logits,
                          double pair, const sb_token_counts *counts)
{
    const int any = d->sampler == SB_SAMPLER_unknown;
    for (size_t i = 0; i < r->vocab; i++)
        r->support[i] = SB_SUPPORT_in;
    for (unsigned of = 1; of < SB_SAMPLERS; of++) {
        if (!any && of != (unsigned)d->sampler)
            continue;
        const sb_settings s = sb_settings_of(d, sb_sampler_order_of((sb_trace_sampler)of));
        sb_sampler_row_count(r, counts, s.value[SB_SETTING_penalty_window]);
        fill(r, d, &s, logits, pair);
        take_steps(r, d, &s);
        /* any of them may be the right one: out if out in all, in if in in all */
        for (size_t i = 0; i < r->vocab; i++) {
            const sb_support now = r->items[i].support;
            if (of == 1 || !any)
                r->support[i] = (unsigned char)now;
            else if (r->support[i] != now)
                r->support[i] = SB_SUPPORT_open;
        }
    }
    for (size_t i = 0; i < r->vocab; i++)
        r->items[i].support = (sb_support)r->support[i];
    r->knows &= !sb_sampling_is_open(d);
    add_up(r, r->temperature);
}

/* --- of the row that was judged --------------------------------------------------------------- */

sb_support sb_sampler_row_support(const sb_sampler_row *r, uint32_t token)
{
    return r->items[token].support;
}

double sb_sampler_row_most(const sb_sampler_row *r, uint32_t token)
{
    const sb_row_item *item = &r->items[token];
    if (!r->knows)
        return 1;
    if (item->support == SB_SUPPORT_out)
        return 0;
    double others = sums_of(r, SURE_LEAST)[r->vocab];
    if (item->support == SB_SUPPORT_in)
        others -= item->light;
    const double mine = item->heavy;
    const double most = mine / (mine + sb_wide_max(others, 0)) * (1 + slack_of(r));
    return most < 1 ? most : 1; /* NaN, too */
}

static size_t count_from(const sb_sampler_row *r, sb_support least)
{
    size_t n = 0;
    for (size_t i = 0; i < r->vocab; i++)
        n += r->items[i].support >= least;
    return n;
}

size_t sb_sampler_row_least_count(const sb_sampler_row *r)
{
    return count_from(r, SB_SUPPORT_in);
}

size_t sb_sampler_row_most_count(const sb_sampler_row *r)
{
    return count_from(r, SB_SUPPORT_open);
}

size_t sb_sampler_row_above(const sb_sampler_row *r, uint32_t token)
{
    return surely_above(r, r->items[token].most);
}

void sb_sampler_row_scaled(const sb_sampler_row *r, uint32_t token, double *least, double *most)
{
    *least = r->items[token].least / r->temperature;
    *most = r->items[token].most / r->temperature;
}

/* By ascending id: every token has its place. */
static sb_share share_by_id(const sb_sampler_row *r, uint32_t token)
{
    double least[2] = {0, 0}, most[2] = {0, 0}; /* before the token; after it */
    for (size_t i = 0; i < r->vocab; i++) {
        const sb_row_item *item = &r->items[i];
        if (i == token || !item->support)
            continue;
        if (item->support == SB_SUPPORT_in)
            least[i > token] += item->light;
        most[i > token] += item->heavy;
    }
    const double mine_least = r->items[token].light, mine_most = r->items[token].heavy;
    return (sb_share){.before_least = least[0] / (least[0] + mine_most + most[1]),
                      .before_most = most[0] / (most[0] + mine_least + least[1]),
                      .with_least = (least[0] + mine_least) / (least[0] + mine_least + most[1]),
                      .with_most = (most[0] + mine_most) / (most[0] + mine_most + least[1])};
}

sb_share sb_sampler_row_share(const sb_sampler_row *r, uint32_t token, int by_id)
{
    return by_id ? share_by_id(r, token) : shares_of(r, &r->items[token]);
}

/* --- without intervals ------------------------------------------------------------------------ */

static int compare_places(const void *a, const void *b)
{
    const sb_row_place *x = a, *y = b;
    if (x->logit != y->logit)
        return (x->logit < y->logit) - (x->logit > y->logit);
    return (x->token > y->token) - (x->token < y->token);
}

/* Sets the weights of all places. */
static void weigh(sb_sampler_row *r, double temperature)
{
    if (r->weighed == temperature)
        return;
    r->weighed = temperature;
    for (size_t i = 0; i < r->vocab; i++)
        r->order[i].weight = sb_wide_exp((r->order[i].logit - r->order[0].logit) / temperature);
}

/* The number of places that top_p keeps of the first n. */
static size_t keep_top_p(const sb_row_place *order, size_t n, const sb_settings *s)
{
    double sum = 0, total = 0;
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        total += order[i].weight;
    while (kept < n && (kept == 0 || sum < s->value[SB_SETTING_top_p] * total))
        sum += order[kept++].weight;
    if (s->more < 0 && kept > (size_t)-s->more)
        kept -= (size_t)-s->more;
    else if (s->more > 0)
        kept += (size_t)s->more;
    return kept < n ? kept : n;
}

static size_t keep_min_p(const sb_row_place *order, size_t n, const sb_settings *s)
{
    double total = 1;
    for (size_t i = 1; i < n && s->absolute; i++)
        total += order[i].weight;
    size_t kept = 1;
    while (kept < n && order[kept].weight >= s->value[SB_SETTING_min_p] * total)
        kept++;
    return kept;
}

void sb_sampler_row_order(sb_sampler_row *r, const sb_settings *s, const float *logits,
                          const sb_token_counts *counts)
{
    sb_sampler_row_count(r, counts, s->value[SB_SETTING_penalty_window]);
    for (uint32_t i = 0; i < r->vocab; i++)
        r->order[i] = (sb_row_place){.token = i, .logit = sb_penalized(r, s, i, (double)logits[i])};
    qsort(r->order, r->vocab, sizeof *r->order, compare_places);
    r->weighed = 0;
}

void sb_sampler_row_point(sb_sampler_row *r, const sb_settings *s, double *p)
{
    const double *value = s->value, hot = value[SB_SETTING_temperature];
    const sb_row_place *order = r->order;
    size_t n = r->vocab;
    double t = 1, total = 0;
    for (const char *step = s->steps; *step; step++) {
        if (*step == 'T') {
            t = hot;
        } else if (*step == 'K') {
            if (value[SB_SETTING_top_k] > 0 && value[SB_SETTING_top_k] < (double)n)
                n = (size_t)value[SB_SETTING_top_k];
        } else if (*step == 'P' && value[SB_SETTING_top_p] < 1) {
            weigh(r, t);
            n = keep_top_p(order, n, s);
        } else if (*step == 'M' && value[SB_SETTING_min_p] > 0) {
            weigh(r, t);
            n = keep_min_p(order, n, s);
        }
    }
    weigh(r, hot);
    for (size_t i = 0; i < r->vocab; i++)
        p[i] = 0;
    for (size_t i = 0; i < n; i++)
        total += order[i].weight;
    for (size_t i = 0; i < n; i++)
        p[order[i].token] = order[i].weight / total;
}

uint32_t sb_sampler_row_at(const sb_sampler_row *r, size_t place)
{
    return r->order[place].token;
}

size_t sb_sampler_row_place(const sb_sampler_row *r, uint32_t token)
{
    size_t place = 0;
    while (r->order[place].token != token)
        place++;
    return place;
}
