/* envelope.c - sequences in lockstep, and their distances. */
#include "tools/judge/compare/envelope.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/pool.h"
#include "ref/base/rng.h"
#include "ref/base/root.h"
#include "ref/ops/knob.h"
#include "tools/judge/compare/envelope_parts.h"

static int is_odd(size_t i)
{
    return i % 2 == 1;
}

/* The longest sum of products of a model. Attention does not count, because its weights sum to 1.
 */
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

/* The s of T-41: 2^-24, or twice the last bit that truncating accumulators keep. Truncation has
 * four times the variance of rounding to that bit. */
static double step_of(const sb_arithmetic *arithmetic)
{
    double step = 2;
    if (!arithmetic || !arithmetic->atom)
        return 0x1p-24;
    for (int i = 0; i < arithmetic->atom->fraction; i++)
        step /= 2;
    return step > 0x1p-24 ? step : 0x1p-24;
}

/* T-41: "sqrt(1 + K/6 (s / u_act)^2)" */
static double scale_of(const sb_model *model, const sb_arithmetic *arithmetic, double unit)
{
    double ratio = step_of(arithmetic) / unit;
    return sb_sqrt64(1 + longest_sum(&model->config) / 6 * ratio * ratio);
}

/* True if activations are binary32 and some op's input or some cache keeps fewer bits. */
static int rounds_later(const sb_knobs *knobs)
{
    return sb_act_format(knobs) == SB_FORMAT_f32 &&
           (SB_IS(knobs, linear_input, weight) || SB_IS(knobs, kv_cache, f16) ||
            SB_IS(knobs, scores, f16));
}

/* T-40: "every binary32 value is moved by m units in the last place" */
static uint32_t units_of(const sb_model *model, const sb_knobs *knobs,
                         const sb_arithmetic *arithmetic)
{
    const uint32_t most = 0x400000; /* half of a significand */
    double scale = rounds_later(knobs) ? scale_of(model, arithmetic, 0x1p-24) : 1;
    uint32_t units = scale < most ? (uint32_t)scale : most;
    return units + (uint32_t)(units < scale && units < most);
}

/* T-41: "sqrt(2 ln 2 (b + 40))" */
static double tail_of(size_t among)
{
    double bits = 0;
    while (bits < 63 && among > (size_t)1 << (unsigned)bits)
        bits++;
    return sb_sqrt64(2 * 0.6931471805599453 * (bits + 40));
}

/* T-40: "(F + 16 G + D) / (2 sqrt(80 ln 2)) of the program's library" */
static uint32_t units_of_functions(const sb_arithmetic *arithmetic)
{
    const sb_functions *f = (arithmetic ? arithmetic : &sb_arithmetic_library)->functions;
    /* error of silu(-16), in u: T-81 */
    const double error = f->exp + 16 * f->exp_slope + f->divide;
    const double units = error / (2 * tail_of(1));
    const uint32_t least = (uint32_t)units;
    return least + (uint32_t)(units > least);
}

/* T-41. The first factor "is left out where the runs were moved by it" */
double sb_envelope_factor(const sb_model *model, const sb_knobs *knobs,
                          const sb_arithmetic *arithmetic, size_t among)
{
    sb_format act = sb_act_format(knobs);
    double unit = act == SB_FORMAT_bf16 ? 0x1p-8 : act == SB_FORMAT_f16 ? 0x1p-11 : 0x1p-24;
    double scale = rounds_later(knobs) ? 1 : scale_of(model, arithmetic, unit);
    return scale * tail_of(among);
}

/* True if some op's input or some cache becomes codes, which have few values. */
static int has_codes(const sb_knobs *k)
{
    return !SB_IS(k, act_fp4, off) || !SB_IS(k, act_fp8_group, off) ||
           !SB_IS(k, act_fp8_token, off) || !SB_IS(k, act_fp8_static, off) ||
           !SB_IS(k, act_mx, off) || SB_IS(k, kv_cache, fp8);
}

