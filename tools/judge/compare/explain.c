#include "tools/judge/compare/explain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "tools/judge/compare/explain_parts.h"

enum {
    VERIFIED = 5,    /* changes that fit at the site and are tried in everything */
    BASES = 2,       /* changes to which a second one is added */
    SITE_ROWS = 6000 /* rows that are judged at the site, over all changes and places */
};

/* --- trials ----------------------------------------------------------------------------------- */

/* Inserts a trial in order; among equals the earlier stays first. */
static sb_status insert(explain_search *s, const explain_trial *t)
{
    explain_trial *more = sb_grow(s->trials, s->count, &s->room, sizeof *more);
    if (!more)
        return SB_ERR_MEMORY;
    s->trials = more;
    size_t at = s->count++;
    for (; at > 0 && s->trials[at - 1].site.score > t->site.score; at--)
        s->trials[at] = s->trials[at - 1];
    s->trials[at] = *t;
    return SB_OK;
}

/* Adds a change to a trial. 0 if both would change the same. */
static int add_change(explain_trial *t, const sb_change *c, const sb_site *place)
{
    for (size_t i = 0; i < t->count; i++) {
        const sb_change *other = t->change[i];
        if (c->fault ? other->fault != NULL
                     : other->value != SB_VALUE_COUNT &&
                           sb_knob_of_value(other->value) == sb_knob_of_value(c->value))
            return 0;
    }
    t->change[t->count] = c;
    t->place[t->count++] = *place;
    return 1;
}

static void tick(explain_search *s)
{
    s->done++;
    if (s->progress)
        s->progress(NULL, "explanation", s->done < s->total ? s->done : s->total, s->total);
}

/* True for a change that may act where the failure lies. */
static int concerns(const sb_change *c, const sb_forced_site *site, const sb_failing *f)
{
    const int rule = f->op == SB_OP_delta_rule || f->op == SB_OP_delta_rule_chunk;
    if (!c->fault)
        return 1;
    return site->op == SB_OP_COUNT || c->fault->op == f->op ||
           (rule && (c->fault->op == SB_OP_delta_rule || c->fault->op == SB_OP_delta_rule_chunk));
}

/* --- at the site of the first failure --------------------------------------------------------- */

/* The failure under the changes of `base` */
typedef struct failure {
    const explain_trial *base;
    const sb_verdicts *seen; /* in which it failed */
    const sb_failing *failing;
    const sb_place *place;
    sb_forced_site site;
    int early;
    explain_result before; /* at the site, under the changes of `base` */
} failure;

/* A change that widens the bounds alone brings no value closer. */
static int comes_closer(const explain_result *r, const explain_result *before)
{
    return !before->watched || (r->watched && r->apart <= before->apart / 2);
}

static int fits_site(const explain_trial *t, const failure *f)
{
    return !t->site.failed && explain_judges_all(&t->site, &f->before) &&
           comes_closer(&t->site, &f->before);
}

/* T-47: "more than twice as large" */
static int is_near(const explain_trial *t, const failure *f)
{
    return t->site.worst < f->before.worst / 2 && explain_judges_all(&t->site, &f->before) &&
           comes_closer(&t->site, &f->before);
}

static size_t rows_at_site(const sb_keep *keep, int early)
{
    size_t rows = 0;
    for (size_t i = early ? 0 : keep->from; i < keep->failed; i++)
        rows += keep->steps[i].row_count;
    return rows;
}

/* Tries all changes in one place. */
static sb_status try_place(explain_search *s, const failure *f, const sb_site *place, int knobs)
{
    const sb_forced_site layer = {SB_OP_COUNT, f->site.layer};
    const explain_way way = {.site = &f->site, .watch = f->place, .early = f->early},
                      of_layer = {.site = &layer, .watch = f->place, .early = f->early};
    sb_status status = SB_OK;
    for (size_t i = 0; i < s->changes->count && s->rows < SITE_ROWS && !status; i++) {
        const sb_change *c = &s->changes->items[i];
        explain_trial t = *f->base;
        t.verified = 0;
        if (!concerns(c, &f->site, f->failing) || (!c->fault && !knobs) ||
            !add_change(&t, c, place))
            continue;
        status = explain_run(s, &t, &way, &t.site, NULL);
        /* a knob may give the op an input that is not recorded, as norm_input=sum does */
        if (!status && !c->fault && !explain_judges_all(&t.site, &f->before))
            status = explain_run(s, &t, &of_layer, &t.site, NULL);
        tick(s);
        s->rows += rows_at_site(s->keep, f->early);
        if (status || !(fits_site(&t, f) || is_near(&t, f)))
            continue;
        status = insert(s, &t);
    }
    return status;
}

/* Measures the site without a further change. If the values that its op needs were not all
 * recorded, its whole layer is the site. A wrong state that a step begins with comes from the steps
 * before it. Sets *possible to 0 if nothing of that shows the failure. */
