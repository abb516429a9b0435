#include "tools/judge/compare/differ.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/pool.h"
#include "tools/judge/compare/finite.h"
#include "tools/judge/trace/names.h"

struct sb_differ {
    const sb_model *model;
    sb_differ_options options;
    sb_forced *forced;
    sb_free *free;
    sb_free *layers;       /* T-92: hidden states alone, layer by layer; or NULL */
    sb_verdicts of_layers; /* its results, merged step by step */
    /* results of the forced way, kept apart until the end, because both ways run at once */
    sb_verdicts ops;
    double *worst; /* (room) per row of a step */
    size_t room;
    sb_cells cells; /* per row of a step */
    size_t steps, sequences;
    int started;
    int has_not_finite; /* the first value of the engine that is NaN or infinite */
    sb_place not_finite;
};

void sb_differ_defaults(sb_differ_options *o, const sb_knobs *knobs,
                        const sb_arithmetic *arithmetic, sb_verdicts *verdicts)
{
    *o = (sb_differ_options){
        .forced = {.knobs = knobs, .arithmetic = arithmetic, .mtp = 1},
        .free = {.knobs = knobs, .arithmetic = arithmetic, .perturbed = 4, .seed = 42, .mtp = 1},
        .with_forced = -1,
        .with_free = -1,
        .tie_limit = 0.25,
        .verdicts = verdicts};
}

sb_status sb_differ_new(const sb_model *model, const sb_differ_options *options, sb_differ **out,
                        sb_error *err)
{
    sb_differ *d = sb_alloc(1, sizeof *d);
    if (!d || !sb_coverage_begin(&options->verdicts->coverage, &model->config)) {
        free(d);
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a comparison");
    }
    d->model = model;
    d->options = *options;
    d->options.forced.verdicts = &d->ops;
    d->options.free.verdicts = options->verdicts;
    d->options.forced.cells = &d->cells;
    d->options.forced.mtp = options->forced.mtp && sb_model_has_mtp(model);
    d->options.free.mtp = options->free.mtp && sb_model_has_mtp(model);
    *out = d;
    return SB_OK;
}

void sb_differ_free(sb_differ *d)
{
    if (!d)
        return;
    sb_forced_free(d->forced);
    sb_free_free(d->free);
    sb_free_free(d->layers);
    sb_verdicts_free(&d->of_layers);
    sb_verdicts_free(&d->ops);
    free(d->worst);
    free(d->cells.worst);
    free(d);
}

size_t sb_differ_steps(const sb_differ *d)
{
    return d->steps;
}

size_t sb_differ_sequences(const sb_differ *d)
{
    return d->sequences;
}

int sb_differ_failed(const sb_differ *d)
{
    return d->ops.has_failure || d->options.verdicts->has_failure || d->has_not_finite ||
           d->of_layers.has_failure;
}

int sb_differ_forced(const sb_differ *d)
{
    return d->forced != NULL;
}

/* True if a step has values of ops inside the layers. Hidden states alone do not count: they are
 * judged in the free way (T-92). */
static int has_taps(const sb_differ *d, const sb_step *step)
{
    for (size_t i = 0; i < step->taps.count; i++) {
        const sb_step_value *v = &step->taps.items[i];
        size_t n = strlen(v->name);
        /* expert ids alone do not count: the answer of a server may have them */
        int ids = n > 11 && strcmp(v->name + n - 11, ".router_ids") == 0;
        int drafter = d->options.forced.drafter && strncmp(v->name, "drafter.", 8) == 0 &&
                      !sb_tap_is_of_drafts(v->name);
        if (v->data && drafter)
            return 1;
        if (v->data && !ids && strncmp(v->name, "layers.", 7) == 0 &&
            sb_tap_hidden(v->name, d->model->config.layers) < 0)
            return 1;
    }
    return 0;
}

