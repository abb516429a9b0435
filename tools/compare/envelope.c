/* envelope.c - sequences in lockstep, and how far they are apart. */
#include "tools/compare/envelope.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/rng.h"
#include "tools/compare/envelope_parts.h"
#include "tools/compare/wide_fn.h"

/* The longest sum of products of a model, attention aside: its weights sum to 1. */
static double longest_sum(const sb_config *c)
{
    const uint32_t widths[] = {
        2 * c->hidden_size, c->moe_intermediate,      c->shared_intermediate,
        c->intermediate,    sb_config_value_width(c), sb_config_query_width(c),
        c->lin_k_dim};
    uint32_t most = 0;
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        most = widths[i] > most ? widths[i] : most;
    return most;
}

/* T-41: "sqrt(1 + K/6 (2^-24 / u_act)^2)" times "sqrt(2 ln 2 (b + 40))" */
double sb_envelope_factor(const sb_model *model, const sb_knobs *knobs, size_t among)
{
    sb_format act = sb_act_format(knobs);
    double unit = act == SB_FORMAT_bf16 ? 0x1p-8 : act == SB_FORMAT_f16 ? 0x1p-11 : 0x1p-24;
    double ratio = 0x1p-24 / unit, bits = 0;
    while (bits < 63 && among > (size_t)1 << (unsigned)bits)
        bits++;
    double spread = 1 + longest_sum(&model->config) / 6 * ratio * ratio;
    return sb_wide_sqrt(spread) * sb_wide_sqrt(2 * 0.6931471805599453 * (bits + 40));
}

static sb_status new_lane(sb_envelope *e, const sb_envelope_options *options, size_t i,
                          sb_error *err)
{
    sb_envelope_lane *lane = &e->lanes[i];
    sb_session_options of = {
        .knobs = &e->knobs, .hook = sb_envelope_hook, .hook_ctx = lane, .mtp = options->mtp};
    lane->of = e;
    lane->number = i;
    lane->key = sb_rng_u64(sb_rng_key(options->seed, "envelope"), i);
    return sb_session_new(e->model, &of, &lane->session, err);
}

sb_status sb_envelope_new(const sb_model *model, const sb_envelope_options *options,
                          sb_envelope **out, sb_error *err)
{
    sb_envelope *e = sb_alloc(1, sizeof *e);
    if (!e)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for an envelope");
    e->model = model;
    if (options->knobs)
        e->knobs = *options->knobs;
    else
        sb_knobs_exact(&e->knobs);
    e->twin = options->twin;
    e->twin_ctx = options->twin_ctx;
    e->count = options->perturbed + 1;
    e->factor = sb_envelope_factor(model, &e->knobs, model->config.experts);
    e->lanes = sb_alloc(e->count, sizeof *e->lanes);
    e->logits = sb_alloc(model->config.vocab_size, sizeof *e->logits);
    sb_status status = e->lanes && e->logits
                           ? SB_OK
                           : sb_fail(err, SB_ERR_MEMORY, "out of memory for an envelope");
    for (size_t i = 0; i < e->count && !status; i++)
        status = new_lane(e, options, i, err);
    if (status) {
        sb_envelope_free(e);
        return status;
    }
    *out = e;
    return SB_OK;
}

void sb_envelope_free(sb_envelope *e)
{
    if (!e)
        return;
    for (size_t i = 0; e->lanes && i < e->count; i++) {
        sb_session_free(e->lanes[i].session);
        free(e->lanes[i].ids);
    }
    free(e->lanes);
    free(e->ids);
    free(e->router);
    free(e->spread);
    free(e->adopted);
    free(e->tape);
    free(e->logits);
    free(e);
}

void sb_envelope_adopt(sb_envelope *e, sb_expert_source source, void *ctx)
{
    e->source = source;
    e->source_ctx = ctx;
}

/* Room for the choices of a call; what is on record stays only while rows are fed again. */
static sb_status reserve(sb_envelope *e, size_t rows, sb_error *err)
{
    const sb_config *c = &e->model->config;
    size_t layers = (size_t)c->layers + 1, k = c->experts_per_token;
    int room = rows <= e->rows;
    if (!room) {
        free(e->ids);
        free(e->router);
        free(e->spread);
        e->ids = sb_alloc(layers * rows * k, sizeof *e->ids);
        e->router = sb_alloc(layers * rows * c->experts, sizeof *e->router);
        e->spread = sb_alloc(layers * rows, sizeof *e->spread);
        e->rows = rows;
        room = e->ids && e->router && e->spread;
        for (size_t i = 0; i < e->count; i++) {
            free(e->lanes[i].ids);
            e->lanes[i].ids = sb_alloc(rows * k, sizeof *e->lanes[i].ids);
            room = room && e->lanes[i].ids;
        }
        e->rows = room ? rows : 0;
    }
    return room ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "out of memory for a call of %zu rows", rows);
}

/* Before anything that makes ops run. */
static sb_status begin(sb_envelope *e, size_t rows, sb_error *err)
{
    sb_status status = reserve(e, rows, err);
    if (status)
        return status;
    e->tape_count = 0;
    for (size_t i = 0; i < e->count; i++)
        e->lanes[i].at = 0;
    memset(e->spread, 0, ((size_t)e->model->config.layers + 1) * e->rows * sizeof *e->spread);
    return SB_OK;
}

/* T-41: the bound of a router's logits, for those choices that were adopted. */
static void bound_adopted(sb_envelope *e)
{
    double samples = (double)(e->count - 1) * e->model->config.experts;
    for (size_t i = 0; i < e->adopted_count; i++) {
        sb_adopted *a = &e->adopted[i];
        double squares = e->spread[(size_t)a->layer * e->rows + a->row];
        a->bound = samples > 0 ? e->factor * sb_wide_sqrt(2 * squares / samples) : 0;
    }
}

