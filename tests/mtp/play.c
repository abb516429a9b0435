#include "tests/mtp/play.h"

#include "tests/lib/cmocka.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/pool.h"

sb_session *play_session(const sb_model *model, const sb_session_options *options)
{
    sb_session_options o = options ? *options : (sb_session_options){0};
    sb_session *session = NULL;
    sb_error err = {""};
    o.mtp = 1;
    if (sb_session_new(model, &o, &session, &err))
        fail_msg("%s", err.text);
    return session;
}

sb_rounds *play_rounds(sb_session *session, const sb_sampling *sampling, sb_rollback rollback)
{
    sb_round_options o = {.sampling = sampling, .rollback = rollback};
    sb_rounds *rounds = NULL;
    sb_error err = {""};
    if (sb_rounds_new(session, &o, &rounds, &err))
        fail_msg("%s", err.text);
    return rounds;
}

sb_state *play_copy(const sb_state *state)
{
    sb_state *copy = NULL;
    assert_int_equal(sb_state_copy(state, &copy, NULL), SB_OK);
    return copy;
}

void play_set(sb_session *session, const sb_state *state)
{
    sb_error err = {""};
    if (sb_session_set_state(session, state, &err))
        fail_msg("%s", err.text);
}

sb_round play_round(sb_rounds *rounds, const sb_round_ask *ask)
{
    sb_round round;
    sb_error err = {""};
    if (sb_rounds_next(rounds, ask, &round, &err))
        fail_msg("%s", err.text);
    return round;
}

uint32_t play_greedy(sb_session *session)
{
    size_t V = sb_session_model(session)->config.vocab_size;
    float *logits = malloc(V * sizeof *logits);
    sb_error err = {""};
    assert_non_null(logits);
    if (sb_session_logits(session, sb_session_rows(session) - 1, logits, &err))
        fail_msg("%s", err.text);
    uint32_t token = sb_greedy(logits, V);
    free(logits);
    return token;
}

uint32_t play_prompt(sb_session *session, const char *name, size_t tokens)
{
    uint32_t *ids = malloc(tokens * sizeof *ids);
    assert_non_null(ids);
    test_draw_ids(name, sb_session_model(session)->config.vocab_size, ids, tokens);
    test_feed(session, ids, tokens);
    free(ids);
    return play_greedy(session);
}

play_digests play_digest(const sb_state *state)
{
    play_digests d;
    assert_int_equal(sb_state_digest(state, &d.target, NULL), SB_OK);
    assert_int_equal(sb_state_mtp_digest(state, &d.mtp, NULL), SB_OK);
    return d;
}

int play_equal(const play_digests *a, const play_digests *b)
{
    return strcmp(a->target.hex, b->target.hex) == 0 && strcmp(a->mtp.hex, b->mtp.hex) == 0;
}

/* The first of count values whose bits differ; count if none does. */
static size_t first_apart(const float *a, const float *b, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (memcmp(a + i, b + i, sizeof *a) != 0)
            return i;
    return count;
}

static const char *apart_in(uint32_t layer, const char *piece, const float *a, const float *b,
                            size_t count)
{
    static char text[120];
    size_t at = first_apart(a, b, count);
    if (at == count)
        return NULL;
    snprintf(text, sizeof text, "layer %u %s [%zu] is %a and %a", (unsigned)layer, piece, at,
             (double)a[at], (double)b[at]);
    return text;
}

static const char *layer_apart(const sb_state *a, const sb_state *b, uint32_t i)
{
    const sb_layer_state *x = &a->layers[i], *y = &b->layers[i];
    if (sb_state_is_full(a, i)) {
        size_t n = (size_t)sb_state_kv_rows(a, i) * sb_state_kv_row(a->config);
        const char *keys = apart_in(i, "keys", x->keys, y->keys, n);
        return keys ? keys : apart_in(i, "values", x->values, y->values, n);
    }
    const char *conv = apart_in(i, "conv", x->conv, y->conv, sb_state_conv_size(a->config));
    return conv ? conv
                : apart_in(i, "recurrent", x->recurrent, y->recurrent,
                           sb_state_recurrent_size(a->config));
}

