/* test_gpu_session.c - a session whose calls are steps (ref/run/resident.h) has the bits of a
 * session of the same backend that runs op by op: rounds, their logits and the state after each of
 * them, for given and own drafts, any number of kept rows, greedy and sampled tokens, both rules of
 * acceptance, and states that come from elsewhere. */
#include "tests/lib/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/gpu.h"
#include "gpu/step/step.h"
#include "ref/base/mem.h"
#include "tests/lib/check_all.h"
#include "tests/mtp/play.h"

enum { ROWS = 20, POSITIONS = 300, MOST = 9 };

/* Settings of sampling; with draws from many tokens, since the models are sure of theirs. */
static const sb_sampling samplers[] = {
    {.top_p = 1},
    {.seed = 42, .temperature = 6, .top_k = 40, .top_p = 0.95f},
    {.seed = 7, .sequence = 3, .temperature = 3, .top_p = 1, .min_p = 0.01f},
};
enum { GREEDY, FILTERED, ALL };

typedef struct script {
    const char *preset, *format, *profile, *set; /* set: one knob, or NULL */
    unsigned layers; /* 0: as in the preset, which is also the number for `make check-all` */
    unsigned sampler;
    sb_acceptance acceptance;
    const char *words; /* see play */
} script;

typedef struct lane {
    sb_session *session;
    sb_rounds *rounds;
} lane;

typedef struct both {
    const script *script;
    sb_model *model;
    sb_knobs knobs;
    sb_gpu_step *step;
    sb_resident resident;
    lane by_op, on_step;
    size_t V, H, drawn; /* ids drawn so far */
    uint32_t token;     /* the last one, not yet fed */
    float *want, *got;  /* (MOST, V) */
    char why[sizeof(sb_error) + 128];
    sb_error err;
} both;

static int failed(const both *b)
{
    return b->why[0] != 0;
}
static void differ(both *b, const char *what, size_t at)
{
    if (!failed(b))
        snprintf(b->why, sizeof b->why, "%s %zu", what, at);
}
static void said(both *b, sb_status status)
{
    if (status && !failed(b))
        snprintf(b->why, sizeof b->why, "%s", b->err.text);
}

static void begin(both *b, lane *o, const sb_resident *resident)
{
    const script *s = b->script;
    const sb_session_options options = {.backend = sb_backend_emu(),
                                        .knobs = &b->knobs,
                                        .mtp = sb_model_has_mtp(b->model),
                                        .resident = resident};
    const sb_round_options how = {.sampling = &samplers[s->sampler],
                                  .acceptance = s->acceptance,
                                  .rollback = sb_knobs_have_row_states(&b->knobs)
                                                  ? SB_ROLLBACK_snapshots
                                                  : SB_ROLLBACK_replay};
    said(b, sb_session_new(b->model, &options, &o->session, &b->err));
    if (!failed(b))
        said(b, sb_rounds_new(o->session, &how, &o->rounds, &b->err));
}

static void open_both(both *b, const script *s)
{
    const sb_make_options make = {.dir = "model",
                                  .preset = s->preset,
                                  .format = s->format,
                                  .recipe = "predictable",
                                  .layers = check_all() ? 0 : s->layers,
                                  .group_size = strcmp(s->preset, "T6") == 0 ? 32 : 0,
                                  .replace = 1};
    *b = (both){.script = s, .err = {""}};
    b->model = test_model_open(test_checkpoint_with("test_gpu_session", &make));
    assert_int_equal(sb_knobs_profile(&b->knobs, s->profile, &b->err), SB_OK);
    if (s->set)
        assert_int_equal(sb_knobs_set(&b->knobs, s->set, &b->err), SB_OK);
    const sb_gpu_step_options limits = {.rows = ROWS,
                                        .slots = 5,
                                        .positions = POSITIONS,
                                        .mtp = sb_model_has_mtp(b->model),
                                        .fused = 1};
    b->V = b->model->config.vocab_size;
    b->H = b->model->config.hidden_size;
    b->want = sb_alloc(ROWS * b->V, sizeof(float));
    b->got = sb_alloc(ROWS * b->V, sizeof(float));
    assert_true(b->want && b->got);
    said(b, sb_gpu_step_open(sb_backend_emu(), b->model, &b->knobs, &limits, &b->step, &b->err));
    if (failed(b))
        return;
    b->resident = sb_gpu_step_resident(b->step);
    begin(b, &b->by_op, NULL);
    begin(b, &b->on_step, &b->resident);
}

static void close_both(both *b)
{
    const lane *all[] = {&b->by_op, &b->on_step};
    for (size_t i = 0; i < 2; i++) {
        sb_rounds_free(all[i]->rounds);
        sb_session_free(all[i]->session);
    }
    sb_gpu_step_close(b->step);
    sb_gpu_forget(sb_backend_emu());
    sb_model_close(b->model);
    free(b->want);
    free(b->got);
}