sb_status sb_envelope_feed(sb_envelope *e, const uint32_t *tokens, size_t n, sb_error *err)
{
    e->adopted_count = 0;
    sb_status status = begin(e, n, err);
    for (size_t i = 0; i < e->count && !status; i++)
        status = sb_session_feed(e->lanes[i].session, tokens, n, err);
    bound_adopted(e);
    return status;
}

sb_status sb_envelope_verify(sb_envelope *e, const uint32_t *tokens, size_t n, sb_error *err)
{
    sb_rollback how =
        SB_IS(&e->knobs, delta_rule, recurrent) ? SB_ROLLBACK_snapshots : SB_ROLLBACK_replay;
    e->adopted_count = 0;
    sb_status status = begin(e, n, err);
    for (size_t i = 0; i < e->count && !status; i++)
        status = sb_session_verify(e->lanes[i].session, tokens, n, how, err);
    bound_adopted(e);
    return status;
}

/* Rows that are fed again choose what they chose the first time. */
sb_status sb_envelope_keep(sb_envelope *e, size_t kept, sb_error *err)
{
    sb_status status = begin(e, kept ? kept : 1, err);
    e->replaying = 1;
    for (size_t i = 0; i < e->count && !status; i++)
        status = sb_session_keep(e->lanes[i].session, kept, err);
    e->replaying = 0;
    return status;
}

void sb_envelope_reset(sb_envelope *e)
{
    for (size_t i = 0; i < e->count; i++) {
        sb_session_reset(e->lanes[i].session);
        e->lanes[i].strayed = 0;
    }
    e->adopted_count = 0;
}

/* T-43: "a sequence that strayed is made a copy of one that did not" */
sb_status sb_envelope_rejoin(sb_envelope *e, sb_error *err)
{
    sb_status status = SB_OK;
    for (size_t i = 1; i < e->count && !status; i++) {
        size_t from = i == 1 ? 0 : i - 1;
        if (!e->lanes[i].strayed)
            continue;
        status = sb_session_set_state(e->lanes[i].session, sb_session_state(e->lanes[from].session),
                                      err);
        e->lanes[i].strayed = 0;
    }
    return status;
}

static double squares_of(const float *a, const float *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        double d = (double)a[i] - (double)b[i];
        sum += d * d;
    }
    return sum;
}

/* Sums of squares of the lanes: [0] of the tight ones, [1] of the others. */
typedef struct sums {
    double squares[2];
    size_t lanes[2];
} sums;

static sb_noise noise_of(const sb_envelope *e, const sums *s, size_t n)
{
    double tight = s->lanes[0] ? s->squares[0] / ((double)s->lanes[0] * (double)n) : 0;
    double loose = s->lanes[1] ? s->squares[1] / ((double)s->lanes[1] * (double)n) : 0;
    sb_noise noise = {.tight = sb_wide_sqrt(tight),
                      .loose = sb_wide_sqrt(loose > tight ? loose : tight)};
    for (size_t i = 0; i < e->count; i++)
        noise.flipped |= e->lanes[i].strayed;
    return noise;
}

static void add_lane(const sb_envelope *e, size_t i, const float *logits, sums *s)
{
    size_t loose = sb_envelope_is_tight(e, i) ? 0 : 1;
    s->squares[loose] += squares_of(e->logits, logits, e->model->config.vocab_size);
    s->lanes[loose]++;
}

sb_status sb_envelope_logits(sb_envelope *e, size_t row, float *logits, sb_noise *noise,
                             sb_error *err)
{
    sums s = {{0}, {0}};
    e->tape_count = 0;
    e->lanes[0].at = 0;
    sb_status status = sb_session_logits(e->lanes[0].session, row, logits, err);
    for (size_t i = 1; i < e->count && !status; i++) {
        e->lanes[i].at = 0;
        status = sb_session_logits(e->lanes[i].session, row, e->logits, err);
        if (!status)
            add_lane(e, i, logits, &s);
    }
    *noise = noise_of(e, &s, e->model->config.vocab_size);
    return status;
}

sb_status sb_envelope_draft(sb_envelope *e, uint32_t token, float *logits, sb_noise *noise,
                            sb_error *err)
{
    sums s = {{0}, {0}};
    sb_status status = begin(e, 1, err);
    for (size_t i = 0; i < e->count && !status; i++) {
        float *to = i ? e->logits : logits;
        status = sb_session_draft(e->lanes[i].session, token, to, err);
        if (!status && i)
            add_lane(e, i, logits, &s);
    }
    *noise = noise_of(e, &s, e->model->config.vocab_size);
    return status;
}

void sb_envelope_forget_drafts(sb_envelope *e)
{
    for (size_t i = 0; i < e->count; i++)
        sb_session_forget_drafts(e->lanes[i].session);
}

const sb_adopted *sb_envelope_adopted(const sb_envelope *e, size_t *count)
{
    *count = e->adopted_count;
    return e->adopted;
}

const sb_session *sb_envelope_session(const sb_envelope *e, size_t i)
{
    return e->lanes[i].session;
}

/* The odd ones keep to the reference's experts; all do where another program's are known. */
int sb_envelope_is_tight(const sb_envelope *e, size_t i)
{
    return i % 2 == 1 || e->source != NULL || e->model->config.experts == 0;
}

size_t sb_envelope_count(const sb_envelope *e)
{
    return e->count;
}
