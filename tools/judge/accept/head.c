#include "tools/judge/accept/head.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/rng.h"
#include "ref/container/show.h"

enum { PROMPT = 4, CONTINUED = 64, SEED = 42, LEAST = 64 };

/* --- the text --------------------------------------------------------------------------------- */

/* E-14: "ids below 31/32 of the vocabulary, seed 42" */
static void draw_prompt(uint32_t vocab, uint64_t index, uint32_t *ids)
{
    uint64_t key = sb_rng_key(SEED, "accept/prompt");
    uint32_t below = vocab > 32 ? vocab - vocab / 32 : vocab;
    for (uint64_t i = 0; i < PROMPT; i++)
        ids[i] = sb_rng_below(key, index * PROMPT + i, below);
}

static sb_status continue_text(sb_session *session, uint32_t *ids, size_t count, float *logits,
                               sb_error *err)
{
    size_t V = sb_session_model(session)->config.vocab_size;
    sb_session_reset(session);
    sb_status status = sb_session_feed(session, ids, PROMPT, err);
    for (size_t at = PROMPT; at < count && !status; at++) {
        status = sb_session_logits(session, sb_session_rows(session) - 1, logits, err);
        if (status)
            return status;
        ids[at] = sb_greedy(logits, V);
        if (at + 1 < count)
            status = sb_session_feed(session, &ids[at], 1, err);
    }
    return status;
}

static sb_status write_texts(const sb_model *model, uint64_t positions, sb_accept_text *texts,
                             size_t count, sb_error *err)
{
    sb_session *session = NULL;
    float *logits = sb_alloc(model->config.vocab_size, sizeof *logits);
    sb_status status = logits ? sb_session_new(model, NULL, &session, err)
                              : sb_fail(err, SB_ERR_MEMORY, "out of memory for a text");
    for (size_t i = 0; i < count && !status; i++) {
        uint64_t left = positions - i * CONTINUED;
        size_t n = PROMPT + (size_t)(left < CONTINUED ? left : CONTINUED);
        uint32_t *ids = sb_alloc(n, sizeof *ids);
        if (!ids) {
            status = sb_fail(err, SB_ERR_MEMORY, "out of memory for a text");
            break;
        }
        texts[i] = (sb_accept_text){ids, n, PROMPT};
        draw_prompt(model->config.vocab_size, i, ids);
        status = continue_text(session, ids, n, logits, err);
    }
    sb_session_free(session);
    free(logits);
    return status;
}

/* E-14: "Each prompt is continued by up to 64 tokens of the model's own" */
sb_status sb_head_texts(const sb_model *model, uint64_t positions, sb_accept_text **texts,
                        size_t *count, sb_error *err)
{
    *count = (size_t)((positions + CONTINUED - 1) / CONTINUED);
    *texts = sb_alloc(*count, sizeof **texts);
    if (!*texts)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for texts");
    return write_texts(model, positions, *texts, *count, err);
}

void sb_head_texts_free(sb_accept_text *texts, size_t count)
{
    for (size_t i = 0; texts && i < count; i++)
        free((void *)(uintptr_t)texts[i].ids);
    free(texts);
}

/* The texts of a file, cut after `positions` positions. */
static sb_status cut_texts(const sb_head_options *o, sb_accept_text **texts, size_t *count,
                           sb_error *err)
{
    uint64_t left = o->positions;
    *count = 0;
    *texts = sb_alloc(o->text_count, sizeof **texts);
    if (!*texts)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for texts");
    for (size_t i = 0; i < o->text_count && left; i++) {
        sb_accept_text t = o->texts[i];
        if (t.count < 2)
            continue;
        if (t.count - 1 > left)
            t.count = (size_t)left + 1;
        left -= t.count - 1;
        (*texts)[(*count)++] = t;
    }
    return SB_OK;
}

/* --- the table -------------------------------------------------------------------------------- */

