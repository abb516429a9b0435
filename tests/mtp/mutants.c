/* mutants.c - the script, the driver, and the list. */
#include "ref/base/pool.h"
#include "tests/mtp/mutants.h"

#include "tests/lib/cmocka.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/poison.h"

#define SB_ROW(where_, by, with_, words_, benign_)                                                 \
    {.name = #by,                                                                                  \
     .where = #where_,                                                                             \
     .with = with_,                                                                                \
     .words = words_,                                                                              \
     .benign = benign_,                                                                            \
     .at = sb_slip_##by},
const sb_planted slip_list[] = {
#define SB_PLANTED(kind, where, by, with, words) SB_ROW(where, by, with, words, 0)
#define SB_HARMLESS(kind, where, by, with, words) SB_ROW(where, by, with, words, 1)
#include "tests/mtp/mutants.def"
#undef SB_PLANTED
#undef SB_HARMLESS
    {.name = NULL}};

const char slip_letters[] = "PKCREHLT";

enum { PROMPT = 9 };

/* The drafts of each round, and how many of them are accepted. Rounds with all, some or no drafts
 * accepted alternate with rounds without drafts. */
static const struct {
    size_t drafts, accepted;
} script[SLIP_ROUNDS] = {{3, 1}, {2, 0}, {3, 2}, {0, 0}, {4, 4}, {0, 0},
                         {0, 0}, {1, 0}, {3, 3}, {5, 2}, {1, 1}, {8, 3}};

static void add_kv(sb_hash *hash, const sb_state *s, uint32_t layer)
{
    size_t n = (size_t)sb_state_kv_rows(s, layer) * sb_state_kv_row(s->config);
    sb_hash_f32(hash, s->layers[layer].keys, n);
    sb_hash_f32(hash, s->layers[layer].values, n);
}

/* One piece of the state: a letter of slip_letters. */
static sb_digest piece_of(const sb_state *s, char letter)
{
    const sb_config *c = s->config;
    sb_hash *hash = sb_hash_new();
    assert_non_null(hash);
    sb_hash_u64(hash, letter == 'P' ? s->position : letter == 'E' ? s->mtp_entries : 0);
    for (uint32_t i = 0; i < c->layers; i++)
        if (letter == 'K' && sb_state_is_full(s, i))
            add_kv(hash, s, i);
        else if (letter == 'C' && !sb_state_is_full(s, i))
            sb_hash_f32(hash, s->layers[i].conv, sb_state_conv_size(c));
        else if (letter == 'R' && !sb_state_is_full(s, i))
            sb_hash_f32(hash, s->layers[i].recurrent, sb_state_recurrent_size(c));
    if (letter == 'E')
        add_kv(hash, s, c->layers);
    if (letter == 'H')
        sb_hash_f32(hash, s->mtp_hidden, c->hidden_size);
    sb_digest digest = sb_hash_end(hash);
    sb_hash_free(hash);
    return digest;
}

static void see_state(const sb_slip_game *game, slip_seen *seen)
{
    for (size_t i = 0; i < 6; i++)
        seen->of[i] = piece_of(game->live, slip_letters[i]);
}

void slip_keep(float **to, const float *data, size_t count)
{
    *to = realloc(*to, count * sizeof **to);
    assert_non_null(*to);
    memcpy(*to, data, count * sizeof **to);
}

/* Keeps the values of a call that mistakes need. */
sb_status slip_watch(void *ctx, const char *name, float *data, size_t rows, size_t cols,
                     sb_error *err)
{
    sb_slip_game *game = ctx;
    unsigned layer;
    char rest[64];
    (void)err;
    if (strcmp(name, "embed") == 0) {
        if (game->rows)
            slip_keep(&game->last, game->embedded + (game->rows - 1) * cols, cols);
        slip_keep(&game->embedded, data, rows * cols);
        game->rows = rows;
    } else if (strcmp(name, "mtp.norm") == 0) {
        game->head = data;
    } else if (strcmp(name, "mtp.layers.0.output") == 0) {
        slip_keep(&game->stream, data, rows * cols);
    } else if (sscanf(name, "layers.%u.%63s", &layer, rest) == 2 && layer < SB_SLIP_LAYERS &&
               strcmp(rest, "linear_attn.g") == 0) {
        slip_keep(&game->g[layer], data, rows * cols);
    }
    return SB_OK;
}

static void at(sb_slip_game *game, const sb_planted *s, sb_slip_stage stage)
{
    if (s)
        s->at(game, stage);
}

/* Makes the head's drafts after `token`: a digest of their logits, and their ids. */
static sb_digest draft(sb_slip_game *game, const sb_planted *s, uint32_t token, uint32_t *ids)
{
    size_t V = game->model->config.vocab_size;
    float *logits = malloc((SB_MAX_DRAFTS * V + 1) * sizeof *logits);
    sb_error err = {""};
    assert_non_null(logits);
    for (game->draft = 0; game->draft < game->drafts; game->draft++) {
        float *mine = logits + game->draft * V;
        at(game, s, SB_SLIP_draft);
        game->drafting = 1;
        if (sb_session_draft(game->session, game->draft ? ids[game->draft - 1] : token, mine, &err))
            fail_msg("%s", err.text);
        game->drafting = 0;
        at(game, s, SB_SLIP_drafted);
        ids[game->draft] = sb_greedy(mine, V);
    }
    sb_digest digest = test_digest(logits, game->drafts * V * sizeof *logits);
    free(logits);
    return digest;
}

static uint32_t verify_by_rounds(sb_slip_game *game, const uint32_t *tokens)
{
    sb_round round = play_round(game->rounds, &(sb_round_ask){.token = tokens[0],
                                                              .drafts = game->drafts,
                                                              .given = tokens + 1,
                                                              .forced = (int)game->accepted});
    assert_int_equal(round.accepted, game->accepted);
    return round.tokens[game->accepted];
}

/* Verifies the script's drafts and keeps as many as the script says. Returns the token after
 * them. */
static uint32_t verify(sb_slip_game *game, const sb_planted *s, const uint32_t *tokens)
{
    size_t rows = game->drafts + 1, V = game->model->config.vocab_size;
    float *logits = malloc(V * sizeof *logits);
    sb_error err = {""};
    assert_non_null(logits);
    if (sb_session_verify(game->session, tokens, rows, game->rollback, &err))
        fail_msg("%s", err.text);
    for (size_t n = 0; n <= rows; n++) {
        sb_state_free(game->slot[n]);
        game->slot[n] = NULL;
        if (game->rollback == SB_ROLLBACK_snapshots)
            assert_int_equal(sb_session_state_at(game->session, n, &game->slot[n], &err), SB_OK);
    }
    assert_int_equal(sb_session_logits(game->session, game->accepted, logits, &err), SB_OK);
    uint32_t token = sb_greedy(logits, V);
    assert_int_equal(sb_session_keep(game->session, game->accepted + 1, &err), SB_OK);
    free(logits);
    at(game, s, SB_SLIP_kept);
    return token;
}

static uint32_t prompt(sb_slip_game *game, const sb_planted *s)
{
    uint32_t ids[PROMPT];
    test_draw_ids("slips", game->model->config.vocab_size, ids, PROMPT);
    at(game, s, SB_SLIP_start);
    test_feed(game->session, ids, game->prompt_call);
    at(game, s, SB_SLIP_prompt);
    test_feed(game->session, ids + game->prompt_call, PROMPT - game->prompt_call);
    uint32_t token = play_greedy(game->session);
    at(game, s, SB_SLIP_primed);
    return token;
}

static void play_script(sb_slip_game *game, const sb_planted *s, slip_run *run)
{
    uint32_t token = prompt(game, s);
    see_state(game, &run->seen[0]);
    for (size_t i = 0; i < SLIP_ROUNDS; i++) {
        slip_seen *begin = &run->seen[2 * i + 1], *end = begin + 1;
        uint32_t tokens[SB_MAX_DRAFTS + 1] = {token};
        char name[32];
        game->before = i ? game->accepted : 0;
        game->drafts = script[i].drafts;
        game->accepted = script[i].accepted;
        at(game, s, SB_SLIP_begin);
        see_state(game, begin);
        begin->of[6] = draft(game, s, token, run->drafted[i]);
        snprintf(name, sizeof name, "slips %zu", i);
        test_draw_ids(name, game->model->config.vocab_size, tokens + 1, game->drafts);
        token = game->by_rounds ? verify_by_rounds(game, tokens) : verify(game, s, tokens);
        see_state(game, end);
        end->of[7] = test_digest(&token, sizeof token);
    }
}

void slip_play(const sb_model *model, const sb_planted *s, slip_run *run)
{
    sb_slip_game *game = calloc(1, sizeof *game);
    assert_non_null(game);
    memset(run, 0, sizeof *run);
    sb_threads_set(1);
    game->model = model;
    game->prompt_call = 5;
    game->backend = *sb_backend_ref();
    sb_knobs_exact(&game->knobs);
    game->options = (sb_session_options){
        .backend = &game->backend, .knobs = &game->knobs, .tap = slip_watch, .tap_ctx = game};
    at(game, s, SB_SLIP_open);
    game->session = play_session(model, &game->options);
    game->live = (sb_state *)sb_session_state(game->session); /* where mistakes are planted */
    game->rounds = play_rounds(game->session, NULL, game->rollback);
    play_script(game, s, run);
    sb_rounds_free(game->rounds);
    sb_session_free(game->session);
    for (size_t n = 0; n < SB_MAX_DRAFTS + 2; n++)
        sb_state_free(game->slot[n]);
    for (size_t i = 0; i < SB_SLIP_LAYERS; i++)
        free(game->g[i]);
    free(game->stream);
    free(game->embedded);
    free(game->last);
    free(game->recycled);
    free(game->stored);
    free(game);
}

const char *slip_differing(const slip_run *a, const slip_run *b, size_t *place)
{
    static char letters[sizeof slip_letters];
    size_t n = 0;
    for (*place = 0; *place < SLIP_SEEN && n == 0; *place += n == 0)
        for (size_t i = 0; slip_letters[i]; i++)
            if (memcmp(&a->seen[*place].of[i], &b->seen[*place].of[i], sizeof(sb_digest)) != 0)
                letters[n++] = slip_letters[i];
    letters[n] = '\0';
    return letters;
}
