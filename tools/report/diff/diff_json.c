/* diff_json.c - the report as one document: docs/diff.md lists its keys. */
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/run/backend.h"
#include "ref/container/show.h"
#include "tools/report/diff/diff.h"
#include "tools/report/diff/statistics.h"

/* Adds a member; sets *failed if the value could not be made. */
static void put(json_t *object, const char *key, json_t *value, int *failed)
{
    *failed |= !value || json_object_set_new(object, key, value) != 0;
}

static void append(json_t *array, json_t *value, int *failed)
{
    *failed |= !value || json_array_append_new(array, value) != 0;
}

static json_t *string(const char *text)
{
    if (!text)
        return json_null();
    char *clean = sb_strdup(text);
    if (clean)
        sb_clean_text(clean);
    json_t *out = clean ? json_string(clean) : NULL;
    free(clean);
    return out;
}

/* Lines as a list of strings. */
static json_t *lines(const char *text)
{
    json_t *list = json_array();
    while (list && text && *text) {
        size_t length = strcspn(text, "\n");
        char *line = sb_alloc(length + 1, 1);
        if (line)
            memcpy(line, text, length);
        json_t *item = line ? string(line) : NULL;
        free(line);
        if (!item || json_array_append_new(list, item) != 0) {
            json_decref(list);
            return NULL;
        }
        text += length + (text[length] == '\n');
    }
    return list;
}

static json_t *count(uint64_t n)
{
    return json_integer((json_int_t)n);
}

/* JSON has no infinity and no NaN: writes the largest number for infinity, null for NaN. */
static json_t *real(double x)
{
    if (x != x)
        return json_null();
    return json_real(x > 0x1.fffffffffffffp1023    ? 0x1.fffffffffffffp1023
                     : x < -0x1.fffffffffffffp1023 ? -0x1.fffffffffffffp1023
                                                   : x);
}

static json_t *verdict(sb_verdict v)
{
    return v == SB_VERDICT_none ? json_null() : json_string(sb_verdict_name(v));
}

static json_t *layer(const sb_diff_report *r, uint32_t number)
{
    if (number < r->layers)
        return count(number);
    const sb_diff_layer other = sb_diff_layer_text(r, number);
    return *other.text ? json_string(other.text) : json_null();
}

static json_t *token_json(const sb_token_verdict *t, int *failed)
{
    json_t *out = json_object(), *top = json_object();
    put(out, "sequence", count(t->sequence), failed);
    put(out, "position", count(t->position), failed);
    put(out, "id", count(t->id), failed);
    put(out, "verdict", verdict(t->verdict), failed);
    put(out, "kl", t->has_kl ? real(t->kl) : json_null(), failed);
    put(out, "kl_is_lower", json_boolean(t->kl_is_lower), failed);
    put(out, "worst_ratio", real(t->worst_ratio), failed);
    put(top, "ref", t->has_top[0] ? count(t->top[0]) : json_null(), failed);
    put(top, "engine", t->has_top[1] ? count(t->top[1]) : json_null(), failed);
    put(out, "top", top, failed);
    put(out, "margin", real(t->margin), failed);
    put(out, "envelope", real(t->envelope), failed);
    return out;
}

static json_t *ids(const uint32_t *list, size_t n, int *failed)
{
    json_t *out = json_array();
    for (size_t i = 0; i < n; i++)
        append(out, count(list[i]), failed);
    return out;
}

static json_t *state_json(const sb_diff_report *r, const sb_state_verdict *s, int *failed)
{
    static const char *const keys[SB_ELEMENT_RANK] = {"head", "row", "col"};
    json_t *out = json_object(), *first = json_null();
    if (s->has_first) {
        first = json_object();
        put(first, "layer", layer(r, s->first.layer), failed);
        for (size_t i = 0; i < SB_ELEMENT_RANK; i++)
            put(first, keys[i], i < s->first.rank ? count(s->first.element[i]) : json_null(),
                failed);
        put(first, "piece", string(s->first.name), failed);
        put(first, "found", real(s->first.found), failed);
        put(first, "expected", real(s->first.expected), failed);
    }
    put(out, "verdict", verdict(s->verdict), failed);
    put(out, "first", first, failed);
    return out;
}