static int has_hidden(const sb_differ *d, const sb_step *step)
{
    for (size_t i = 0; i < step->taps.count; i++)
        if (step->taps.items[i].data &&
            sb_tap_hidden(step->taps.items[i].name, d->model->config.layers) > 0)
            return 1;
    return 0;
}

/* T-92: another comparison in the free way, which goes on from the engine's hidden states. */
static sb_status start_layers(sb_differ *d, sb_error *err)
{
    sb_free_options options = d->options.free;
    options.verdicts = &d->of_layers;
    options.hidden = 1;
    options.mtp = options.greedy = options.explain = 0;
    options.external = 1;
    options.drafter = NULL;
    options.coverage = NULL;
    return sb_free_new(d->model, &options, &d->layers, err);
}

/* The step with its hidden states and chosen experts alone. */
static sb_status layers_step(sb_differ *d, const sb_step *step, sb_error *err)
{
    sb_step view = *step;
    view.taps = (sb_step_values){.items = sb_alloc(step->taps.count + 1, sizeof *view.taps.items)};
    if (!view.taps.items)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a step");
    for (size_t i = 0; i < step->taps.count; i++) {
        const sb_step_value *v = &step->taps.items[i];
        if (sb_tap_hidden(v->name, d->model->config.layers) >= 0 ||
            strstr(v->name, "mlp.router_ids"))
            view.taps.items[view.taps.count++] = *v;
    }
    view.state_count = 0;
    sb_status status =
        step->again ? sb_free_again(d->layers, &view, err) : sb_free_step(d->layers, &view, err);
    free(view.taps.items);
    return status;
}

/* True if the step shows that there is no head: it has no values of a head. A step of a single row
 * shows nothing, because a single row makes no MTP entry. */
static int shows_no_head(const sb_step *step)
{
    for (size_t i = 0; i < step->taps.count; i++)
        if (strncmp(step->taps.items[i].name, "mtp.", 4) == 0)
            return 0;
    return step->row_count > 1;
}

/* Chooses the ways of comparison by the first step. */
static sb_status start(sb_differ *d, const sb_step *step, sb_error *err)
{
    sb_status status = SB_OK;
    int forced = d->options.with_forced;
    if (forced == 1 && !has_taps(d, step))
        return sb_fail(err, SB_ERR_SKIPPED,
                       "step %llu has no taps with data: --forced needs a level 4 trace",
                       (unsigned long long)step->number);
    const int ops = forced == 1 || (forced == -1 && has_taps(d, step));
    if (ops && d->options.forced.mtp && shows_no_head(step)) {
        d->options.forced.mtp = 0;
        snprintf(d->options.verdicts->note, SB_WORDS,
                 "the first call shows no values of the MTP head: its ops were not judged");
    }
    if (ops) /* the engine's values, if they are recorded */
        d->options.forced.coverage = &d->options.verdicts->coverage;
    else
        d->options.free.coverage = &d->options.verdicts->coverage;
    if (ops)
        status = sb_forced_new(d->model, &d->options.forced, &d->forced, err);
    if (!status && d->options.with_free)
        status = sb_free_new(d->model, &d->options.free, &d->free, err);
    if (!status && d->options.with_free && !has_taps(d, step) && has_hidden(d, step))
        status = start_layers(d, err);
    d->started = 1;
    return status;
}

static sb_status make_room(sb_differ *d, size_t rows, sb_error *err)
{
    if (rows > d->room) {
        double *worst = sb_realloc(d->worst, rows, sizeof *worst);
        if (!worst)
            return sb_fail(err, SB_ERR_MEMORY, "out of memory for %zu rows", rows);
        d->worst = worst;
        d->room = rows;
    }
    for (size_t i = 0; i < rows; i++)
        d->worst[i] = 0;
    d->cells.rows = 0;
    if (!sb_cells_rows(&d->cells, d->model->config.layers, rows))
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for %zu rows", rows);
    return SB_OK;
}