static sb_status find_site(const explain_search *s, failure *f, int *possible)
{
    sb_status status = SB_OK;
    *possible = 0;
    for (int i = 0; i < 4 && !*possible && !status; i++) {
        f->site = (sb_forced_site){i % 2 ? SB_OP_COUNT : f->failing->op, f->failing->layer};
        f->early = i / 2;
        const explain_way way = {.site = &f->site, .watch = f->place, .early = f->early};
        status = explain_run(s, f->base, &way, &f->before, NULL);
        *possible = !status && f->before.failed;
    }
    return status;
}

/* --- in everything that was judged ------------------------------------------------------------ */

static int fits_all(const explain_result *r, const explain_result *before)
{
    return !r->failed && explain_judges_all(r, before);
}

static int same_place(const sb_site *a, const sb_site *b)
{
    return a->layer == b->layer && strcmp(a->tap, b->tap) == 0;
}

/* Tries the last change of a trial in everything: first where the op failed, then in every layer
 * and tap. The widest place that fits stays. */
static sb_status verify(const explain_search *s, const failure *f, explain_trial *t)
{
    const explain_way way = {.site = NULL};
    sb_site *place = &t->place[t->count - 1];
    const sb_site site = *place;
    if (!t->change[t->count - 1]->fault) {
        *place = explain_everywhere();
        return explain_run(s, t, &way, &t->whole, NULL);
    }
    *place = explain_narrowed(&site, f->failing, f->seen);
    sb_status status = explain_run(s, t, &way, &t->whole, NULL);
    explain_trial wide = *t;
    wide.place[t->count - 1].layer = SB_EVERY_LAYER;
    wide.place[t->count - 1].tap[0] = '\0';
    if (status || same_place(place, &wide.place[t->count - 1]))
        return status;
    status = explain_run(s, &wide, &way, &wide.whole, NULL);
    if (!status && fits_all(&wide.whole, &s->before))
        *t = wide;
    return status;
}

/* --- words ------------------------------------------------------------------------------------ */

static void append(char *to, size_t size, const char *separator, const char *words)
{
    size_t used = strlen(to);
    snprintf(to + used, size - used, "%s%s", separator, words);
}

static void write_explanation(const explain_search *s, const explain_trial *t,
                              const sb_failing *failing, int fits, sb_explanation *e)
{
    *e = (sb_explanation){.before = s->before.worst, .after = t->whole.worst, .fits = fits};
    snprintf(e->words, sizeof e->words, "%s",
             fits ? "behaves like " : "nearest known change, still outside the bounds: ");
    for (size_t i = 0; i < t->count; i++) {
        char place[SB_WORDS], spec[SB_WORDS];
        sb_site_words(&t->place[i], failing && !failing->state ? failing->columns : 0,
                      s->model->config.layers, place);
        sb_site_write(&t->place[i], spec, sizeof spec);
        append(e->change, sizeof e->change, i ? " " : "", t->change[i]->name);
        append(e->change, sizeof e->change, *spec ? " " : "", spec);
        append(e->words, sizeof e->words, i ? ", and " : "", t->change[i]->words);
        append(e->words, sizeof e->words, *place ? "; only " : "", place);
    }
}

static int is_said(const sb_verdicts *v, const char *words)
{
    for (size_t i = 0; i < v->explanation_count; i++)
        if (strcmp(v->explanations[i].words, words) == 0)
            return 1;
    return 0;
}

static void say(const explain_search *s, const explain_trial *t, const sb_failing *failing,
                int fits, sb_verdicts *v)
{
    sb_explanation e;
    write_explanation(s, t, failing, fits, &e);
    if (v->explanation_count < SB_EXPLANATIONS && !is_said(v, e.words))
        v->explanations[v->explanation_count++] = e;
}

/* --- the search ------------------------------------------------------------------------------- */

/* Tries the first trials of a site in everything; says those that fit. */
static sb_status verify_all(explain_search *s, const failure *f, sb_verdicts *out)
{
    size_t tried = 0;
    sb_status status = SB_OK;
    for (size_t i = 0; i < s->count && tried < VERIFIED && !status; i++) {
        explain_trial *t = &s->trials[i];
        if (t->verified || !fits_site(t, f))
            continue;
        tried++;
        t->verified = 1;
        status = verify(s, f, t);
        if (!status && fits_all(&t->whole, &s->before))
            say(s, t, f->failing, 1, out);
    }
    return status;
}

/* Tries all changes in all calls. If none fits in everything, tries them in narrower places. */
static sb_status try_places(explain_search *s, const failure *f, sb_verdicts *out)
{
    sb_site places[EXPLAIN_PLACES];
    const size_t count = explain_places(s, f->failing, f->seen, places);
    sb_status status = SB_OK;
    s->count = 0;
    for (size_t i = 0; i < count && !out->explanation_count && !status; i++) {
        status = try_place(s, f, &places[i], i == 0);
        if (!status)
            status = verify_all(s, f, out);
    }
    return status;
}