static void same_floats(both *b, const char *what, size_t at, const float *want, const float *got,
                        size_t n)
{
    if (!failed(b) && memcmp(want, got, n * sizeof *want) != 0)
        differ(b, what, at);
}

static void same_state(both *b)
{
    if (failed(b))
        return;
    said(b, sb_session_fetch_state(b->on_step.session, &b->err));
    if (failed(b))
        return;
    const sb_state *want = sb_session_state(b->by_op.session);
    const sb_state *got = sb_session_state(b->on_step.session);
    const char *where = want->position != got->position || want->mtp_entries != got->mtp_entries
                            ? "position or entries"
                            : play_difference(want, got);
    if (where)
        snprintf(b->why, sizeof b->why, "the state: %s", where);
    if (sb_session_position(b->on_step.session) != want->position)
        differ(b, "the position is not", (size_t)want->position);
}

/* Logits of all rows of the last call, which a step has computed for some rows only. */
static void same_logits(both *b)
{
    const size_t rows = sb_session_rows(b->by_op.session);
    if (rows != sb_session_rows(b->on_step.session))
        differ(b, "the number of rows is not", rows);
    if (failed(b))
        return;
    said(b, sb_session_logits_of(b->by_op.session, 0, rows, b->want, &b->err));
    said(b, sb_session_logits_of(b->on_step.session, 0, rows, b->got, &b->err));
    for (size_t t = 0; t < rows; t++)
        same_floats(b, "the logits of row", t, b->want + t * b->V, b->got + t * b->V, b->V);
}

static void prompt(both *b, size_t n)
{
    uint32_t ids[ROWS], token = 0;
    for (size_t i = 0; i < n; i++)
        ids[i] = (uint32_t)((b->drawn++ * 7919 + 13) % b->V);
    said(b, sb_session_feed(b->by_op.session, ids, n, &b->err));
    said(b, sb_session_feed(b->on_step.session, ids, n, &b->err));
    if (failed(b))
        return;
    said(b, sb_session_logits(b->by_op.session, n - 1, b->want, &b->err));
    said(b, sb_session_logits(b->on_step.session, n - 1, b->got, &b->err));
    same_floats(b, "the logits of the prompt, row", n - 1, b->want, b->got, b->V);
    const uint64_t position = sb_session_position(b->on_step.session);
    said(b, sb_rounds_pick(b->by_op.rounds, b->want, position, &b->token, &b->err));
    said(b, sb_rounds_pick(b->on_step.rounds, b->got, position, &token, &b->err));
    if (token != b->token)
        differ(b, "the token after the prompt is not", b->token);
    same_state(b);
}

static void same_round(both *b, const sb_round *want, const sb_round *got, int given)
{
    if (want->position != got->position || want->accepted != got->accepted ||
        want->emitted != got->emitted)
        differ(b, "the accepted drafts are not", want->accepted);
    for (size_t i = 0; i < want->drafted; i++) {
        if (want->drafts[i] != got->drafts[i])
            differ(b, "draft", i);
        if (!given)
            same_floats(b, "the logits of draft", i, sb_rounds_draft_logits(b->by_op.rounds, i),
                        sb_rounds_draft_logits(b->on_step.rounds, i), b->V);
    }
    for (size_t i = 0; i <= want->drafted; i++) {
        same_floats(b, "the logits of row", i, sb_rounds_logits(b->by_op.rounds, i),
                    sb_rounds_logits(b->on_step.rounds, i), b->V);
        if (want->chosen[i] != got->chosen[i])
            differ(b, "the token of row", i);
    }
    for (size_t i = 0; i < want->emitted; i++)
        if (want->tokens[i] != got->tokens[i])
            differ(b, "token", i);
}

/* forced: -1, or the number of drafts that are accepted. */
static void play_one_round(both *b, size_t drafts, int forced, int given)
{
    uint32_t ids[MOST];
    sb_round want, got;
    for (size_t i = 0; i < drafts; i++)
        ids[i] = (uint32_t)((b->drawn++ * 31 + 5) % b->V);
    const sb_round_ask ask = {
        .token = b->token, .drafts = drafts, .given = given ? ids : NULL, .forced = forced};
    said(b, sb_rounds_next(b->by_op.rounds, &ask, &want, &b->err));
    if (!failed(b))
        said(b, sb_rounds_next(b->on_step.rounds, &ask, &got, &b->err));
    if (failed(b))
        return;
    same_round(b, &want, &got, given);
    same_state(b);
    b->token = want.tokens[want.emitted - 1];
}