/* True for rows of the trunk: each has a token verdict. */
static int is_row(const sb_step_row *row)
{
    return row->kind != SB_CALL_draft;
}

/* Adds token verdicts if the free way does not run. They come from the ops alone, and are `none` if
 * no op of the row was judged. */
static sb_status add_tokens(const sb_differ *d, const sb_step *step, sb_error *err)
{
    sb_verdicts *v = d->options.verdicts;
    for (size_t i = 0; i < step->row_count; i++) {
        const sb_step_row *row = &step->rows[i];
        sb_token_verdict *t = is_row(row) ? sb_verdicts_token(v) : NULL;
        if (!is_row(row))
            continue;
        if (!t)
            return sb_fail(err, SB_ERR_MEMORY, "out of memory for token verdicts");
        t->sequence = row->sequence;
        t->position = row->position;
        t->id = row->token;
        t->verdict = sb_cells_any(&d->cells, i) ? SB_VERDICT_IDENTICAL : SB_VERDICT_none;
    }
    return SB_OK;
}

/* Adds the results of a row's ops to the verdict of its token. */
static void add_worst(const sb_differ *d, const sb_step *step, size_t first)
{
    sb_verdicts *v = d->options.verdicts;
    size_t at = first;
    for (size_t i = 0; i < step->row_count; i++) {
        if (!is_row(&step->rows[i]) || at >= v->token_count)
            continue;
        sb_token_verdict *t = &v->tokens[at++];
        double worst = d->worst[i];
        if (worst > t->worst_ratio)
            t->worst_ratio = worst;
        t->verdict = sb_verdict_worse(t->verdict, worst > 1   ? SB_VERDICT_FAIL
                                                  : worst > 0 ? SB_VERDICT_WITHIN
                                                              : SB_VERDICT_none);
    }
}

/* The last token of a sequence before this one; SIZE_MAX: there is none. */
static size_t token_before(const sb_verdicts *v, uint32_t sequence, size_t at)
{
    while (at > 0 && v->tokens[at - 1].sequence != sequence)
        at--;
    return at - 1;
}

/* Adds the results of each layer of a row. The results of a draft belong to the token before it. */
static sb_status add_cells(const sb_differ *d, const sb_step *step, size_t first, sb_error *err)
{
    sb_verdicts *v = d->options.verdicts;
    size_t at = first;
    if (!sb_cells_rows(&v->cells, d->model->config.layers, v->token_count))
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for the layers of %zu tokens",
                       v->token_count);
    for (size_t i = 0; i < step->row_count; i++) {
        const sb_step_row *row = &step->rows[i];
        size_t token = is_row(row) ? at++ : token_before(v, row->sequence, at);
        if (token < v->token_count)
            sb_cells_add(&v->cells, token, &d->cells, i);
    }
    return SB_OK;
}

typedef struct ways {
    sb_differ *d;
    const sb_step *step;
    sb_error *err, of_ops, of_layers;
    sb_status ops, whole, layers;
    int lost; /* ops of a sequence cannot be judged, because those of its prefix could not */
} ways;

static void one_way(void *ctx, size_t i, size_t worker)
{
    ways *w = ctx;
    sb_differ *d = w->d;
    (void)worker;
    if (i == 0 && d->forced)
        w->ops = w->step->again ? sb_forced_again(d->forced, w->step, &w->lost, &w->of_ops)
                                : sb_forced_step(d->forced, w->step, d->worst, &w->of_ops);
    if (i == 1 && d->free)
        w->whole = w->step->again ? sb_free_again(d->free, w->step, w->err)
                                  : sb_free_step(d->free, w->step, w->err);
    if (i == 2 && d->layers)
        w->layers = layers_step(d, w->step, &w->of_layers);
}

/* Runs all ways. Each way has its own sessions and verdicts, so they can run at once. With many
 * threads it is better to run one after the other and to share the work inside each, because nested
 * parallel work does not share. */