static sb_status new_lane(sb_envelope *e, const sb_envelope_options *options, size_t i,
                          sb_error *err)
{
    sb_envelope_lane *lane = &e->lanes[i];
    sb_session_options of = {
        .knobs = &e->knobs, .hook = sb_envelope_hook, .hook_ctx = lane, .mtp = options->mtp};
    if (e->drafter)
        of.states = sb_eagle3_states(e->drafter);
    of.tap = sb_envelope_tap;
    of.tap_ctx = lane;
    lane->of = e;
    lane->number = i;
    lane->logits = sb_alloc(e->model->config.vocab_size, sizeof *lane->logits);
    if (!lane->logits)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for logits");
    lane->key = sb_rng_u64(sb_rng_key(options->seed, "envelope"), i);
    sb_status status = sb_session_new(e->model, &of, &lane->session, err);
    return status || !e->drafter
               ? status
               : sb_eagle3_drafts_new(e->drafter, lane->session, &lane->drafts, err);
}

sb_status sb_envelope_new(const sb_model *model, const sb_envelope_options *options,
                          sb_envelope **out, sb_error *err)
{
    sb_envelope *e = sb_alloc(1, sizeof *e);
    if (!e)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for an envelope");
    e->model = model;
    e->drafter = options->drafter;
    if (options->knobs)
        e->knobs = *options->knobs;
    else
        sb_knobs_exact(&e->knobs);
    e->twin = options->twin;
    e->twin_ctx = options->twin_ctx;
    e->coverage = options->coverage;
    e->replays = options->replays && model->config.experts;
    e->count = options->perturbed + 1;
    e->seed = options->seed;
    e->has_codes = has_codes(&e->knobs);
    e->units = units_of(model, &e->knobs, options->arithmetic);
    e->of_functions = units_of_functions(options->arithmetic);
    if (e->of_functions < e->units)
        e->of_functions = e->units;
    e->factor = sb_envelope_factor(model, &e->knobs, options->arithmetic, model->config.experts);
    e->input_factor = sb_envelope_factor(model, &e->knobs, options->arithmetic,
                                         (size_t)longest_sum(&model->config));
    e->input_tail = tail_of((size_t)longest_sum(&model->config));
    e->lanes = sb_alloc(e->count, sizeof *e->lanes);
    sb_status status =
        e->lanes ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "out of memory for an envelope");
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
        sb_eagle3_drafts_free(e->lanes[i].drafts);
        sb_session_free(e->lanes[i].session);
        free(e->lanes[i].ids);
        free(e->lanes[i].spread);
        free(e->lanes[i].apart);
        free(e->lanes[i].logits);
        sb_envelope_free_uncoded(&e->lanes[i]);
        if (e->lanes[i].of)
            sb_envelope_free_hidden(&e->lanes[i]);
    }
    free(e->lanes);
    free(e->ids);
    free(e->router);
    free(e->open);
    free(e->adopted);
    free(e->tape);
    free(e->fed);
    free(e);
}

void sb_envelope_adopt(sb_envelope *e, sb_expert_source source, void *ctx)
{
    e->source = source;
    e->source_ctx = ctx;
}

/* Allocates the choices of a call. Recorded choices stay only while rows are fed again. */
static sb_status reserve(sb_envelope *e, size_t rows, sb_error *err)
{
    const sb_config *c = &e->model->config;
    size_t layers = (size_t)c->layers + 1, k = c->experts_per_token;
    int room = rows <= e->rows;
    if (!room) {
        free(e->ids);
        free(e->router);
        free(e->open);
        e->open = sb_alloc(layers, rows);
        e->ids = sb_alloc(layers * rows * k, sizeof *e->ids);
        e->router = sb_alloc(layers * rows * c->experts, sizeof *e->router);
        e->rows = rows;
        room = e->ids && e->router && e->open;
        for (size_t i = 0; i < e->count; i++) {
            sb_envelope_lane *lane = &e->lanes[i];
            free(lane->ids);
            free(lane->spread);
            lane->ids = sb_alloc(rows * k, sizeof *lane->ids);
            lane->spread = sb_alloc(layers * rows, sizeof *lane->spread);
            room = room && lane->ids && lane->spread;
        }
        e->rows = room ? rows : 0;
    }
    return room ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "out of memory for a call of %zu rows", rows);
}

