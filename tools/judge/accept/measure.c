#include "tools/judge/accept/measure.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"

typedef struct work {
    sb_eagle3 *drafter; /* of options->drafter */
    sb_session *session;
    sb_rounds *rounds;
    const sb_accept_options *options;
    sb_accept *out;
    size_t V;
    float *logits;  /* (V) */
    uint64_t total; /* positions */
} work;

static float margin_of(const float *logits, size_t n)
{
    size_t best = sb_greedy(logits, n);
    float second = 0;
    int any = 0;
    for (size_t i = 0; i < n; i++)
        if (i != best && (!any || logits[i] > second)) {
            second = logits[i];
            any = 1;
        }
    return logits[best] - second;
}

/* E-1: "Only the row of the token itself is kept from this call": hence limit 1. */
static sb_status measure_position(work *w, const sb_accept_text *text, size_t at, uint32_t expected,
                                  sb_error *err)
{
    sb_accept_row *row = &w->out->rows[w->out->count];
    uint32_t token = text->ids[at];
    sb_round_ask ask = {.token = token, .drafts = w->options->drafts, .forced = -1, .limit = 1};
    sb_round round;
    const sb_accept_options *o = w->options;
    sb_status status =
        o->propose ? o->propose(o->propose_ctx, w->out->texts, at, w->out, &ask, err) : SB_OK;
    if (!status)
        status = sb_rounds_next(w->rounds, &ask, &round, err);
    if (status)
        return status;
    *row = (sb_accept_row){.text = w->out->texts,
                           .position = round.position,
                           .token = token,
                           .drafted = round.drafted,
                           .accepted = round.accepted,
                           .chosen = token == expected};
    memcpy(row->drafts, round.drafts, sizeof row->drafts);
    memcpy(row->target, round.chosen, (round.drafted + 1) * sizeof *row->target);
    for (size_t i = 0; i <= ask.drafts; i++)
        row->margin[i] = margin_of(sb_rounds_logits(w->rounds, i), w->V);
    w->out->drafting += row->drafted > 0;
    w->out->count++;
    if (w->options->progress)
        w->options->progress(w->options->progress_ctx, "positions", w->out->count, w->total);
    return SB_OK;
}

static size_t first_of(const sb_accept_text *text)
{
    return text->first ? text->first : 1;
}

/* Feeds the tokens before the first round; *choice receives the target's next token. */
static sb_status begin_text(work *w, const sb_accept_text *text, uint32_t *choice, sb_error *err)
{
    size_t first = first_of(text);
    sb_session_reset(w->session);
    sb_rounds_reset(w->rounds);
    sb_status status = sb_session_feed(w->session, text->ids, first, err);
    if (!status)
        status = sb_rounds_fed(w->rounds, text->ids, first, err);
    if (!status)
        status = sb_session_logits(w->session, first - 1, w->logits, err);
    if (!status)
        *choice = sb_greedy(w->logits, w->V);
    return status;
}

static sb_status measure_text(work *w, const sb_accept_text *text, sb_error *err)
{
    uint32_t choice = 0;
    size_t first = first_of(text);
    sb_status status = SB_OK;
    if (first < text->count) {
        w->out->tokens += text->count;
        status = begin_text(w, text, &choice, err);
    }
    for (size_t at = first; at < text->count && !status; at++) {
        status = measure_position(w, text, at, choice, err);
        choice = status ? 0 : w->out->rows[w->out->count - 1].target[0];
    }
    w->out->ends[w->out->texts++] = w->out->count;
    return status;
}

/* --- sums ------------------------------------------------------------------------------------- */

/* E-2: "accepted if all of its first j drafts are". flags (drafting), ends (texts): scratch */
static void sum_depth(sb_accept *a, size_t j, unsigned char *flags, size_t *ends)
{
    sb_rate *rate = &a->depth[j].rate;
    for (size_t t = 0, i = 0; t < a->texts; t++) {
        for (; i < a->ends[t]; i++)
            if (a->rows[i].drafted) {
                flags[rate->of] = a->rows[i].accepted > j;
                rate->accepted += flags[rate->of++];
            }
        ends[t] = (size_t)rate->of;
    }
    rate->effect = sb_design_effect(flags, ends, a->texts);
}

static sb_status sum_depths(sb_accept *a, sb_error *err)
{
    unsigned char *flags = sb_alloc(a->drafting, 1);
    size_t *ends = sb_alloc(a->texts, sizeof *ends);
    if (!flags || !ends) {
        free(flags);
        free(ends);
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for %zu positions", a->count);
    }
    for (size_t j = 0; j < a->drafts; j++) {
        sb_accept_depth *d = &a->depth[j];
        d->reached = j ? a->depth[j - 1].rate.accepted : a->drafting;
        sum_depth(a, j, flags, ends);
        d->interval = sb_rate_interval(&d->rate, SB_Z_SHOWN);
        a->accepted += d->rate.accepted;
    }
    free(flags);
    free(ends);
    return SB_OK;
}

static int by_id(const void *x, const void *y)
{
    uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    return (a > b) - (a < b);
}

/* E-9: "the token that the target chooses most often" */
static sb_status find_common(sb_accept *a, sb_error *err)
{
    uint32_t *ids = sb_alloc(a->count, sizeof *ids);
    if (!ids)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for %zu positions", a->count);
    for (size_t i = 0; i < a->count; i++)
        ids[i] = a->rows[i].target[0];
    qsort(ids, a->count, sizeof *ids, by_id);
    for (size_t i = 0, run = 0; i < a->count; i++) {
        run = i && ids[i] == ids[i - 1] ? run + 1 : 1;
        if (run > a->most_common) {
            a->most_common = run;
            a->common_token = ids[i];
        }
    }
    free(ids);
    return SB_OK;
}