static sb_status both_ways(sb_differ *d, const sb_step *step, sb_error *err)
{
    enum { FEW = 4 };
    ways w = {.d = d, .step = step, .err = err};
    sb_parallel_for(3, (d->forced || d->layers) && d->free && sb_threads() <= FEW, one_way, &w);
    if (w.ops)
        *err = w.of_ops;
    if (w.lost && !d->ops.lost) {
        d->ops.lost = 1;
        snprintf(d->ops.reason, sizeof d->ops.reason,
                 "sequence %u: the values of its prefix cannot be followed",
                 (unsigned)step->rows[0].sequence);
    }
    if (w.layers && !w.ops && !w.whole)
        *err = w.of_layers;
    return w.ops ? w.ops : w.whole ? w.whole : w.layers;
}

/* Adds the verdicts on hidden states to the tokens from `first` on, which both ways have. */
static void add_layers(sb_differ *d, size_t first)
{
    sb_verdicts *v = d->options.verdicts;
    for (size_t i = first; i < v->token_count && i < d->of_layers.token_count; i++) {
        const sb_token_verdict *t = &d->of_layers.tokens[i];
        v->tokens[i].verdict = sb_verdict_worse(v->tokens[i].verdict, t->verdict);
        if (t->worst_ratio > v->tokens[i].worst_ratio)
            v->tokens[i].worst_ratio = t->worst_ratio;
    }
}

/* True if failure a comes before b: by token, and within a token by the order of the flow. */
static int is_before(const sb_config *config, const sb_place *a, const sb_place *b)
{
    if (a->sequence != b->sequence)
        return a->sequence < b->sequence;
    if (a->token != b->token)
        return a->token < b->token;
    return sb_finite_order(config, a->name) < sb_finite_order(config, b->name);
}

static void see_not_finite(sb_differ *d, const sb_place *place)
{
    if (!d->has_not_finite || is_before(&d->model->config, place, &d->not_finite))
        d->not_finite = *place;
    d->has_not_finite = 1;
}

/* Fails the token of a row that is not finite, even if little of the row was judged. */
static void fail_token(sb_differ *d, const sb_step *step, size_t row, const sb_place *place,
                       sb_token_verdict *token)
{
    if (token)
        token->verdict = SB_VERDICT_FAIL;
    if (d->forced)
        sb_cells_mark(&d->cells, row, place->layer, (double)INFINITY);
    if (is_row(&step->rows[row]))
        d->worst[row] = (double)INFINITY;
}

/* T-82: "A value of the engine that is NaN or infinite is a failure". If the reference itself
 * reached such a value, the engine has not failed. */
static void judge_finite(sb_differ *d, const sb_step *step, size_t first)
{
    sb_verdicts *v = d->options.verdicts;
    sb_finite f = {.config = &d->model->config,
                   .knobs = d->options.forced.knobs,
                   .step = step,
                   .mtp = d->options.forced.mtp || d->options.free.mtp};
    size_t at = first;
    sb_place place;
    if (!sb_finite_any(&f))
        return;
    for (size_t i = 0; i < step->row_count; i++) {
        sb_token_verdict *token =
            is_row(&step->rows[i]) && at < v->token_count ? &v->tokens[at++] : NULL;
        if (!sb_finite_row(&f, i, &place) ||
            (!d->free && sb_forced_overflowed(d->forced, step->rows[i].sequence)))
            continue;
        fail_token(d, step, i, &place, token);
        see_not_finite(d, &place);
    }
    for (size_t i = 0; i < step->state_count; i++)
        if (sb_finite_state(&f, &step->states[i], &place) &&
            (d->free || !sb_forced_overflowed(d->forced, step->states[i].sequence)))
            see_not_finite(d, &place);
}