static json_t *round_json(const sb_diff_report *r, const sb_round_verdict *v, int *failed)
{
    json_t *out = json_object(), *drafts = json_object(), *accepted = json_object(),
           *state = json_object();
    put(drafts, "ref", v->has_reference ? ids(v->drafts[0], v->drafted[0], failed) : json_null(),
        failed);
    put(drafts, "engine", ids(v->drafts[1], v->drafted[1], failed), failed);
    put(accepted, "ref", v->has_reference ? count(v->accepted[0]) : json_null(), failed);
    put(accepted, "engine", count(v->accepted[1]), failed);
    for (size_t i = 0; i < SB_STATE_PARTS; i++)
        put(state, sb_state_part_name((sb_state_part)i), state_json(r, &v->state[i], failed),
            failed);
    put(out, "sequence", count(v->sequence), failed);
    put(out, "round", count(v->round), failed);
    put(out, "position", count(v->position), failed);
    put(out, "drafts", drafts, failed);
    put(out, "accepted", accepted, failed);
    put(out, "verdict", verdict(v->verdict), failed);
    put(out, "state", state, failed);
    put(out, "hypothesis", *v->hypothesis ? string(v->hypothesis) : json_null(), failed);
    return out;
}

/* Acceptance by the place of a draft in its round. */
static json_t *depths_json(const sb_verdicts *v, int *failed)
{
    static const char *const sides[] = {"ref", "engine"};
    json_t *list = json_array();
    const size_t depths = sb_diff_depths(v);
    for (size_t place = 0; place < depths; place++) {
        const sb_diff_sums at = sb_diff_depth(v, place);
        json_t *row = json_object();
        for (int side = 0; side < 2; side++) {
            json_t *one = json_object();
            put(one, "drafted", count(at.drafted[side]), failed);
            put(one, "accepted", count(at.accepted[side]), failed);
            put(row, sides[side], one, failed);
        }
        append(list, row, failed);
    }
    return list;
}

static json_t *hit_json(const sb_diff_report *r, const sb_hit_verdict *v, int *failed)
{
    json_t *out = json_object(), *state = json_object();
    for (size_t i = 0; i < SB_STATE_PARTS; i++)
        put(state, sb_state_part_name((sb_state_part)i), state_json(r, &v->state[i], failed),
            failed);
    put(out, "sequence", count(v->sequence), failed);
    put(out, "parent", count(v->parent), failed);
    put(out, "position", count(v->position), failed);
    put(out, "verdict", verdict(v->verdict), failed);
    put(out, "state", state, failed);
    put(out, "hypothesis", *v->hypothesis ? string(v->hypothesis) : json_null(), failed);
    return out;
}

static void put_judged(json_t *out, const sb_judged *j, int *failed)
{
    put(out, "alone", count(j->alone), failed);
    put(out, "inside", count(j->inside), failed);
    put(out, "not_judged", count(j->not_judged), failed);
}

static json_t *hidden_json(const sb_hidden_verdict *h, int *failed)
{
    json_t *out = json_object();
    put(out, "tap", json_string(h->name), failed);
    put(out, "rows", count(h->rows), failed);
    put(out, "not_judged", count(h->wide), failed);
    put(out, "worst_ratio", real(h->worst), failed);
    put(out, "verdict", verdict(sb_hidden_judged(h)), failed);
    return out;
}

static json_t *tap_json(const sb_tap_judged *v, int *failed)
{
    json_t *out = json_object();
    put(out, "tap", json_string(v->name), failed);
    put(out, "where", json_string(v->where), failed);
    put(out, "op", json_string(sb_op_name(v->op)), failed);
    put_judged(out, &v->values, failed);
    return out;
}

/* T-98: the errors of an op on average; null if nothing was tested. */
static json_t *bias_json(const sb_op_bias *b, int *failed)
{
    if (!b->rows)
        return json_null();
    json_t *out = json_object();
    put(out, "tap", *b->place.name ? string(b->place.name) : json_null(), failed);
    put(out, "groups", count(b->rows), failed);
    put(out, "direction", string(sb_bias_way(b->direction)), failed);
    put(out, "relative_u", real(b->relative), failed);
    put(out, "absolute_u", real(b->absolute), failed);
    put(out, "bet_log10", real(b->odds), failed);
    put(out, "null", string(b->null), failed);
    return out;
}