/* T-40: random numbers depend on the call, or, for requested logits, on the call and row. So
 * requests for logits do not change other random numbers. */
static void enter(sb_envelope *e, uint64_t row)
{
    e->moment = e->calls << 32 | row;
    e->tape_count = 0;
}

/* Prepares a call. */
static sb_status begin(sb_envelope *e, size_t rows, sb_error *err)
{
    sb_status status = reserve(e, rows, err);
    e->calls++;
    enter(e, 0);
    return status;
}

/* The work of a lane in a call. */
typedef struct task {
    sb_status (*run)(sb_envelope_lane *lane, const struct task *task);
    const uint32_t *tokens;
    size_t n; /* number of tokens or of kept rows, or a row */
} task;

static void run_lane(sb_envelope_lane *lane, const task *t)
{
    lane->at = 0;
    lane->ops = 0;
    lane->status = t->run(lane, t);
}

typedef struct others {
    sb_envelope *e;
    const task *t;
    size_t first, step;
} others;

static void other_lane(void *ctx, size_t i, size_t worker)
{
    const others *of = ctx;
    (void)worker;
    run_lane(&of->e->lanes[of->first + i * of->step], of->t);
}

/* Runs the lanes in parallel; one after the other with a twin, which may have a state. */
static void run_others(sb_envelope *e, const task *t, size_t first, size_t step)
{
    others of = {e, t, first, step};
    size_t count = e->count > first ? (e->count - first + step - 1) / step : 0;
    sb_parallel_in_order(count, !e->twin, other_lane, &of);
}

/* Allocates, for each tight run, the distance to every row of the tape. */
static sb_status reserve_apart(sb_envelope *e)
{
    for (size_t i = 1; i < e->count; i += 2) {
        double *apart = sb_realloc(e->lanes[i].apart, e->tape_count + 1, sizeof *apart);
        if (!apart)
            return SB_ERR_MEMORY;
        e->lanes[i].apart = apart;
    }
    return SB_OK;
}

/* Runs the reference first. The other lanes read its results, but not the results of each other.
 * With codes the tight lanes run before the loose ones, which read the distances of the tight
 * lanes. */
static sb_status run_all(sb_envelope *e, const task *t, sb_error *err)
{
    run_lane(&e->lanes[0], t);
    if (e->lanes[0].status)
        return sb_fail(err, e->lanes[0].status, "%s", e->lanes[0].err.text);
    if (e->has_codes && reserve_apart(e))
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a call");
    run_others(e, t, 1, e->has_codes ? 2 : 1);
    if (e->has_codes)
        run_others(e, t, 2, 2);
    for (size_t i = 1; i < e->count; i++)
        if (e->lanes[i].status)
            return sb_fail(err, e->lanes[i].status, "%s", e->lanes[i].err.text);
    return SB_OK;
}

int sb_envelope_takes(const sb_envelope_lane *lane, const char *what, uint64_t number)
{
    const sb_envelope *e = lane->of;
    uint64_t coin = sb_rng_u64(sb_rng_u64(sb_rng_key(e->seed, what), e->moment), number);
    return e->count < 5 || ((coin >> 63) + lane->number / 2) % 2;
}

/* S-15: makes the entries of the tokens that were fed and kept. */
static sb_status follow(sb_envelope_lane *lane, const task *t, sb_status status)
{
    if (status || !lane->drafts || !t->n)
        return status;
    return sb_eagle3_follow(lane->drafts, t->tokens, t->n, &lane->err);
}

static sb_status task_feed(sb_envelope_lane *lane, const task *t)
{
    return follow(lane, t, sb_session_feed(lane->session, t->tokens, t->n, &lane->err));
}