/* Both continue from a copy of the state of the session op by op, the step after it was empty. */
static void hand_over(both *b)
{
    sb_state *state = play_copy(sb_session_state(b->by_op.session));
    sb_session_reset(b->on_step.session);
    said(b, sb_session_set_state(b->by_op.session, state, &b->err));
    said(b, sb_session_set_state(b->on_step.session, state, &b->err));
    sb_state_free(state);
    same_state(b);
}

/* Plays words: p5 a prompt of 5 tokens, r3 a round with 3 drafts of the head, f31 such a round in
 * which 1 draft is accepted, g2 a round with 2 given drafts, l the logits of all rows, s a state
 * from elsewhere, x empty sequences. Only `make check-all` plays the words after a bar. Returns the
 * difference, or NULL. */
static const char *play(both *b)
{
    for (const char *at = b->script->words; *at && !failed(b); at++) {
        const char word = *at;
        if (word == '|' && !check_all())
            break;
        char *end;
        const size_t n = strtoul(at + 1, &end, 10);
        if (word == 'p')
            prompt(b, n);
        else if (word == 'r' || word == 'g')
            play_one_round(b, n, -1, word == 'g');
        else if (word == 'f')
            play_one_round(b, n / 10, (int)(n % 10), 0);
        else if (word == 'l')
            same_logits(b);
        else if (word == 's')
            hand_over(b);
        else if (word == 'x') {
            sb_session_reset(b->by_op.session);
            sb_session_reset(b->on_step.session);
            same_state(b);
        }
        if (failed(b)) {
            const size_t length = strlen(b->why);
            snprintf(b->why + length, sizeof b->why - length, ", at \"%s\"", at);
        }
        if (strchr("prgf", word))
            at = end - 1;
    }
    return failed(b) ? b->why : NULL;
}

/* --- the same bits ---------------------------------------------------------------------------- */
static const char rounds[] = "p5 r0 r3 f31 r2 g2 | r1 f20 s r3 p18 l r4";

/* A script that begins with a bar is skipped without making its checkpoint. */
static const script scripts[] = {
    {"T1", "bf16", "sm121", NULL, 4, GREEDY, SB_ACCEPT_match, rounds},
    {"T4", "bf16", "sm121", NULL, 0, GREEDY, SB_ACCEPT_match,
     "p3 l r1 l f20 r0 s r2 g3 x p1 l r3 p18 l r0 | p20 r4 f42"},
    {"T1", "fp8-block", "sm121-w8a8", NULL, 4, FILTERED, SB_ACCEPT_match, "p4 r2 r0 f21 | s r3"},
    {"T2", "nvfp4-ct", "sm121", "kv_cache=fp8", 1, GREEDY, SB_ACCEPT_match,
     "| p3 r1 s r2 f10 p17 r3 s r2"},
    {"T3", "nvidia-mix", "sm121-w8a8", NULL, 4, ALL, SB_ACCEPT_residual, "p3 r2 r3 | r1 s r2"},
    {"T4", "nvfp4-ct", "sm121-w4a4", NULL, 8, ALL, SB_ACCEPT_residual, "p2 r3 f32 s | r2 r1"},
    {"T5", "fp8-channel", "sm121-w8a8", "delta_rule=prompt_fla", 0, GREEDY, SB_ACCEPT_match,
     "| p3 r1 f10 p18 r2"},
    {"T6", "int8-gptq", "sm121", "delta_rule=chunk_fla", 1, FILTERED, SB_ACCEPT_match,
     "| p3 r0 s r0 p18 r0"},
    {"T4", "int4-gptq", "sm121", "mtp_first=zeros", 0, GREEDY, SB_ACCEPT_match, "p1 r2 s f21 r1"},
    {"T4", "mxfp4", "sm121", "mtp_recycled=residual", 0, GREEDY, SB_ACCEPT_match, "| p2 r3 f31 r2"},
};

TEST(test_bits)
{
    sb_backend_emu_history(0);
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        both b;
        if (*scripts[i].words == '|' && !check_all())
            continue;
        open_both(&b, &scripts[i]);
        const char *found = failed(&b) ? b.why : play(&b);
        if (found)
            fail_msg("%s %s %s: %s", scripts[i].preset, scripts[i].format, scripts[i].profile,
                     found);
        close_both(&b);
    }
}