/* Says the best trial that does not fit: one that fits the site, or else one that is near. */
static sb_status say_nearest(explain_search *s, const failure *f, sb_verdicts *out)
{
    const explain_way way = {.site = NULL};
    if (!s->count || out->explanation_count)
        return SB_OK;
    explain_trial *t = &s->trials[0];
    sb_status status = SB_OK;
    if (!t->verified) {
        if (!t->change[t->count - 1]->fault)
            t->place[t->count - 1] = explain_everywhere();
        status = explain_run(s, t, &way, &t->whole, NULL);
    }
    if (!status && explain_judges_all(&t->whole, &s->before) && t->whole.score < s->before.score)
        say(s, t, f->failing, 0, out);
    return status;
}

/* The entry of the first failure among the failing taps; NULL: it is none of a tap. */
static const sb_failing *first_of(const sb_verdicts *v)
{
    for (size_t i = 0; i < v->failing_count; i++)
        if (strcmp(v->failing[i].name, v->first_failure.name) == 0)
            return &v->failing[i];
    return NULL;
}

/* Adds a second change to a trial that fits the first site and leaves another failure. */
static sb_status try_second(const explain_search *of, const explain_trial *base, sb_verdicts *out)
{
    const explain_way all = {.site = NULL};
    explain_search s = *of;
    sb_verdicts left = {0};
    explain_result unused;
    int possible = 0;
    s.trials = NULL;
    s.count = s.room = 0;
    sb_status status = explain_run(&s, base, &all, &unused, &left);
    failure f = {
        .base = base, .seen = &left, .failing = first_of(&left), .place = &left.first_failure};
    if (!status && f.failing)
        status = find_site(&s, &f, &possible);
    if (!status && possible)
        status = try_places(&s, &f, out);
    sb_verdicts_free(&left);
    free(s.trials);
    return status;
}

static sb_status try_pairs(const explain_search *s, sb_verdicts *out)
{
    explain_trial base[BASES];
    size_t count = 0;
    sb_status status = SB_OK;
    for (size_t i = 0; i < s->count && count < BASES; i++)
        if (s->trials[i].verified && s->trials[i].whole.score < s->before.score)
            base[count++] = s->trials[i];
    for (size_t i = 0; i < count && !status && !out->explanation_count; i++)
        status = try_second(s, &base[i], out);
    return status;
}

/* Ops were judged alone. */
static sb_status explain_ops(explain_search *s, const sb_verdicts *seen, sb_verdicts *out)
{
    const explain_trial none = {.count = 0};
    failure f = {
        .base = &none, .seen = seen, .failing = first_of(seen), .place = &seen->first_failure};
    int possible = 0;
    sb_status status = f.failing ? find_site(s, &f, &possible) : SB_OK;
    if (status || !possible)
        return status;
    status = try_places(s, &f, out);
    if (!status && !out->explanation_count)
        status = try_pairs(s, out);
    return status ? status : say_nearest(s, &f, out);
}

/* Only outputs were compared: every change is tried in everything, with less noise at first. */
static sb_status explain_outputs(explain_search *s, sb_verdicts *out)
{
    const explain_way quick = {.perturbed = 1}, full = {.perturbed = 0};
    const sb_site everywhere = explain_everywhere();
    sb_status status = SB_OK;
    for (size_t i = 0; i < s->changes->count && !status; i++) {
        explain_trial t = {.count = 0};
        add_change(&t, &s->changes->items[i], &everywhere);
        status = explain_run(s, &t, &quick, &t.site, NULL);
        tick(s);
        if (!status && explain_judges_all(&t.site, &s->before) && t.site.score < s->before.score)
            status = insert(s, &t);
    }
    for (size_t i = 0; i < s->count && i < VERIFIED && !status; i++) {
        explain_trial *t = &s->trials[i];
        status = explain_run(s, t, &full, &t->whole, NULL);
        if (!status && fits_all(&t->whole, &s->before))
            say(s, t, NULL, 1, out);
    }
    if (!status && s->count && !out->explanation_count &&
        s->trials[0].whole.worst < s->before.worst / 2 &&
        explain_judges_all(&s->trials[0].whole, &s->before))
        say(s, &s->trials[0], NULL, 0, out);
    return status;
}

sb_status sb_explain(const sb_model *model, const sb_differ_options *options, const sb_keep *keep,
                     const sb_changes *changes, sb_explain_progress progress, sb_verdicts *verdicts,
                     sb_error *err)
{
    sb_error ignored = {""};
    const explain_way all = {.site = NULL};
    const explain_trial none = {.count = 0};
    explain_search s = {.model = model,
                        .options = options,
                        .keep = keep,
                        .changes = changes,
                        .progress = progress,
                        .total = changes->count,
                        .err = &ignored};
    sb_verdicts seen = {0};
    if (!keep->failed)
        return SB_OK;
    sb_status status = explain_run(&s, &none, &all, &s.before, &seen);
    if (!status && seen.failing_count && options->with_forced)
        status = explain_ops(&s, &seen, verdicts);
    else if (!status && !options->with_forced && s.before.failed)
        status = explain_outputs(&s, verdicts);
    sb_verdicts_free(&seen);
    free(s.trials);
    return status ? sb_fail(err, status, "out of memory for explanations") : SB_OK;
}