static sb_status task_verify(sb_envelope_lane *lane, const task *t)
{
    sb_rollback how =
        SB_IS(&lane->of->knobs, delta_rule, recurrent) ? SB_ROLLBACK_snapshots : SB_ROLLBACK_replay;
    return sb_session_verify(lane->session, t->tokens, t->n, how, &lane->err);
}

static sb_status task_keep(sb_envelope_lane *lane, const task *t)
{
    const int again = lane->of->anew && lane->number && !is_odd(lane->number);
    sb_status status = sb_session_keep(lane->session, again ? 0 : t->n, &lane->err);
    if (!status && again)
        status = sb_session_feed(lane->session, t->tokens, t->n, &lane->err);
    return follow(lane, t, status);
}

static sb_status task_logits(sb_envelope_lane *lane, const task *t)
{
    return sb_session_logits(lane->session, t->n, lane->logits, &lane->err);
}

static sb_status task_draft(sb_envelope_lane *lane, const task *t)
{
    uint32_t draft;
    if (lane->drafts)
        return sb_eagle3_draft(lane->drafts, t->tokens[0], lane->logits, &draft, &lane->err);
    return sb_session_draft(lane->session, t->tokens[0], lane->logits, &lane->err);
}

/* T-41: sets the bound of the router's logits for each adopted choice. */
static void bound_adopted(sb_envelope *e)
{
    for (size_t i = 0; i < e->adopted_count; i++) {
        sb_adopted *a = &e->adopted[i];
        a->bound = sb_envelope_router_bound(e, a->layer, a->row);
    }
}

static sb_status call(sb_envelope *e, const task *t, sb_error *err)
{
    e->adopted_count = 0;
    sb_status status = begin(e, t->n, err);
    if (!status)
        status = run_all(e, t, err);
    if (!status)
        bound_adopted(e);
    return status;
}

sb_status sb_envelope_feed(sb_envelope *e, const uint32_t *tokens, size_t n, sb_error *err)
{
    return call(e, &(task){task_feed, tokens, n}, err);
}

sb_status sb_envelope_verify(sb_envelope *e, const uint32_t *tokens, size_t n, sb_error *err)
{
    uint32_t *fed = sb_realloc(e->fed, n, sizeof *fed);
    if (!fed)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a call of %zu rows", n);
    memcpy(fed, tokens, n * sizeof *fed);
    e->fed = fed;
    e->verified = n;
    return call(e, &(task){task_verify, tokens, n}, err);
}

/* Rows that are fed again take the same experts as before, unless the engine itself fed them again.
 */
sb_status sb_envelope_keep(sb_envelope *e, size_t kept, sb_error *err)
{
    sb_status status = begin(e, kept ? kept : 1, err);
    e->replaying = 1;
    /* T-85: "an open choice of experts may fall differently when the row is fed again" */
    e->anew = !status && e->replays && kept < e->verified && sb_envelope_find_open(e, kept);
    if (!status)
        status = run_all(e, &(task){task_keep, e->fed, kept}, err);
    e->replaying = 0;
    return status;
}

int sb_envelope_chose_anew(const sb_envelope *e)
{
    return e->anew;
}

void sb_envelope_reset(sb_envelope *e)
{
    for (size_t i = 0; i < e->count; i++) {
        sb_session_reset(e->lanes[i].session);
        if (e->lanes[i].drafts)
            sb_eagle3_reset(e->lanes[i].drafts);
        e->lanes[i].strayed = 0;
    }
    e->adopted_count = 0;
}

/* The sequence whose state replaces that of strayed sequence i. If the model has codes, only
 * another loose sequence can, because its state contains loose codes, too. Returns i if no sequence
 * can. */
static size_t stand_in(const sb_envelope *e, size_t i)
{
    if (sb_envelope_is_tight(e, i) || !e->has_codes)
        return i - 1;
    for (size_t j = 1; j < e->count; j++)
        if (!sb_envelope_is_tight(e, j) && !e->lanes[j].strayed)
            return j;
    return i;
}