/* --- detection of faults ---------------------------------------------------------------------- */
/* step_token leaves a wrong token for the next step, and a session always gives its own token. */
TEST(test_faults)
{
    static const struct {
        const char *plant, *words, *said; /* said: NULL for a fault that must not be seen */
    } rows[] = {{"step_kept", "p3 f20 r0", "the state: position"},
                {"step_slot", "p3 r0", "the state: layer 0"},
                {"slot_first", "p3 f21 r0", "the logits of row 0"},
                {"step_position", "p3 r0", "the state: position"},
                {"step_token", "p3 r2 r0", NULL}};
    sb_backend_emu_history(0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int planted = 0; planted < 2; planted++) { /* once without the fault */
            const script s = {"T4", "bf16", "sm121",         NULL,
                              0,    GREEDY, SB_ACCEPT_match, rows[i].words};
            both b;
            open_both(&b, &s);
            sb_gpu_plant(planted ? rows[i].plant : NULL);
            const char *found = failed(&b) ? b.why : play(&b);
            sb_gpu_plant(NULL);
            const int seen = planted && rows[i].said;
            if (seen ? !found || !strstr(found, rows[i].said) : found != NULL)
                fail_msg("%s: %s", rows[i].plant, found ? found : "not seen");
            close_both(&b);
        }
}

/* --- what a step does not do ------------------------------------------------------------------ */
static void refused(both *b, sb_status status, sb_status expected, const char *words)
{
    if (status != expected || !strstr(b->err.text, words))
        fail_msg("status %d: %s", (int)status, b->err.text);
}

static sb_status no_tap(void *ctx, const char *name, float *data, size_t rows, size_t cols,
                        sb_error *err)
{
    (void)ctx, (void)name, (void)data, (void)rows, (void)cols, (void)err;
    return SB_OK;
}

TEST(test_refusals)
{
    const script s = {"T4", "bf16", "sm121", NULL, 0, GREEDY, SB_ACCEPT_match, "p3 r1"};
    const uint32_t ids[ROWS + 1] = {1, 2, 3};
    both b;
    sb_session *session = NULL;
    open_both(&b, &s);
    sb_session_options options = {.backend = sb_backend_emu(),
                                  .knobs = &b.knobs,
                                  .tap = no_tap,
                                  .mtp = 1,
                                  .resident = &b.resident};
    refused(&b, sb_session_new(b.model, &options, &session, &b.err), SB_ERR_USAGE, "no taps");
    options.tap = NULL;
    options.mtp = 0;
    refused(&b, sb_session_new(b.model, &options, &session, &b.err), SB_ERR_USAGE, "both have");
    assert_null(play(&b));
    lane *const o = &b.on_step;
    /* a state that no cache of bfloat16 can hold */
    sb_state *state = play_copy(sb_session_state(b.by_op.session));
    const uint32_t full = b.model->config.layers; /* the head */
    state->layers[full].keys[0] = 1.0f / 3;
    refused(&b, sb_session_set_state(o->session, state, &b.err), SB_ERR_USAGE, "no bfloat16");
    refused(&b, sb_session_feed(o->session, ids, 1, &b.err), SB_ERR_USAGE, "failed earlier");
    /* a session without any row of its verify cannot go on; after a reset it can */
    sb_session_reset(o->session);
    assert_int_equal(sb_session_feed(o->session, ids, 3, &b.err), SB_OK);
    assert_null(sb_session_state(o->session));
    assert_int_equal(sb_session_verify(o->session, ids, 2, SB_ROLLBACK_snapshots, &b.err), SB_OK);
    refused(&b, sb_session_keep(o->session, 0, &b.err), SB_ERR_UNSUPPORTED, "at least one row");
    refused(&b, sb_session_feed(o->session, ids, 1, &b.err), SB_ERR_USAGE, "failed earlier");
    sb_session_reset(o->session);
    assert_int_equal(sb_session_feed(o->session, ids, 1, &b.err), SB_OK);
    refused(&b, sb_session_feed(o->session, ids, ROWS + 1, &b.err), SB_ERR_USAGE, "expected 1 to");
    /* S-6: a value that is not finite, from a state */
    sb_session_reset(o->session);
    sb_session_reset(b.by_op.session);
    assert_int_equal(sb_session_feed(b.by_op.session, ids, 3, &b.err), SB_OK);
    sb_state_free(state);
    state = play_copy(sb_session_state(b.by_op.session));
    for (uint32_t i = 0; i < b.model->config.layers; i++)
        if (state->layers[i].recurrent)
            state->layers[i].recurrent[0] = NAN;
    assert_int_equal(sb_session_set_state(o->session, state, &b.err), SB_OK);
    assert_int_equal(sb_session_feed(o->session, ids, 1, &b.err), SB_OK);
    refused(&b, sb_session_logits(o->session, 0, b.got, &b.err), SB_ERR_NUMERIC, "is not finite");
    refused(&b, sb_session_fetch_state(o->session, &b.err), SB_ERR_NUMERIC, "is not finite");
    sb_state_free(state);
    close_both(&b);
}
