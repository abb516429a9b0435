#include "tests/unit/free_play.h"

#include "tests/lib/cmocka.h"

#include <stdlib.h>
#include <string.h>

#include "ref/ops/knob.h"
#include "tools/judge/sim/sim.h"
#include "tools/judge/trace/capture.h"

enum { PROMPT = 9 };

typedef struct table {
    free_play *p;
    sb_free *free;
    sb_capture *capture;
    sb_slip_game game;
    const sb_planted *slip;
} table;

static sb_status take(void *ctx, const sb_step *step, sb_error *err)
{
    table *t = ctx;
    if (t->p->spoil)
        t->p->spoil(t->p, (sb_step *)(uintptr_t)step);
    return sb_free_step(t->free, step, err);
}

#define MUST(call)                                                                                 \
    do {                                                                                           \
        sb_error err = {""};                                                                       \
        if (call)                                                                                  \
            fail_msg("%s", err.text);                                                              \
    } while (0)

static void at(table *t, sb_slip_stage stage)
{
    if (t->slip)
        t->slip->at(&t->game, stage);
}

/* The greedy token of a row of the last call. */
static uint32_t give(table *t, size_t row)
{
    size_t V = t->p->model->config.vocab_size;
    float *logits = malloc(V * sizeof *logits);
    assert_non_null(logits);
    MUST(sb_session_logits(t->game.session, row, logits, &err));
    uint32_t token = sb_greedy(logits, V);
    free(logits);
    return token;
}

static void open_sides(table *t)
{
    free_play *p = t->p;
    static const char *const taps[] = {"none", "logits", "logits,mtp.logits", "logits,mtp.logits",
                                       "logits,mtp.logits,layers.*.mlp.router_ids"};
    sb_free_options options = {.knobs = p->knobs,
                               .arithmetic = p->arithmetic,
                               .perturbed = p->perturbed,
                               .seed = 7,
                               .verdicts = &p->v,
                               .mtp = p->drafts && p->level >= 2,
                               .external = p->external,
                               .greedy = 1,
                               .explain = p->explain};
    sb_capture_options capture = {.taps = taps[p->level],
                                  .states =
                                      p->level >= 3 ? SB_CAPTURE_ALL_STATES : SB_CAPTURE_NO_STATES,
                                  .take = take,
                                  .take_ctx = t};
    sb_session_options session = {.backend = p->backend,
                                  .knobs = p->engine ? p->engine : p->knobs,
                                  .tap = slip_watch,
                                  .tap_ctx = &t->game,
                                  .hook = p->hook,
                                  .hook_ctx = p->hook_ctx,
                                  .mtp = p->drafts};
    t->game.model = p->model;
    MUST(sb_free_new(p->model, &options, &t->free, &err));
    MUST(sb_capture_new(&capture, &t->capture, &err));
    sb_capture_join(t->capture, &session);
    MUST(sb_session_new(p->model, &session, &t->game.session, &err));
    sb_capture_follow(t->capture, t->game.session, 0, 0);
    t->game.live = (sb_state *)sb_session_state(t->game.session); /* where mistakes are planted */
    t->slip = p->slip ? sb_planted_find(sb_slips, p->slip) : NULL;
    assert_true(!p->slip || t->slip);
}

static void close_sides(table *t)
{
    sb_free_free(t->free);
    sb_capture_free(t->capture);
    sb_session_free(t->game.session);
    for (size_t n = 0; n < SB_MAX_DRAFTS + 2; n++)
        sb_state_free(t->game.slot[n]);
    for (size_t i = 0; i < SB_SLIP_LAYERS; i++)
        free(t->game.g[i]);
    free(t->game.stream);
    free(t->game.embedded);
    free(t->game.last);
    free(t->game.recycled);
    free(t->game.stored);
}

static void say(table *t, uint32_t token)
{
    if (t->p->count < FREE_TOKENS)
        t->p->tokens[t->p->count++] = token;
}