static void begin_chain(sb_accept *a, size_t at)
{
    if (a->chain.texts++ == 0)
        a->chain.from = a->rows[at].position;
}

static void add_round(sb_accept *a, const sb_accept_row *row)
{
    a->chain.rounds += row->drafted > 0;
    a->chain.drafted += row->drafted;
    a->chain.accepted += row->accepted;
    for (size_t j = 0; j < row->accepted; j++)
        a->chain.by_depth[j]++;
}

/* E-6: "from the first position after which every token is the target's choice", to the last
 * round that ends within the text. */
static void follow_rounds(sb_accept *a, size_t first, size_t end)
{
    size_t at = end;
    while (at > first && a->rows[at - 1].chosen)
        at--;
    if (at == end)
        return;
    begin_chain(a, at);
    for (; at + a->rows[at].accepted + 1 < end; at += a->rows[at].accepted + 1)
        add_round(a, &a->rows[at]);
}

/* E-16: "as long as the text has a token that is not emitted yet" */
static void follow_answer(sb_accept *a, size_t first, size_t end)
{
    if (first == end)
        return;
    begin_chain(a, first);
    for (size_t at = first; at + 1 < end; at += a->rows[at].accepted + 1)
        add_round(a, &a->rows[at]);
}

static sb_status sum_up(sb_accept *a, int answered, sb_error *err)
{
    if (!a->drafting)
        return sb_fail(err, SB_ERR_INPUT, "the drafter has no draft at any of %zu positions",
                       a->count);
    for (size_t i = 0; i < a->count; i++)
        a->chosen += (uint64_t)a->rows[i].chosen;
    for (size_t t = 0, first = 0; t < a->texts; first = a->ends[t++])
        (answered ? follow_answer : follow_rounds)(a, first, a->ends[t]);
    sb_status status = sum_depths(a, err);
    return status ? status : find_common(a, err);
}

/* --- the whole -------------------------------------------------------------------------------- */

static sb_status prepare(work *w, const sb_model *model, const sb_accept_text *texts, size_t count,
                         sb_error *err)
{
    const sb_knobs *knobs = w->options->knobs;
    sb_session_options session = {.knobs = knobs,
                                  .mtp = !w->options->propose && !w->options->drafter};
    sb_round_options rounds = {.acceptance = SB_ACCEPT_match,
                               .rollback = !knobs || sb_knobs_have_row_states(knobs)
                                               ? SB_ROLLBACK_snapshots
                                               : SB_ROLLBACK_replay};
    if (w->options->drafts == 0 || w->options->drafts > SB_MAX_DRAFTS)
        return sb_fail(err, SB_ERR_USAGE, "the number of drafts per round is %zu; expected 1 to %d",
                       w->options->drafts, SB_MAX_DRAFTS);
    for (size_t i = 0; i < count; i++)
        w->total += texts[i].count > first_of(&texts[i]) ? texts[i].count - first_of(&texts[i]) : 0;
    if (w->total == 0)
        return sb_fail(err, SB_ERR_INPUT,
                       "no positions to measure: a text needs at least two tokens");
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < texts[i].count; k++)
            if (texts[i].ids[k] >= model->config.vocab_size)
                return sb_fail(err, SB_ERR_INPUT,
                               "text %zu, position %zu: token id %u; expected an id below %u, the "
                               "size of the vocabulary",
                               i, k, (unsigned)texts[i].ids[k], (unsigned)model->config.vocab_size);
    w->out->drafts = w->options->drafts;
    w->out->uneven = w->options->propose != NULL;
    w->out->rows = sb_alloc((size_t)w->total, sizeof *w->out->rows);
    w->out->ends = sb_alloc(count, sizeof *w->out->ends);
    w->V = model->config.vocab_size;
    w->logits = sb_alloc(w->V, sizeof *w->logits);
    if (!w->out->rows || !w->out->ends || !w->logits)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for %zu positions", (size_t)w->total);
    sb_status status =
        w->options->drafter ? sb_eagle3_open(w->options->drafter, model, &w->drafter, err) : SB_OK;
    if (!status && w->drafter)
        session.states = sb_eagle3_states(w->drafter);
    rounds.drafter = w->drafter;
    if (!status)
        status = sb_session_new(model, &session, &w->session, err);
    return status ? status : sb_rounds_new(w->session, &rounds, &w->rounds, err);
}

sb_status sb_accept_measure(const sb_model *model, const sb_accept_text *texts, size_t count,
                            const sb_accept_options *options, sb_accept *out, sb_error *err)
{
    work w = {.options = options, .out = out};
    *out = (sb_accept){0};
    sb_status status = prepare(&w, model, texts, count, err);
    for (size_t i = 0; i < count && !status; i++)
        status = measure_text(&w, &texts[i], err);
    sb_rounds_free(w.rounds);
    sb_session_free(w.session);
    sb_eagle3_close(w.drafter);
    free(w.logits);
    return status ? status : sum_up(out, options->answered, err);
}

void sb_accept_free(sb_accept *accept)
{
    free(accept->rows);
    free(accept->ends);
    *accept = (sb_accept){0};
}
