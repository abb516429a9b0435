/* play.h - sessions with a head, their rounds, and comparisons of their states. */
#ifndef SB_TESTS_MTP_PLAY_H
#define SB_TESTS_MTP_PLAY_H

#include "ref/run/round.h"
#include "tests/lib/checkpoint.h"
#include "tests/lib/record.h"

/* All assert success. options may be NULL; its mtp is set. */
sb_session *play_session(const sb_model *model, const sb_session_options *options);
sb_rounds *play_rounds(sb_session *session, const sb_sampling *sampling, sb_rollback rollback);
sb_state *play_copy(const sb_state *state);
void play_set(sb_session *session, const sb_state *state);
sb_round play_round(sb_rounds *rounds, const sb_round_ask *ask);

/* The greedy token of the last row of the last call. */
uint32_t play_greedy(sb_session *session);

/* Feeds a session a prompt, and returns the token after it. */
uint32_t play_prompt(sb_session *session, const char *name, size_t tokens);

/* Digests `target` and `mtp`. */
typedef struct play_digests {
    sb_digest target, mtp;
} play_digests;
play_digests play_digest(const sb_state *state);
int play_equal(const play_digests *a, const play_digests *b);

/* Where two states first differ, as text: "layers.3 recurrent [5]"; NULL: nowhere. The text lives
 * until the next call. */
const char *play_difference(const sb_state *a, const sb_state *b);

/* Both digests must be the same; fails with `where` and the place. */
void play_same(const char *where, const sb_state *got, const sb_state *expected);

/* Sets to NaN what D-3 and D-9 do not read and the next tokens will overwrite: keys and values
 * after the rows that count. */
void play_poison_unused(sb_state *state);

/* Copies of some taps of the last call; the list ends with a name of NULL. */
typedef struct play_tap {
    const char *name;
    float *data;
    size_t rows, cols;
} play_tap;
sb_status play_keep_taps(void *ctx, const char *name, float *data, size_t rows, size_t cols,
                         sb_error *err);
void play_free_taps(play_tap *taps);

/* One model per setting, opened once per program. */
const sb_model *play_model(const char *program, const char *preset, const char *recipe);
int play_close_models(void **state);

/* The same with the logits of model and head times 0.4. `predictable` is so sure of its tokens that
 * at usual temperatures every draw would be the greedy token. */
const sb_model *play_flat_model(const char *program, const char *preset, const char *recipe);

#endif
