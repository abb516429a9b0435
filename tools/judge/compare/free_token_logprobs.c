/* free_token_logprobs.c - one row with recorded log-probabilities, all or some. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "tools/judge/compare/free_parts.h"
#include "tools/judge/compare/near_logprobs.h"
#include "tools/judge/bound/wide_fn.h"

/* The array of the row that is judged. */
typedef struct part {
    sb_near_ours ours;
    sb_near_row row;
    sb_near_errors errors;
    const sb_row_bound *bound;
    const char *name;
    int is_list; /* a list of the largest, in descending order */
} part;

static const struct {
    const char *ids, *values;
} forms[] = {{NULL, "logprobs"}, {"top_ids", "top_logprobs"}, {"next_ids", "next_logprobs"}};

enum { FORMS = sizeof forms / sizeof *forms, LIST = 1 };

/* --- recorded arrays -------------------------------------------------------------------------- */

static int part_of(const sb_free *f, size_t at, size_t form, part *out)
{
    size_t k = 0, limits = 0;
    const float *limit = sb_free_row_data(f->step, "logprob_limits", at, &limits);
    *out = (part){.name = forms[form].values, .is_list = form == LIST};
    out->row.values = sb_free_row_data(f->step, forms[form].values, at, &out->row.count);
    if (forms[form].ids)
        out->row.ids = sb_free_row_data(f->step, forms[form].ids, at, &k);
    out->row.step = limit && limits == 2 && limit[0] >= 0 ? (double)limit[0] : 0;
    out->row.floor = limit && limits == 2 ? (double)limit[1] : -INFINITY;
    if (!out->row.values || !out->row.count)
        return 0;
    return forms[form].ids ? out->row.ids && k == out->row.count
                           : out->row.count == f->model->config.vocab_size;
}

int sb_free_has_logprobs(const sb_free *f, size_t at)
{
    part unused;
    for (size_t i = 0; i < FORMS; i++)
        if (part_of(f, at, i, &unused))
            return 1;
    return 0;
}

/* --- checks ----------------------------------------------------------------------------------- */

/* A failure at value `at` of the row. `op` is "logits" if the noise of the model decided, which is
 * an estimate. */
static sb_place place_at(const part *p, size_t at, const char *op)
{
    sb_place place = {.layer = SB_NO_LAYER,
                      .rank = 1,
                      .element = {at},
                      .found = (double)p->row.values[at],
                      .bound = p->errors.at == at ? p->errors.allowed : p->bound->pair};
    size_t id = sb_near_id(&p->row, p->ours.V, at);
    snprintf(place.op, sizeof place.op, "%s", op);
    snprintf(place.name, sizeof place.name, "%s", p->name);
    if (id < p->ours.V)
        place.expected = (double)p->ours.logits[id] - p->ours.log_sum;
    return place;
}

/* The place of an id in a list of the largest; k if it is not listed. */
static size_t place_of(const sb_near_row *row, size_t id)
{
    size_t i = 0;
    while (i < row->count && row->ids[i] != (float)id)
        i++;
    return i;
}

/* T-63: "an id outside the vocabulary or an id twice, a value after a smaller one" */
static int say_no_list(const part *p, size_t i, char *words, size_t room)
{
    const sb_near_row *row = &p->row;
    size_t id = sb_near_id(row, p->ours.V, i);
    if (!sb_is_finite_f32(row->values[i]))
        return snprintf(words, room,
                        "%zu of %zu log-probabilities are NaN or infinite, the first of id %zu",
                        p->errors.not_finite, row->count, id);
    if (id == p->ours.V)
        return snprintf(words, room, "there is no id %g; the vocabulary has %zu",
                        (double)row->ids[i], p->ours.V);
    if (p->is_list && place_of(row, id) < i)
        return snprintf(words, room, "id %zu occurs twice in the list", id);
    if (p->is_list && i && row->values[i] > row->values[i - 1])
        return snprintf(words, room, "the list is not sorted: %.6g at place %zu follows %.6g",
                        (double)row->values[i], i, (double)row->values[i - 1]);
    return 0;
}

static int is_no_list(const part *p, sb_place *out)
{
    char words[sizeof out->words];
    for (size_t i = 0; i < p->row.count; i++)
        if (say_no_list(p, i, words, sizeof words)) {
            *out = place_at(p, i, "logprobs");
            memcpy(out->words, words, sizeof words);
            return 1;
        }
    return 0;
}

static int is_off(const part *p, sb_place *out)
{
    size_t at = p->errors.at, id = sb_near_id(&p->row, p->ours.V, at);
    if (p->errors.ratio <= 1)
        return 0;
    *out = place_at(p, at, "logits");
    snprintf(out->words, sizeof out->words,
             "the log-probability of id %zu is %s%.6g, expected %.6g; the error is %.3g, rounding "
             "explains %.3g",
             id, sb_near_at_floor(&p->row, at) ? "at most " : "", out->found, out->expected,
             p->errors.error, p->errors.allowed);
    return 1;
}