typedef struct table {
    const sb_head_options *o;
    sb_head_run *run;
    sb_accept_text *texts;
    size_t count;
    char problem[256]; /* error of the first cell that could not be measured */
} table;

/* Opens a head on a trunk. */
static sb_status open_cell(const table *t, int head, int trunk, sb_model **model, sb_error *err)
{
    const sb_head_options *o = t->o;
    const char *folder = trunk == SB_HEAD_OWN ? o->path : o->original;
    const char *other = head == SB_HEAD_OWN ? o->path : o->original;
    size_t n = trunk == SB_HEAD_OWN ? o->overlay_count : 0, room = strlen(other) + 8;
    const char **list = sb_alloc(n + 1, sizeof *list);
    char *text = sb_alloc(room, 1);
    sb_status status = SB_ERR_MEMORY;
    if (list && text) {
        if (n)
            memcpy(list, o->overlays, n * sizeof *list);
        snprintf(text, room, "mtp.*=%s", other);
        if (head != trunk)
            list[n++] = text;
        status = sb_model_open_overlaid(folder, list, n, model, err);
    } else {
        sb_fail(err, SB_ERR_MEMORY, "out of memory");
    }
    free(list);
    free(text);
    return status;
}

static void fill_cell(table *t, int head, int trunk, const sb_accept *a)
{
    const sb_accept_depth *d = &a->depth[0];
    t->run->cell[head][trunk] = (sb_head_cell){.known = 1,
                                               .accepted = d->rate.accepted,
                                               .of = d->rate.of,
                                               .rate = d->interval.rate,
                                               .low = d->interval.low,
                                               .high = d->interval.high};
    if (head == SB_HEAD_OWN && trunk == SB_HEAD_OWN)
        t->run->common = a->most_common;
}

/* Makes the text from the model of the first cell, which is measured first. */
static sb_status make_text(table *t, const sb_model *model, sb_error *err)
{
    const sb_head_options *o = t->o;
    if (t->texts)
        return SB_OK;
    if (o->texts) {
        snprintf(t->run->text, sizeof t->run->text, "%s", SB_SHOW(o->text_name));
        return cut_texts(o, &t->texts, &t->count, err);
    }
    sb_status status = sb_head_texts(model, o->positions, &t->texts, &t->count, err);
    snprintf(t->run->text, sizeof t->run->text,
             "greedy continuations of %zu random prompts, seed %d, by this checkpoint", t->count,
             SEED);
    return status;
}

static sb_status measure_cell(table *t, int head, int trunk, sb_error *err)
{
    sb_model *model = NULL;
    sb_accept accept = {0};
    sb_accept_options options = {
        .drafts = 1, .progress = t->o->progress, .progress_ctx = t->o->progress_ctx};
    sb_status status = open_cell(t, head, trunk, &model, err);
    if (!status)
        status = make_text(t, model, err);
    if (!status)
        status = sb_accept_measure(model, t->texts, t->count, &options, &accept, err);
    if (!status)
        fill_cell(t, head, trunk, &accept);
    sb_accept_free(&accept);
    sb_model_close(model);
    return status;
}

/* --- the verdict ------------------------------------------------------------------------------ */

static const sb_head_cell *cell(const sb_head_run *run, int head, int trunk)
{
    return &run->cell[head][trunk];
}

static int is_below(const sb_head_cell *a, const sb_head_cell *b)
{
    return a->known && b->known && a->rate < b->low;
}

/* True if the cell's rate is not certainly above that of the best constant. */
static int is_constant(const sb_head_run *run, const sb_head_cell *c)
{
    return c->low * (double)c->of <= (double)run->common;
}

static void say(sb_head_run *run, sb_head_verdict verdict, const char *why)
{
    run->verdict = verdict;
    snprintf(run->why, sizeof run->why, "%s", why);
}