const char *play_difference(const sb_state *a, const sb_state *b)
{
    if (a->position != b->position)
        return "position";
    if (a->mtp_entries != b->mtp_entries)
        return "entries of the MTP head";
    for (uint32_t i = 0; i < sb_state_layers(a); i++) {
        const char *found = layer_apart(a, b, i);
        if (found)
            return found;
    }
    return a->has_mtp ? apart_in(a->config->layers, "last hidden", a->mtp_hidden, b->mtp_hidden,
                                 a->config->hidden_size)
                      : NULL;
}

void play_same(const char *where, const sb_state *got, const sb_state *expected)
{
    play_digests g = play_digest(got), e = play_digest(expected);
    if (!play_equal(&g, &e)) {
        const char *what = play_difference(got, expected);
        fail_msg("%s: the %s digest differs: %s", where,
                 strcmp(g.target.hex, e.target.hex) ? "target" : "mtp",
                 what ? what : "nowhere in the state");
    }
}

void play_poison_unused(sb_state *state)
{
    size_t row = sb_state_kv_row(state->config);
    for (uint32_t i = 0; i < sb_state_layers(state); i++) {
        if (!sb_state_is_full(state, i))
            continue;
        size_t from = (size_t)sb_state_kv_rows(state, i) * row;
        for (size_t at = from; at < (size_t)state->capacity * row; at++)
            state->layers[i].keys[at] = state->layers[i].values[at] = NAN;
    }
}

sb_status play_keep_taps(void *ctx, const char *name, float *data, size_t rows, size_t cols,
                         sb_error *err)
{
    (void)err;
    for (play_tap *t = ctx; t->name; t++)
        if (strcmp(t->name, name) == 0) {
            t->data = realloc(t->data, rows * cols * sizeof *data);
            assert_non_null(t->data);
            memcpy(t->data, data, rows * cols * sizeof *data);
            t->rows = rows;
            t->cols = cols;
        }
    return SB_OK;
}

void play_free_taps(play_tap *taps)
{
    for (; taps->name; taps++)
        free(taps->data);
}

enum { MODELS = 8 };
static struct {
    char name[64];
    sb_model *model;
} models[MODELS];

/* The slot of a model in the list; NULL in the slot means that the model is not open yet. Sets one
 * thread, since test programs run side by side and rows are short; a test can set more. */
static sb_model **place_of(const char *preset, const char *recipe, const char *kind)
{
    char name[64];
    size_t i = 0;
    snprintf(name, sizeof name, "%s-%s%s", preset, recipe, kind);
    while (i < MODELS && models[i].model && strcmp(models[i].name, name) != 0)
        i++;
    assert_true(i < MODELS);
    strcpy(models[i].name, name);
    sb_threads_set(1);
    return &models[i].model;
}

const sb_model *play_model(const char *program, const char *preset, const char *recipe)
{
    sb_model **model = place_of(preset, recipe, "");
    if (!*model)
        *model = test_model_open(test_checkpoint(program, preset, recipe, NULL, NULL));
    return *model;
}

/* A norm in BF16: 1 + w becomes 0.4 (1 + w). */
static void flatten(test_tensor *t)
{
    assert_true(t->dtype == SB_DTYPE_BF16);
    for (size_t i = 0; i < t->size; i += 2) {
        uint32_t bits = (uint32_t)(t->bytes[i] | t->bytes[i + 1] << 8) << 16;
        bits = sb_bits_f32(0.4f * (1 + sb_f32_from_bits(bits)) - 1);
        t->bytes[i] = (unsigned char)(bits >> 16);
        t->bytes[i + 1] = (unsigned char)(bits >> 24);
    }
}

const sb_model *play_flat_model(const char *program, const char *preset, const char *recipe)
{
    sb_model **model = place_of(preset, recipe, "-flat");
    if (*model)
        return *model;
    test_folder f = test_folder_load(test_checkpoint(program, preset, recipe, NULL, NULL));
    flatten(test_folder_find(&f, "model.norm.weight"));
    flatten(test_folder_find(&f, "mtp.norm.weight"));
    char name[32];
    snprintf(name, sizeof name, "flat-%s", preset);
    *model = test_model_open(test_folder_save(&f, program, name));
    test_folder_free(&f);
    return *model;
}

int play_close_models(void **state)
{
    (void)state;
    for (size_t i = 0; i < MODELS; i++) {
        sb_model_close(models[i].model);
        models[i].model = NULL;
    }
    return 0;
}