/* T-100: the matrix units that the results of linear layers fit; null if nothing was tried. */
static json_t *fit_json(const sb_fit_verdict *f, int *failed)
{
    if (!f->groups)
        return json_null();
    json_t *out = json_object(), *units = json_array();
    for (size_t i = 0; i < f->count; i++) {
        json_t *one = json_object();
        put(one, "unit", string(f->rows[i].name), failed);
        put(one, "fits", json_boolean(f->rows[i].fits), failed);
        put(one, "bet_log10", real(f->rows[i].odds), failed);
        append(units, one, failed);
    }
    put(out, "groups", count(f->groups), failed);
    put(out, "sums", json_boolean(f->sums), failed);
    put(out, "tightest",
        f->sums       ? string("library")
        : f->tightest ? string(f->tightest)
                      : json_null(),
        failed);
    put(out, "units", units, failed);
    return out;
}

static json_t *op_json(size_t op, const sb_op_verdict *v, int *failed)
{
    json_t *out = json_object();
    put(out, "op", json_string(sb_op_name(op)), failed);
    put(out, "compared", count(v->compared), failed);
    put(out, "identical", count(v->identical), failed);
    put(out, "open", count(v->open), failed);
    put_judged(out, &v->values, failed);
    put(out, "near_ties", count(v->near_ties), failed);
    put(out, "worst_ratio", real(v->worst), failed);
    put(out, "tightness", real(v->median), failed);
    put(out, "bias", bias_json(&v->bias, failed), failed);
    put(out, "verdict", verdict(v->verdict), failed);
    return out;
}

/* The elements around the first failure; null if it is in no array. */
static json_t *around_json(const sb_around *a, int *failed)
{
    if (!a->count)
        return json_null();
    json_t *out = json_object(), *found = json_array(), *expected = json_array(),
           *bound = json_array();
    for (size_t i = 0; i < a->count; i++) {
        append(found, real((double)a->found[i]), failed);
        append(expected, real((double)a->expected[i]), failed);
        append(bound, real(a->bound[i]), failed);
    }
    put(out, "first", count(a->first), failed);
    put(out, "found", found, failed);
    put(out, "expected", expected, failed);
    put(out, "bound", bound, failed);
    return out;
}

static json_t *failure_json(const sb_diff_report *r, int *failed)
{
    const sb_place *p = &r->verdicts->first_failure;
    if (!r->verdicts->has_failure)
        return json_null();
    json_t *out = json_object(), *element = json_array();
    for (size_t i = 0; i < p->rank; i++)
        append(element, count(p->element[i]), failed);
    put(out, "sequence", count(p->sequence), failed);
    put(out, "token", count(p->token), failed);
    put(out, "layer", layer(r, p->layer), failed);
    put(out, "op", string(p->op), failed);
    put(out, "element", element, failed);
    put(out, "tap", string(p->name), failed);
    put(out, "after", *p->after ? string(p->after) : json_null(), failed);
    put(out, "found", real(p->found), failed);
    put(out, "expected", real(p->expected), failed);
    put(out, "bound", real(p->bound), failed);
    put(out, "words", string(p->words), failed);
    put(out, "around", around_json(&r->verdicts->around, failed), failed);
    return out;
}

static json_t *explanations_json(const sb_verdicts *v, int *failed)
{
    json_t *list = json_array();
    for (size_t i = 0; i < v->explanation_count; i++) {
        const sb_explanation *e = &v->explanations[i];
        json_t *out = json_object();
        put(out, "change", string(e->change), failed);
        put(out, "words", string(e->words), failed);
        put(out, "before", real(e->before), failed);
        put(out, "after", real(e->after), failed);
        put(out, "fits", json_boolean(e->fits), failed);
        append(list, out, failed);
    }
    return list;
}