/* T-43: "a sequence that strayed is made a copy of one that did not" */
sb_status sb_envelope_rejoin(sb_envelope *e, sb_error *err)
{
    sb_status status = SB_OK;
    for (size_t i = 1; i < e->count && !status; i++) {
        size_t from = e->lanes[i].strayed ? stand_in(e, i) : i;
        if (from == i)
            continue;
        status = sb_session_set_state(e->lanes[i].session, sb_session_state(e->lanes[from].session),
                                      err);
        if (!status && e->drafter)
            status = sb_eagle3_assign(e->lanes[i].drafts, e->lanes[from].drafts, err);
        if (!status && sb_envelope_copy_uncoded(&e->lanes[i], &e->lanes[from]))
            status = sb_fail(err, SB_ERR_MEMORY, "out of memory for a sequence");
        e->lanes[i].strayed = 0;
    }
    return status;
}

/* T-42: "where a loose run has a larger mean square than the tight runs, the difference counts
 * twice" */
double sb_envelope_loose(const sb_envelope *e, double tight, double loose)
{
    if (loose <= tight)
        return tight;
    return e->has_codes ? tight + 2 * (loose - tight) : loose;
}

/* The distance of the logits of the other sequences from the reference's. */
static sb_noise noise_of(const sb_envelope *e, size_t V)
{
    size_t lanes[2] = {0};
    double squares[2] = {0};
    sb_noise noise = {0};
    for (size_t i = 1; i < e->count; i++) {
        size_t loose = sb_envelope_is_tight(e, i) ? 0 : 1;
        squares[loose] += sb_envelope_squares(e->lanes[i].logits, e->lanes[0].logits, V);
        lanes[loose]++;
        noise.flipped |= e->lanes[i].strayed;
    }
    double tight = lanes[0] ? squares[0] / ((double)lanes[0] * (double)V) : 0;
    double loose = lanes[1] ? squares[1] / ((double)lanes[1] * (double)V) : 0;
    noise.tight = sb_sqrt64(tight);
    noise.loose = sb_sqrt64(sb_envelope_loose(e, tight, loose));
    return noise;
}

static sb_status ask(sb_envelope *e, const task *t, size_t V, float *logits, sb_noise *noise,
                     sb_error *err)
{
    sb_status status = run_all(e, t, err);
    if (status)
        return status;
    memcpy(logits, e->lanes[0].logits, V * sizeof *logits);
    *noise = noise_of(e, V);
    return SB_OK;
}

sb_status sb_envelope_logits(sb_envelope *e, size_t row, float *logits, sb_noise *noise,
                             sb_error *err)
{
    enter(e, row + 1);
    return ask(e, &(task){task_logits, NULL, row}, e->model->config.vocab_size, logits, noise, err);
}

sb_status sb_envelope_draft(sb_envelope *e, uint32_t token, float *logits, sb_noise *noise,
                            sb_error *err)
{
    const size_t V =
        e->drafter ? sb_eagle3_config_of(e->drafter)->draft_vocab : e->model->config.vocab_size;
    sb_status status = begin(e, 1, err);
    return status ? status : ask(e, &(task){task_draft, &token, 1}, V, logits, noise, err);
}

void sb_envelope_forget_drafts(sb_envelope *e)
{
    for (size_t i = 0; i < e->count; i++)
        if (e->drafter)
            sb_eagle3_forget(e->lanes[i].drafts);
        else
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

/* Odd sequences keep the reference's experts. If another program's experts are known, all sequences
 * use those. */
int sb_envelope_keeps_experts(const sb_envelope *e, size_t i)
{
    return is_odd(i) || e->source != NULL || e->model->config.experts == 0;
}

int sb_envelope_is_tight(const sb_envelope *e, size_t i)
{
    return is_odd(i) || (!e->has_codes && sb_envelope_keeps_experts(e, i) && !e->lanes[i].strayed);
}

size_t sb_envelope_count(const sb_envelope *e)
{
    return e->count;
}