/* T-62: "The probabilities of a row sum to at most 1" */
static int sums_wrongly(const part *p, sb_place *out)
{
    sb_near_rest rest = sb_near_left(&p->ours, &p->row);
    double pair = p->bound->pair, least = rest.least > 0 ? rest.least : 0;
    *out = place_at(p, 0, "logprobs");
    if (rest.most < 0) {
        snprintf(out->words, sizeof out->words, "the probabilities sum to %.9g, which is above 1",
                 1 - rest.most);
        return 1;
    }
    if (!p->row.ids && least > 0) {
        snprintf(out->words, sizeof out->words,
                 "the probabilities sum to only %.9g: they are not a softmax", 1 - least);
        return 1;
    }
    if (!p->is_list)
        return 0;
    if (least > rest.ours * sb_wide_exp(pair) || rest.most < rest.ours * sb_wide_exp(-pair)) {
        *out = place_at(p, p->row.count - 1, "logits");
        snprintf(out->words, sizeof out->words,
                 "the list leaves a probability of %.6g to %.6g for all other ids, expected %.6g",
                 least, rest.most, rest.ours);
        return 1;
    }
    return 0;
}

/* T-63: "no id that is not listed may stand above the last" */
static int is_misplaced(const part *p, sb_place *out)
{
    const sb_near_row *row = &p->row;
    size_t last = row->count, first = sb_near_id(row, p->ours.V, 0);
    while (last > 1 && sb_near_at_floor(row, last - 1))
        last--;
    size_t least = sb_near_id(row, p->ours.V, last - 1);
    for (size_t id = 0; id < p->ours.V; id++) {
        double logit = (double)p->ours.logits[id], limit = p->bound->pair + 2 * row->step;
        int above_first = logit - (double)p->ours.logits[first] > limit;
        int above_last = logit - (double)p->ours.logits[least] > limit;
        size_t at = above_first ? 0 : last - 1;
        if (!above_first && (!above_last || place_of(row, id) < row->count))
            continue;
        *out = place_at(p, at, "logits");
        snprintf(out->words, sizeof out->words,
                 "id %zu with %.6g is listed at place %zu, but id %zu has %.6g",
                 above_first ? first : least, out->found, at, id, logit - p->ours.log_sum);
        return 1;
    }
    return 0;
}

static int is_wrong(const part *p, sb_place *out)
{
    return is_no_list(p, out) || is_off(p, out) || sums_wrongly(p, out) ||
           (p->is_list && is_misplaced(p, out));
}

/* --- the verdict of a row --------------------------------------------------------------------- */

/* The id of the engine's largest value. The rounding of the file may hide which of several close
 * values is the largest: returns the reference's id if it is one of them. */
static uint32_t top_of(const part *p, uint32_t ours)
{
    const sb_near_row *row = &p->row;
    size_t best = 0;
    for (size_t i = 1; i < row->count; i++)
        if (row->values[i] > row->values[best])
            best = i;
    for (size_t i = 0; i < row->count; i++)
        if (sb_near_id(row, p->ours.V, i) == ours &&
            (double)row->values[i] >= (double)row->values[best] - 2 * row->step)
            return ours;
    return (uint32_t)sb_near_id(row, p->ours.V, best);
}

/* T-45, T-64 */
static void measure_token(const part *p, sb_token_verdict *t)
{
    int whole = !p->row.ids && p->row.step == 0 && p->row.floor == -INFINITY;
    if (t->has_kl)
        return;
    t->has_kl = 1;
    t->kl_is_lower = !whole;
    t->kl = whole ? sb_near_kl(p->ours.logits, p->row.values, p->ours.V)
                  : sb_near_kl_least(&p->ours, &p->row);
}

static int is_constant(const sb_near_row *row)
{
    size_t same = 0;
    while (same < row->count && row->values[same] == row->values[0])
        same++;
    return !row->ids && row->count > 1 && same == row->count;
}

static void judge_token(sb_free *f, sb_free_sequence *s, sb_token_verdict *t, const part *p)
{
    sb_place place = {.layer = SB_NO_LAYER};
    int wrong = is_wrong(p, &place), decides = p->is_list || !p->row.ids;
    double ratio = wrong && p->errors.ratio <= 1 ? INFINITY : p->errors.ratio;
    t->worst_ratio = ratio > t->worst_ratio ? ratio : t->worst_ratio;
    f->compared++;
    f->constant += (size_t)is_constant(&p->row);
    if (s->trials)
        sb_trials_see_reference(s->trials, ratio);
    s->within_tight &=
        !wrong && sb_near_logprobs(&p->ours, &p->row, sb_near_pair(p->bound->tight)).ratio <= 1;
    if (decides && p->errors.ratio < INFINITY) {
        measure_token(p, t);
        f->choices += !t->has_top[1];
        t->top[1] = top_of(p, t->top[0]);
        t->has_top[1] = 1;
    }
    if (wrong)
        sb_free_fail_row(f, s, t, &place);
    else if (decides)
        sb_free_choice(f, t, SB_VERDICT_WITHIN);
    else
        t->verdict = sb_verdict_worse(t->verdict, SB_VERDICT_WITHIN);
}

void sb_free_logprobs(sb_free *f, sb_free_sequence *s, sb_token_verdict *t, size_t at,
                      const sb_row_bound *b)
{
    const size_t V = f->model->config.vocab_size;
    const sb_near_ours ours = {s->logits, V, sb_near_log_sum(s->logits, V)};
    for (size_t i = 0; i < FORMS; i++) {
        part p;
        if (!part_of(f, at, i, &p))
            continue;
        p.ours = ours;
        p.bound = b;
        p.errors = sb_near_logprobs(&ours, &p.row, b->pair);
        judge_token(f, s, t, &p);
    }
}