static void put_lists(const sb_diff_report *r, json_t *document, int *failed)
{
    const sb_verdicts *v = r->verdicts;
    json_t *tokens = json_array(), *rounds = json_array(), *hits = json_array(),
           *ops = json_array(), *taps = json_array(), *judged = json_object();
    sb_judged all = sb_verdicts_judged(v);
    for (size_t i = 0; i < v->token_count; i++)
        append(tokens, token_json(&v->tokens[i], failed), failed);
    for (size_t i = 0; i < v->round_count; i++)
        append(rounds, round_json(r, &v->rounds[i], failed), failed);
    for (size_t i = 0; i < SB_OP_COUNT; i++)
        if (sb_diff_met(&v->ops[i]))
            append(ops, op_json(i, &v->ops[i], failed), failed);
    put(document, "tokens", tokens, failed);
    for (size_t i = 0; i < v->hit_count; i++)
        append(hits, hit_json(r, &v->hits[i], failed), failed);
    put(document, "rounds", rounds, failed);
    put(document, "by_depth", depths_json(r->verdicts, failed), failed);
    put(document, "hits", hits, failed);
    put(document, "ops", ops, failed);
    put(document, "fit", fit_json(&v->fit, failed), failed);
    for (size_t i = 0; i < v->tap_count; i++)
        append(taps, tap_json(&v->taps[i], failed), failed);
    put(document, "taps", taps, failed);
    put_judged(judged, &all, failed);
    put(document, "judged", judged, failed);
    json_t *hidden = json_array();
    for (size_t i = 0; i < v->hidden_count; i++)
        if (*v->hidden[i].name)
            append(hidden, hidden_json(&v->hidden[i], failed), failed);
    put(document, "hidden", hidden, failed);
}

static json_t *statistics(const sb_verdicts *v)
{
    sb_statistics s;
    if (sb_statistics_of(v, &s, NULL))
        return NULL;
    json_t *out = sb_statistics_json(&s);
    sb_statistics_free(&s);
    return out;
}

static json_t *coverage_json(const sb_coverage *c, int *failed)
{
    json_t *out = json_object();
    for (int i = 0; i < SB_REGIMES; i++) {
        sb_regime_seen seen = sb_coverage_seen(c, (sb_regime)i);
        if (!seen.applies)
            continue;
        json_t *one = json_object();
        put(one, "reached", count(seen.reached), failed);
        put(one, "of", seen.of ? count(seen.of) : json_null(), failed);
        put(one, "detail", *seen.detail ? string(seen.detail) : json_null(), failed);
        put(out, sb_regime_name((sb_regime)i), one, failed);
    }
    return out;
}

static json_t *sampler_json(const sb_sampler_verdict *s, int *failed)
{
    if (!s->sequences)
        return json_null();
    json_t *out = json_object();
    put(out, "verdict", s->verdict ? json_string(sb_verdict_name(s->verdict)) : json_null(),
        failed);
    put(out, "sequences", count(s->sequences), failed);
    put(out, "draws", count(s->draws), failed);
    put(out, "outside", count(s->outside), failed);
    put(out, "at_a_cut", count(s->open), failed);
    put(out, "tested", count(s->tested), failed);
    put(out, "replayed", count(s->replayed), failed);
    put(out, "not_declared", string(s->lacks), failed);
    put(out, "too_few_draws_for", string(s->weak), failed);
    put(out, "words", s->has_first ? string(s->first.words) : json_null(), failed);
    return out;
}

json_t *sb_diff_json(const sb_diff_report *r, json_t *document)
{
    const sb_verdicts *v = r->verdicts;
    int failed = !document;
    put(document, "checkpoint", string(r->checkpoint), &failed);
    put(document, "engine", string(r->engine), &failed);
    put(document, "versus", string(r->versus), &failed);
    put(document, "profile", string(r->profile), &failed);
    put(document, "arithmetic", string(r->arithmetic), &failed);
    put(document, "ways", string(r->ways), &failed);
    put(document, "notes", lines(r->notes), &failed);
    put(document, "verdict", json_string(sb_verdict_name(v->verdict)), &failed);
    put(document, "reason", *v->reason ? string(v->reason) : json_null(), &failed);
    put(document, "note", *v->note ? string(v->note) : json_null(), &failed);
    put(document, "meaning", json_string(sb_diff_meaning(v->verdict)), &failed);
    put(document, "sequences", count(r->sequences), &failed);
    put(document, "steps", count(r->steps), &failed);
    put_lists(r, document, &failed);
    put(document, "sampler", sampler_json(&v->sampler, &failed), &failed);
    put(document, "statistics", statistics(v), &failed);
    put(document, "near_ties", count(v->near_ties), &failed);
    put(document, "failures", count(v->failures), &failed);
    put(document, "skipped_taps", count(v->skipped_taps), &failed);
    put(document, "first_failure", failure_json(r, &failed), &failed);
    put(document, "coverage", coverage_json(&v->coverage, &failed), &failed);
    put(document, "explanations", explanations_json(v, &failed), &failed);
    if (!failed)
        return document;
    json_decref(document);
    return NULL;
}