/* The first row of this sequence's call; NULL if the sequence has only drafts. */
static const sb_step_row *first_row_of(const sb_step *step, uint32_t sequence)
{
    for (size_t i = 0; i < step->row_count; i++)
        if (step->rows[i].sequence == sequence && is_row(&step->rows[i]))
            return &step->rows[i];
    return NULL;
}

/* U-6: "the state that the call reads" has the length of the tokens fed before the call's first
 * row. */
static void judge_lengths(sb_differ *d, const sb_step *step)
{
    sb_verdicts *v = d->options.verdicts;
    for (size_t i = 0; i < step->state_count; i++) {
        const sb_step_state *state = &step->states[i];
        const sb_step_row *row = first_row_of(step, state->sequence);
        sb_place place = {.sequence = state->sequence, .layer = SB_NO_LAYER, .op = "position"};
        if (!row || row->position == state->position)
            continue;
        place.token = row->position;
        place.found = (double)state->position;
        place.expected = (double)row->position;
        snprintf(place.words, sizeof place.words,
                 "sequence %u: the state of step %llu claims %llu tokens, but the call that reads "
                 "it begins at position %llu",
                 (unsigned)state->sequence, (unsigned long long)step->number,
                 (unsigned long long)state->position, (unsigned long long)row->position);
        sb_verdicts_fail(v, &place);
        v->verdict = SB_VERDICT_FAIL;
    }
}

/* U-11: adds a verdict for each sequence that continues another one in this step. */
static sb_status add_hits(const sb_differ *d, const sb_step *step, sb_error *err)
{
    for (size_t i = 0; i < step->prefix_count; i++) {
        sb_hit_verdict *hit = sb_verdicts_hit(d->options.verdicts);
        if (!hit)
            return sb_fail(err, SB_ERR_MEMORY, "out of memory for verdicts");
        hit->sequence = step->prefixes[i].sequence;
        hit->parent = step->prefixes[i].parent;
        hit->position = step->prefixes[i].position;
    }
    return SB_OK;
}

/* Adds the first call of such a sequence to its verdict. */
static void judge_hits(const sb_differ *d, size_t first)
{
    sb_verdicts *v = d->options.verdicts;
    for (size_t i = 0; i < v->hit_count; i++) {
        sb_hit_verdict *hit = &v->hits[i];
        size_t rows = 0;
        for (size_t at = first; at < v->token_count && !hit->rows; at++)
            if (v->tokens[at].sequence == hit->sequence) {
                hit->verdict = sb_verdict_worse(hit->verdict, v->tokens[at].verdict);
                rows++;
            }
        hit->rows += rows;
        for (size_t part = 0; part < SB_STATE_PARTS && rows; part++)
            hit->verdict = sb_verdict_worse(hit->verdict, hit->state[part].verdict);
    }
}

sb_status sb_differ_step(void *differ, const sb_step *step, sb_error *err)
{
    sb_differ *d = differ;
    sb_verdicts *v = d->options.verdicts;
    size_t first = v->token_count;
    sb_status status = d->started || !step->row_count ? SB_OK : start(d, step, err);
    if (!status)
        status = make_room(d, step->row_count, err);
    if (!status && step->again)
        return both_ways(d, step, err);
    if (!status)
        status = add_hits(d, step, err);
    d->steps += step->row_count != 0;
    for (size_t i = 0; i < step->row_count; i++)
        if (step->rows[i].sequence >= d->sequences)
            d->sequences = (size_t)step->rows[i].sequence + 1;
    if (!status)
        status = both_ways(d, step, err);
    if (!status && d->layers)
        add_layers(d, first);
    if (!status && !d->free)
        status = add_tokens(d, step, err);
    if (!status)
        judge_finite(d, step, first);
    if (!status)
        judge_lengths(d, step);
    for (size_t i = 0; i < step->round_count; i++)
        sb_coverage_round(&v->coverage, step->rounds[i].round.drafted,
                          step->rounds[i].round.accepted);
    if (!status)
        add_worst(d, step, first);
    if (!status)
        judge_hits(d, first);
    return status || !d->forced ? status : add_cells(d, step, first, err);
}