static void judge_against(sb_head_run *run)
{
    const sb_head_cell *own = cell(run, SB_HEAD_OWN, SB_HEAD_OWN),
                       *other = cell(run, SB_HEAD_ORIGINAL, SB_HEAD_OWN),
                       *there = cell(run, SB_HEAD_OWN, SB_HEAD_ORIGINAL),
                       *best = cell(run, SB_HEAD_ORIGINAL, SB_HEAD_ORIGINAL);
    run->trunk_bad = is_below(other, best);
    if (is_below(own, other) || is_below(there, best))
        say(run, SB_HEAD_WEAK,
            run->trunk_bad ? "the head drafts worse than the original's head, but the original's "
                             "head also drafts worse on this trunk"
                           : "the head drafts worse than the original's head on the same text");
    else if (run->trunk_bad)
        say(run, SB_HEAD_OK,
            "the head drafts like the original's head; the trunk is the cause: the original's head "
            "drafts worse on it, too");
    else if (is_constant(run, best->known ? best : other))
        say(run, SB_HEAD_UNKNOWN,
            "the original's head drafts no better than a constant token on this text, either: try "
            "another text (--tokens-file)");
    else
        say(run, SB_HEAD_OK, "the head drafts like the original's head on the same text");
}

/* E-15: "Against an original". Without an original: E-9. */
void sb_head_judge(sb_head_run *run)
{
    const sb_head_cell *own = cell(run, SB_HEAD_OWN, SB_HEAD_OWN);
    if (own->of < LEAST)
        say(run, SB_HEAD_UNKNOWN, "fewer than 64 positions are not conclusive: try a longer --run");
    else if (cell(run, SB_HEAD_ORIGINAL, SB_HEAD_OWN)->known)
        judge_against(run);
    else if (run->common * 4 > own->of)
        say(run, SB_HEAD_UNKNOWN,
            "the text repeats one token too often: try another text (--tokens-file) or --against "
            "ORIGINAL");
    else if (own->accepted <= run->common) /* E-9: "no more of its drafts are accepted" */
        say(run, SB_HEAD_WEAK, "the head drafts no better than a constant token");
    else if (is_constant(run, own))
        say(run, SB_HEAD_UNKNOWN,
            "the head drafts better than a constant token, but not significantly: try a longer "
            "--run or --against ORIGINAL");
    else
        say(run, SB_HEAD_UNKNOWN,
            "the head drafts better than a constant token; whether it drafts well enough needs its "
            "original: --against ORIGINAL");
}

/* A cell that cannot be measured stays unknown; the first problem is kept. */
static sb_status measure_table(table *t, sb_error *err)
{
    sb_status status = measure_cell(t, SB_HEAD_OWN, SB_HEAD_OWN, err);
    if (status)
        return status;
    for (int i = 1; i < 4 && t->o->original; i++) {
        sb_error problem;
        int head = i & 1, trunk = i >> 1;
        if (head == SB_HEAD_OWN && t->o->overlay_count)
            continue; /* that head would lack the overlays */
        status = measure_cell(t, head, trunk, &problem);
        if (status == SB_ERR_MEMORY) {
            *err = problem;
            return status;
        }
        if (status && !*t->problem)
            snprintf(t->problem, sizeof t->problem, "%.255s", problem.text);
    }
    return SB_OK;
}

sb_status sb_head_measure(const sb_head_options *options, sb_head_run *out, sb_error *err)
{
    table t = {.o = options, .run = out};
    *out = (sb_head_run){.verdict = SB_HEAD_UNKNOWN};
    sb_status status = measure_table(&t, err);
    if (status && status != SB_ERR_MEMORY) {
        out->failed = 1;
        snprintf(out->why, sizeof out->why, "cannot run the head: %.500s", err->text);
        status = SB_OK;
    } else if (!status) {
        sb_head_judge(out);
        size_t n = strlen(out->why);
        if (*t.problem)
            snprintf(out->why + n, sizeof out->why - n, " (%s)", t.problem);
    }
    if (options->texts)
        free(t.texts);
    else
        sb_head_texts_free(t.texts, t.count);
    return status;
}