/* Drafts of the head, or drafts of the oracle with every third one wrong. */
static void propose(table *t, sb_round *round, size_t number, uint32_t token)
{
    size_t V = t->p->model->config.vocab_size, at = (size_t)round->position + 1;
    for (size_t j = 0; t->p->oracle && j < round->drafted; j++)
        round->drafts[j] = (uint32_t)((t->p->oracle[at + j] + ((number + j) % 3 == 2)) % V);
    if (t->p->oracle)
        return;
    float *logits = malloc(V * sizeof *logits);
    assert_non_null(logits);
    for (size_t j = 0; j < round->drafted; j++) {
        MUST(sb_session_draft(t->game.session, token, logits, &err));
        token = round->drafts[j] = sb_greedy(logits, V);
    }
    free(logits);
}

/* Some rounds have no drafts. */
static uint32_t play_one(table *t, size_t i, uint32_t token)
{
    sb_slip_game *g = &t->game;
    sb_round round = {.position = g->live->position, .drafted = t->p->drafts ? i * 7 % 5 % 4 : 0};
    uint32_t fed[SB_MAX_DRAFTS + 1] = {token};
    int recurrent = !t->p->engine || SB_IS(t->p->engine, delta_rule, recurrent);
    recurrent = recurrent && (!t->p->knobs || SB_IS(t->p->knobs, delta_rule, recurrent));
    g->before = g->accepted;
    g->drafts = round.drafted;
    sb_capture_round(t->capture, i);
    at(t, SB_SLIP_begin);
    propose(t, &round, i, token);
    memcpy(fed + 1, round.drafts, round.drafted * sizeof *fed);
    MUST(sb_session_verify(g->session, fed, round.drafted + 1,
                           recurrent ? SB_ROLLBACK_snapshots : SB_ROLLBACK_replay, &err));
    for (size_t n = 0; n < SB_MAX_DRAFTS + 2; n++) {
        sb_state_free(g->slot[n]);
        g->slot[n] = NULL;
        if (recurrent && n <= round.drafted + 1)
            MUST(sb_session_state_at(g->session, n, &g->slot[n], &err));
    }
    for (size_t row = 0; row <= round.drafted; row++) {
        uint32_t given = give(t, row);
        if (row == round.emitted)
            round.tokens[round.emitted++] = given;
        if (row == round.accepted && row < round.drafted && given == round.drafts[row])
            round.accepted++;
        else if (row + 1 == round.emitted)
            row = round.drafted;
    }
    g->accepted = round.accepted;
    MUST(sb_session_keep(g->session, round.emitted, &err));
    MUST(sb_capture_end(t->capture, &round, &err));
    at(t, SB_SLIP_kept);
    for (size_t n = 0; n < round.emitted; n++)
        say(t, round.tokens[n]);
    return round.tokens[round.emitted - 1];
}

void free_play_run(free_play *p)
{
    table *t = calloc(1, sizeof *t);
    uint32_t ids[PROMPT], most = p->model->config.vocab_size;
    assert_non_null(t);
    t->p = p;
    p->count = 0;
    p->v = (sb_verdicts){0};
    open_sides(t);
    test_draw_ids("free", most < 300 ? most : 300, ids, PROMPT);
    for (size_t i = 0; i < PROMPT; i++)
        say(t, ids[i]);
    test_feed(t->game.session, ids, PROMPT);
    uint32_t token = give(t, PROMPT - 1);
    say(t, token);
    MUST(sb_capture_end(t->capture, NULL, &err));
    for (size_t i = 0; i < p->rounds; i++)
        token = play_one(t, i, token);
    MUST(sb_capture_finish(t->capture, &err));
    MUST(sb_free_finish(t->free, &err));
    close_sides(t);
    free(t);
}

const sb_backend *free_play_sim(const char *name)
{
    const sb_sim *found = NULL;
    sb_error err = {""};
    if (sb_sim_find(name, &found, &err))
        fail_msg("%s", err.text);
    return &found->backend;
}

double free_play_worst(const sb_verdicts *v)
{
    double most = 0;
    for (size_t i = 0; i < v->token_count; i++)
        most = v->tokens[i].worst_ratio > most ? v->tokens[i].worst_ratio : most;
    return most;
}