/* Marks the ops that the reference ran in place of the engine: their results say nothing about the
 * engine. */
static void inherit(sb_verdicts *v, const unsigned char inherited[SB_OP_COUNT])
{
    for (size_t i = 0; i < SB_OP_COUNT; i++)
        if (inherited[i] && v->ops[i].compared && v->ops[i].verdict < SB_VERDICT_INHERITED)
            v->ops[i].verdict = SB_VERDICT_INHERITED;
}

/* T-24: "an engine whose ops are all within their bounds is right as a whole" */
static int ops_decide(const sb_verdicts *v)
{
    size_t compared = 0;
    for (size_t i = 0; i < SB_OP_COUNT; i++) {
        if (v->ops[i].verdict == SB_VERDICT_FAIL || v->ops[i].verdict == SB_VERDICT_MISTRUSTED)
            return 0;
        compared += v->ops[i].compared;
    }
    return compared > 0 && v->ops[SB_OP_linear].compared > 0;
}

/* T-92: more than half of the rows of every recorded hidden state were judged, and the last layer
 * is recorded. */
static int hidden_decide(sb_verdicts *v, char *why, size_t room)
{
    const size_t last = v->hidden_count;
    why[0] = '\0';
    if (!last)
        return 0;
    for (size_t i = 0; i < last && !*why; i++)
        if (*v->hidden[i].name && 2 * v->hidden[i].wide >= v->hidden[i].rows)
            snprintf(why, room, "%s: rounding alone could hide any fault in %zu of %zu rows",
                     v->hidden[i].name, v->hidden[i].wide, v->hidden[i].rows);
    return !*why;
}

/* If the ops or the hidden states have decided, an undecided free way (noise too large) becomes a
 * note. */
static sb_status finish_free(sb_differ *d, sb_error *err)
{
    sb_verdicts *v = d->options.verdicts;
    sb_verdict before = v->verdict;
    char reason[SB_WORDS], why[SB_WORDS];
    int decided = hidden_decide(v, why, sizeof why) || (d->forced && ops_decide(v));
    memcpy(reason, v->reason, sizeof reason);
    sb_status status = sb_free_finish(d->free, err);
    if (!status && *why && v->verdict == SB_VERDICT_MISTRUSTED)
        memcpy(v->reason, why, sizeof v->reason);
    if (status || !decided || v->verdict != SB_VERDICT_MISTRUSTED || before > SB_VERDICT_MISTRUSTED)
        return status;
    snprintf(v->note, sizeof v->note,
             "the free runs alone are not conclusive: %.200s; the verdict comes from each %s alone",
             v->reason, d->forced ? "op" : "layer");
    memcpy(v->reason, reason, sizeof v->reason);
    v->verdict = before;
    d->options.tie_limit = 1.0;
    return SB_OK;
}

/* T-82: "It is named before every failure of its token, except a failure of a single op that stands
 * before it". */
static void join_not_finite(sb_differ *d, int is_of_op)
{
    sb_verdicts *v = d->options.verdicts;
    const sb_place *place = &d->not_finite, *first = &v->first_failure;
    int same = place->sequence == first->sequence && place->token == first->token;
    v->verdict = SB_VERDICT_FAIL;
    v->failures += !v->has_failure;
    if (v->has_failure && !(same && !is_of_op) && !is_before(&d->model->config, place, first))
        return;
    v->has_failure = 1;
    v->first_failure = *place;
    sb_verdicts_name_parent(v, &v->first_failure);
    v->around.count = 0;
}

/* Fails the hit that a failed sequence began with, if the failure is in its first call or in the
 * state before it. */
static void fail_hit(sb_verdicts *v)
{
    const sb_place *place = &v->first_failure;
    sb_hit_verdict *hit = v->has_failure ? sb_verdicts_hit_of(v, place->sequence) : NULL;
    if (hit && place->token < hit->position + hit->rows)
        hit->verdict = SB_VERDICT_FAIL;
}

/* Takes over the hidden states. Within a token, a hidden state is named before its consequences. */
static void join_layers(sb_differ *d)
{
    sb_verdicts *v = d->options.verdicts, *of = &d->of_layers;
    const sb_place *first = &of->first_failure, *other = &v->first_failure;
    if (!d->layers)
        return;
    if (of->has_failure && strcmp(first->op, "hidden") == 0 &&
        (!v->has_failure || first->sequence < other->sequence ||
         (first->sequence == other->sequence && first->token <= other->token))) {
        v->has_failure = 1;
        v->first_failure = *first;
        sb_verdicts_name_parent(v, &v->first_failure);
        v->around.count = 0;
    }
    v->failures += of->failures;
    of->failures = 0;
    free(v->hidden);
    v->hidden = of->hidden;
    v->hidden_count = of->hidden_count;
    of->hidden = NULL;
    of->hidden_count = 0;
}

/* Merges the failures of the forced way into the rest. Within a token, the failed op is named
 * before its consequence. */
void sb_differ_stop(sb_differ *d)
{
    int is_of_op = 0;
    sb_verdicts *v = d->options.verdicts, *ops = &d->ops;
    const sb_place *first = &ops->first_failure, *other = &v->first_failure;
    if (ops->has_failure &&
        (!v->has_failure || first->sequence < other->sequence ||
         (first->sequence == other->sequence && first->token <= other->token))) {
        v->has_failure = 1;
        v->first_failure = *first;
        sb_verdicts_name_parent(v, &v->first_failure);
        v->around = ops->around;
        is_of_op = 1;
    }
    join_layers(d);
    if (d->has_not_finite)
        join_not_finite(d, is_of_op);
    fail_hit(v);
    free(v->failing);
    v->failing = ops->failing;
    v->failing_count = ops->failing_count;
    ops->failing = NULL;
    ops->failing_count = 0;
    memcpy(v->bundled, ops->bundled, sizeof v->bundled);
    memcpy(v->unbundled, ops->unbundled, sizeof v->unbundled);
    v->failures += ops->failures;
    v->near_ties += ops->near_ties;
    v->skipped_taps += ops->skipped_taps;
    v->lost |= ops->lost;
    ops->failures = ops->near_ties = ops->skipped_taps = 0;
}

static sb_status finish_forced(sb_differ *d, sb_error *err)
{
    sb_verdicts *v = d->options.verdicts;
    const sb_verdicts *ops = &d->ops;
    sb_status status = sb_forced_finish(d->forced, err);
    sb_differ_stop(d);
    memcpy(v->ops, ops->ops, sizeof v->ops);
    v->fit = ops->fit;
    free(v->taps);
    v->taps = ops->taps;
    v->tap_count = v->tap_room = ops->tap_count;
    d->ops.taps = NULL;
    d->ops.tap_count = d->ops.tap_room = 0;
    if (ops->reason[0] && (ops->verdict > v->verdict || !v->reason[0]))
        memcpy(v->reason, ops->reason, sizeof v->reason);
    v->verdict = sb_verdict_worse(v->verdict, ops->verdict);
    if (v->has_failure) {
        v->verdict = SB_VERDICT_FAIL;
        sb_verdicts_reason(v, d->model->config.layers);
    }
    return status;
}

sb_status sb_differ_finish(sb_differ *d, sb_error *err)
{
    sb_status status = SB_OK;
    if (d->forced)
        status = finish_forced(d, err);
    else
        sb_differ_stop(d);
    if (!status && d->free)
        status = finish_free(d, err);
    inherit(d->options.verdicts, d->options.inherited);
    if (!status)
        sb_differ_judge(d->options.verdicts, d->options.with_forced == 1, d->options.tie_limit);
    return status;
}
