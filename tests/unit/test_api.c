/* test_api.c - ref/samebit.h: a session gives the results of the library behind it, wrong arguments
 * are errors, and every order of freeing is valid. */
#include "tests/lib/suite.h"

#include <fenv.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ref/base/fp_mode.h"
#include "ref/base/mem.h"
#include "ref/base/pool.h"
#include "ref/run/session.h"
#include "ref/samebit.h"
#include "tests/lib/checkpoint.h"

#define PROGRAM "test_api"

enum { V = 384, H = 1024 };
static const uint32_t prompt[] = {1, 2, 3, 5, 8, 13, 21};
enum { PROMPT = sizeof prompt / sizeof *prompt };

static const char *folder;
static samebit_checkpoint *checkpoint; /* T4: linear and full attention, and a head */
static samebit_error err;

static void good(samebit_status status)
{
    if (status)
        fail_msg("status %d: %s", (int)status, err.text);
}

/* The call was refused with a message of one line that contains `word`. */
static void refused(samebit_status status, samebit_status expected, const char *word)
{
    assert_int_equal(status, expected);
    if (!strstr(err.text, word) || strchr(err.text, '\n'))
        fail_msg("'%s' is not one line with '%s'", err.text, word);
    memset(&err, 0, sizeof err);
}

TEST_FIXTURE(open_checkpoint)
{
    folder = test_checkpoint(PROGRAM, "T4", "predictable", "bf16", "text");
    good(samebit_checkpoint_open(folder, NULL, 0, &checkpoint, &err));
    return 0;
}

TEST_FIXTURE(close_checkpoint)
{
    samebit_checkpoint_close(checkpoint);
    return 0;
}

static samebit_session *new_session(const samebit_session_options *options)
{
    samebit_session *session = NULL;
    good(samebit_session_new(checkpoint, options, &session, &err));
    return session;
}

static samebit_session *new_with_head(void)
{
    samebit_session_options options = {.size = sizeof options, .mtp = 1};
    return new_session(&options);
}

/* --- checkpoints ------------------------------------------------------------------------------ */

TEST(checkpoint_says_what_it_is)
{
    double value;
    assert_string_equal(samebit_version(), SAMEBIT_VERSION);
    assert_int_equal(samebit_spec_version(), 2);
    good(samebit_checkpoint_config(checkpoint, "vocab_size", &value, &err));
    assert_true(value == V);
    good(samebit_checkpoint_config(checkpoint, "has_mtp", &value, &err));
    assert_true(value == 1);
    for (size_t i = 0; i < samebit_config_count(); i++)
        good(samebit_checkpoint_config(checkpoint, samebit_config_name(i), &value, &err));
    assert_null(samebit_config_name(samebit_config_count()));
    refused(samebit_checkpoint_config(checkpoint, "colour", &value, &err), SAMEBIT_USAGE, "colour");
    assert_string_equal(samebit_checkpoint_family(checkpoint), "qwen3_5");
    assert_int_equal(samebit_checkpoint_is_full(checkpoint, 0), 0);
    assert_int_equal(samebit_checkpoint_is_full(checkpoint, 3), 1);
    assert_int_equal(samebit_checkpoint_is_full(checkpoint, 4000), 0);
}

TEST(checkpoint_shows_its_tensors)
{
    samebit_array array, found;
    uint64_t total = 0, layers, bytes;
    const char *name;
    for (size_t i = 0; i < samebit_checkpoint_tensors(checkpoint); i++) {
        good(samebit_checkpoint_tensor(checkpoint, i, &array, &err));
        good(samebit_checkpoint_find(checkpoint, array.name, &found, &err));
        assert_ptr_equal(found.data, array.data);
        assert_non_null(array.dtype);
        total += array.bytes;
    }
    assert_true(total > 100000);
    refused(
        samebit_checkpoint_tensor(checkpoint, samebit_checkpoint_tensors(checkpoint), &array, &err),
        SAMEBIT_USAGE, "tensor");
    refused(samebit_checkpoint_find(checkpoint, "no.such", &array, &err), SAMEBIT_USAGE, "no.such");
    total = 0;
    for (size_t i = 0; i < samebit_storage_count(); i++) {
        good(samebit_checkpoint_storage(checkpoint, i, &name, &layers, &bytes, &err));
        total += layers;
    }
    assert_true(total > 10);
    refused(samebit_checkpoint_storage(checkpoint, samebit_storage_count(), &name, &layers, &bytes,
                                       &err),
            SAMEBIT_USAGE, "form");
}

TEST(checkpoint_has_a_digest)
{
    samebit_digest digest, again;
    sb_digest expected;
    sb_error error;
    sb_model *model = test_model_open(folder);
    assert_int_equal(sb_checkpoint_digest(model->checkpoint, &expected, &error), SB_OK);
    sb_model_close(model);
    good(samebit_checkpoint_digest(checkpoint, &digest, &err));
    good(samebit_checkpoint_digest(checkpoint, &again, &err));
    assert_string_equal(digest.hex, expected.hex);
    assert_string_equal(again.hex, expected.hex);
}

TEST(open_refuses)
{
    samebit_checkpoint *none = (samebit_checkpoint *)1;
    const char *overlays[] = {"no-equals-sign", NULL};
    refused(samebit_checkpoint_open("/nowhere/at/all", NULL, 0, &none, &err), SAMEBIT_REFUSED,
            "/nowhere/at/all");
    refused(samebit_checkpoint_open(NULL, NULL, 0, &none, &err), SAMEBIT_USAGE, "NULL");
    refused(samebit_checkpoint_open(folder, NULL, 1, &none, &err), SAMEBIT_USAGE, "NULL");
    refused(samebit_checkpoint_open(folder, overlays, 1, &none, &err), SAMEBIT_USAGE, "=");
    refused(samebit_checkpoint_open(folder, overlays, 2, &none, &err), SAMEBIT_USAGE, "NULL");
    refused(samebit_checkpoint_open(folder, NULL, 0, NULL, &err), SAMEBIT_USAGE, "NULL");
    assert_int_equal(samebit_checkpoint_open("/nowhere", NULL, 0, &none, NULL), SAMEBIT_REFUSED);
    assert_ptr_equal(none, (samebit_checkpoint *)1);
    samebit_checkpoint_close(NULL);
}

/* The expected results come from the library's own layer, without samebit.h. */
TEST(logits_are_those_of_the_library)
{
    float expected[V], found[PROMPT * V], hidden[H];
    sb_error error;
    sb_model *model = test_model_open(folder);
    sb_session *plain = NULL;
    assert_int_equal(sb_session_new(model, NULL, &plain, &error), SB_OK);
    assert_int_equal(sb_session_feed(plain, prompt, PROMPT, &error), SB_OK);
    samebit_session *session = new_session(NULL);
    good(samebit_session_feed(session, prompt, PROMPT, &err));
    assert_int_equal(samebit_session_rows(session), PROMPT);
    assert_int_equal(samebit_session_position(session), PROMPT);
    good(samebit_session_logits(session, 0, PROMPT, found, &err));
    for (size_t row = 0; row < PROMPT; row++) {
        assert_int_equal(sb_session_logits(plain, row, expected, &error), SB_OK);
        assert_memory_equal(found + row * V, expected, sizeof expected);
    }
    size_t width = model->config.hidden_size;
    assert_true(width <= H);
    good(samebit_session_hidden(session, PROMPT - 1, 1, hidden, &err));
    assert_memory_equal(hidden, sb_session_hidden(plain) + (PROMPT - 1) * width,
                        width * sizeof *hidden);
    refused(samebit_session_logits(session, PROMPT, 1, found, &err), SAMEBIT_USAGE, "row");
    refused(samebit_session_hidden(session, 1, PROMPT, hidden, &err), SAMEBIT_USAGE, "rows");
    samebit_session_free(session);
    sb_session_free(plain);
    sb_model_close(model);
}

/* --- sessions --------------------------------------------------------------------------------- */

TEST(drafts_change_no_token)
{
    enum { N = 12 };
    uint32_t plain[N], drafted[N];
    samebit_digest plain_logits[N], logits[N];
    samebit_session *session = new_with_head();
    good(samebit_session_generate(session, prompt, PROMPT, N, 0, plain, plain_logits, &err));
    samebit_session_reset(session);
    assert_int_equal(samebit_session_position(session), 0);
    good(samebit_session_generate(session, prompt, PROMPT, N, 3, drafted, logits, &err));
    assert_memory_equal(plain, drafted, sizeof plain);
    assert_memory_equal(plain_logits, logits, sizeof logits);
    assert_int_equal(samebit_session_position(session), PROMPT + N - 1);
    refused(samebit_session_generate(session, prompt, PROMPT, N, 9, drafted, NULL, &err),
            SAMEBIT_USAGE, "9 drafts");
    samebit_session_free(session);
    session = new_session(NULL);
    refused(samebit_session_generate(session, prompt, PROMPT, N, 1, drafted, NULL, &err),
            SAMEBIT_USAGE, "head");
    good(samebit_session_generate(session, prompt, PROMPT, 0, 0, NULL, NULL, &err));
    samebit_session_free(session);
}

TEST(a_round_is_shown)
{
    uint32_t token, given[3] = {7, 7, 7};
    samebit_round round = {.size = sizeof round},
                  small = {.size = offsetof(samebit_round, drafted)};
    samebit_session *session = new_with_head();
    refused(samebit_session_pick(session, &token, &err), SAMEBIT_USAGE, "no token");
    good(samebit_session_feed(session, prompt, PROMPT, &err));
    good(samebit_session_pick(session, &token, &err));
    good(samebit_session_round(session, token, 3, given, 0, &round, &err));
    assert_int_equal(round.size, sizeof round);
    assert_int_equal(round.position, PROMPT);
    assert_int_equal(round.drafted, 3);
    assert_int_equal(round.emitted, round.accepted + 1);
    assert_int_equal(samebit_session_position(session), PROMPT + round.emitted);
    small.size = 0;
    refused(
        samebit_session_round(session, round.tokens[round.emitted - 1], 0, NULL, 0, &small, &err),
        SAMEBIT_USAGE, "size");
    assert_int_equal(samebit_session_position(session), PROMPT + round.emitted);
    /* a struct of an older header: nothing is written beyond its end */
    small.size = offsetof(samebit_round, drafted);
    small.drafted = 77;
    good(samebit_session_round(session, round.tokens[round.emitted - 1], 0, NULL, 0, &small, &err));
    assert_int_equal(small.position, PROMPT + round.emitted);
    assert_int_equal(small.drafted, 77);
    refused(samebit_session_round(session, V, 0, NULL, 0, &round, &err), SAMEBIT_USAGE, "384");
    samebit_session_free(session);
}

TEST(a_verify_is_undone)
{
    samebit_state *kept = NULL, *fed = NULL, *ahead = NULL;
    samebit_session *session = new_with_head(), *plain = new_with_head();
    good(samebit_session_verify(session, prompt, PROMPT, &err));
    good(samebit_session_state_at(session, 2, &ahead, &err));
    good(samebit_session_keep(session, 2, &err));
    good(samebit_session_state(session, &kept, &err));
    good(samebit_session_feed(plain, prompt, 2, &err));
    good(samebit_session_state(plain, &fed, &err));
    good(samebit_state_compare(kept, fed, &err));
    good(samebit_state_compare(ahead, fed, &err));
    refused(samebit_session_keep(session, 1, &err), SAMEBIT_USAGE, "verify");
    good(samebit_session_feed(plain, prompt, 1, &err));
    samebit_state *other = NULL;
    good(samebit_session_state(plain, &other, &err));
    refused(samebit_state_compare(other, fed, &err), SAMEBIT_FAIL, "");
    samebit_state_free(other);
    samebit_state_free(kept);
    samebit_state_free(fed);
    samebit_state_free(ahead);
    samebit_session_free(session);
    samebit_session_free(plain);
}

TEST(the_head_drafts)
{
    float logits[V], again[V];
    samebit_session *session = new_with_head();
    good(samebit_session_feed(session, prompt, PROMPT, &err));
    good(samebit_session_draft(session, 3, logits, &err));
    good(samebit_session_draft(session, 3, again, &err));
    assert_memory_not_equal(logits, again, sizeof logits);
    refused(samebit_session_draft(session, V, again, &err), SAMEBIT_USAGE, "384");
    samebit_session_free(session);
    session = new_session(NULL);
    good(samebit_session_feed(session, prompt, 1, &err));
    refused(samebit_session_draft(session, 3, logits, &err), SAMEBIT_USAGE, "head");
    samebit_session_free(session);
}

/* Counts the calls of the tap; tap call number `end` ends the call of the session. */
typedef struct seen {
    size_t calls, end;
    int threads;
} seen;

static int look(void *ctx, const char *name, float *data, size_t rows, size_t cols)
{
    seen *s = ctx;
    assert_non_null(name);
    assert_non_null(data);
    assert_true(rows * cols > 0);
    s->threads = (int)sb_threads();
    return ++s->calls == s->end;
}

TEST(a_tap_sees_and_ends_a_call)
{
    seen s = {0};
    samebit_session_options options = {
        .size = sizeof options, .tap = look, .tap_ctx = &s, .threads = 3};
    samebit_session *session = new_session(&options);
    int before = (int)sb_threads();
    good(samebit_session_feed(session, prompt, PROMPT, &err));
    assert_true(s.calls > 20);
    assert_int_equal(s.threads, 3);
    assert_int_equal((int)sb_threads(), before);
    s.end = s.calls + 5;
    refused(samebit_session_feed(session, prompt, PROMPT, &err), SAMEBIT_USAGE, "tap");
    refused(samebit_session_feed(session, prompt, PROMPT, &err), SAMEBIT_USAGE, "");
    samebit_session_reset(session);
    good(samebit_session_feed(session, prompt, PROMPT, &err));
    samebit_session_free(session);
}

TEST(options_are_checked)
{
    const char *wrong[] = {"beta=blue"}, *none[] = {NULL}, *right[] = {"beta=act", "act=bf16"};
    samebit_session *session = NULL;
    samebit_session_options o = {.size = sizeof o};
    o.size = 3;
    refused(samebit_session_new(checkpoint, &o, &session, &err), SAMEBIT_USAGE, "size");
    o.size = sizeof o + 8;
    refused(samebit_session_new(checkpoint, &o, &session, &err), SAMEBIT_USAGE, "size");
    o = (samebit_session_options){.size = sizeof o, .profile = "no-such"};
    refused(samebit_session_new(checkpoint, &o, &session, &err), SAMEBIT_USAGE, "no-such");
    o = (samebit_session_options){.size = sizeof o, .settings = wrong, .setting_count = 1};
    refused(samebit_session_new(checkpoint, &o, &session, &err), SAMEBIT_USAGE, "blue");
    o.settings = none;
    refused(samebit_session_new(checkpoint, &o, &session, &err), SAMEBIT_USAGE, "NULL");
    o.settings = NULL;
    refused(samebit_session_new(checkpoint, &o, &session, &err), SAMEBIT_USAGE, "NULL");
    o = (samebit_session_options){.size = sizeof o, .temperature = -1};
    refused(samebit_session_new(checkpoint, &o, &session, &err), SAMEBIT_USAGE, "temp");
    o = (samebit_session_options){.size = sizeof o, .rollback = (samebit_rollback)9};
    refused(samebit_session_new(checkpoint, &o, &session, &err), SAMEBIT_USAGE, "rollback");
    o = (samebit_session_options){.size = sizeof o, .threads = 1u << 20};
    refused(samebit_session_new(checkpoint, &o, &session, &err), SAMEBIT_USAGE, "threads");
    refused(samebit_session_new(NULL, NULL, &session, &err), SAMEBIT_USAGE, "NULL");
    refused(samebit_session_new(checkpoint, NULL, NULL, &err), SAMEBIT_USAGE, "NULL");
    assert_null(session);
    for (size_t i = 0; i < samebit_profile_count(); i++) {
        assert_non_null(samebit_profile_help(i));
        o = (samebit_session_options){.size = sizeof o,
                                      .profile = samebit_profile_name(i),
                                      .settings = right,
                                      .setting_count = 2};
        samebit_session_free(new_session(&o));
    }
    assert_null(samebit_profile_name(samebit_profile_count()));
    samebit_session_free(NULL);
}

/* --- states ----------------------------------------------------------------------------------- */

TEST(a_state_goes_on)
{
    samebit_session *session = new_with_head(), *other = new_with_head();
    samebit_state *copy = NULL, *a = NULL, *b = NULL;
    samebit_digest target, mtp;
    samebit_array piece;
    samebit_name name;
    good(samebit_session_feed(session, prompt, PROMPT, &err));
    good(samebit_session_state(session, &copy, &err));
    good(samebit_session_set_state(other, copy, &err));
    good(samebit_session_feed(session, prompt, 2, &err));
    good(samebit_session_feed(other, prompt, 2, &err));
    good(samebit_session_state(session, &a, &err));
    good(samebit_session_state(other, &b, &err));
    good(samebit_state_compare(a, b, &err));
    assert_int_equal(samebit_state_position(a), PROMPT + 2);
    assert_int_equal(samebit_state_has_mtp(a), 1);
    good(samebit_state_digests(a, &target, &mtp, &err));
    assert_int_equal(strlen(target.hex), 32);
    assert_int_equal(strlen(mtp.hex), 32);
    uint64_t bytes = 0;
    for (size_t i = 0; i < samebit_state_pieces(a); i++) {
        good(samebit_state_piece(a, i, &piece, &name, &err));
        assert_ptr_equal(piece.name, name.text);
        assert_string_equal(piece.dtype, "F32");
        bytes += piece.bytes;
    }
    assert_true(bytes > 1000);
    refused(samebit_state_piece(a, samebit_state_pieces(a), &piece, &name, &err), SAMEBIT_USAGE,
            "piece");
    samebit_state_free(a);
    samebit_state_free(b);
    samebit_state_free(copy);
    samebit_state_free(NULL);
    samebit_session_free(session);
    samebit_session_free(other);
}

/* A whole file. */
static unsigned char *read_all(const char *path, size_t *size)
{
    static unsigned char bytes[1 << 20];
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    *size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    assert_true(*size > 0 && *size < sizeof bytes);
    return bytes;
}

TEST(a_state_file_belongs)
{
    const char *path = test_path(PROGRAM, "state");
    samebit_session *session = new_with_head(), *other = new_with_head();
    samebit_session_options bf16 = {.size = sizeof bf16, .profile = "hf", .mtp = 1};
    samebit_session *foreign = new_session(&bf16);
    samebit_state *a = NULL, *b = NULL;
    size_t size;
    good(samebit_session_feed(session, prompt, PROMPT, &err));
    good(samebit_session_save(session, path, prompt, &err));
    good(samebit_session_load(other, path, &err));
    good(samebit_session_state(session, &a, &err));
    good(samebit_session_state(other, &b, &err));
    good(samebit_state_compare(a, b, &err));
    unsigned char *bytes = read_all(path, &size);
    samebit_session_reset(other);
    good(samebit_session_load_bytes(other, bytes, size, &err));
    assert_int_equal(samebit_session_position(other), PROMPT);
    refused(samebit_session_load_bytes(foreign, bytes, size, &err), SAMEBIT_REFUSED, "profile");
    refused(samebit_session_load_bytes(other, bytes, 0, &err), SAMEBIT_REFUSED, "the state");
    refused(samebit_session_load_bytes(other, NULL, 0, &err), SAMEBIT_REFUSED, "the state");
    bytes[size - 1] ^= 1;
    refused(samebit_session_load_bytes(other, bytes, size, &err), SAMEBIT_REFUSED, "the state");
    refused(samebit_session_load(other, "/nowhere/at/all", &err), SAMEBIT_REFUSED, "/nowhere");
    refused(samebit_session_save(session, "/nowhere/at/all", NULL, &err), SAMEBIT_REFUSED,
            "/nowhere");
    uint32_t too_large[PROMPT] = {V};
    refused(samebit_session_save(session, path, too_large, &err), SAMEBIT_USAGE, "384");
    samebit_state_free(a);
    samebit_state_free(b);
    samebit_session_free(session);
    samebit_session_free(other);
    samebit_session_free(foreign);
}

/* --- lives and threads ------------------------------------------------------------------------ */

TEST(any_order_of_freeing)
{
    samebit_checkpoint *own = NULL, *second = NULL;
    samebit_session *session = NULL, *other = NULL;
    samebit_state *s = NULL;
    float logits[V];
    good(samebit_checkpoint_open(folder, NULL, 0, &own, &err));
    good(samebit_checkpoint_open(folder, NULL, 0, &second, &err));
    good(samebit_checkpoint_resident_limit(own, 1, &err));
    good(samebit_session_new(own, NULL, &session, &err));
    good(samebit_session_new(second, NULL, &other, &err));
    samebit_checkpoint_close(own);
    good(samebit_session_feed(session, prompt, 1, &err));
    good(samebit_session_logits(session, 0, 1, logits, &err));
    good(samebit_session_state(session, &s, &err));
    refused(samebit_session_set_state(other, s, &err), SAMEBIT_USAGE, "different models");
    samebit_session_free(session);
    samebit_checkpoint_close(second);
    samebit_session_free(other);
    assert_int_equal(samebit_state_position(s), 1);
    samebit_digest digest;
    good(samebit_state_digests(s, &digest, NULL, &err));
    samebit_state_free(s);
}

TEST(missing_arguments_are_errors)
{
    samebit_session *session = new_session(NULL);
    uint32_t token = 1;
    float x = 0;
    refused(samebit_digest_f32(NULL, 1, NULL, &err), SAMEBIT_USAGE, "NULL");
    refused(samebit_session_feed(session, NULL, 1, &err), SAMEBIT_USAGE, "NULL");
    refused(samebit_session_feed(session, &token, 0, &err), SAMEBIT_USAGE, "");
    refused(samebit_session_feed(NULL, &token, 1, &err), SAMEBIT_USAGE, "samebit_session_feed");
    refused(samebit_session_verify(NULL, &token, 1, &err), SAMEBIT_USAGE, "NULL");
    refused(samebit_session_keep(NULL, 1, &err), SAMEBIT_USAGE, "NULL");
    refused(samebit_session_draft(session, 1, NULL, &err), SAMEBIT_USAGE, "NULL");
    refused(samebit_session_logits(session, 0, 1, NULL, &err), SAMEBIT_USAGE, "NULL");
    refused(samebit_session_hidden(NULL, 0, 1, &x, &err), SAMEBIT_USAGE, "NULL");
    refused(samebit_session_pick(session, NULL, &err), SAMEBIT_USAGE, "NULL");
    refused(samebit_session_round(session, 1, 0, NULL, 0, NULL, &err), SAMEBIT_USAGE, "NULL");
    refused(samebit_session_generate(session, NULL, 1, 1, 0, &token, NULL, &err), SAMEBIT_USAGE,
            "NULL");
    refused(samebit_session_state(session, NULL, &err), SAMEBIT_USAGE, "NULL");
    refused(samebit_session_state_at(NULL, 0, NULL, &err), SAMEBIT_USAGE, "NULL");
    refused(samebit_session_set_state(session, NULL, &err), SAMEBIT_USAGE, "NULL");
    refused(samebit_state_digests(NULL, NULL, NULL, &err), SAMEBIT_USAGE, "NULL");
    refused(samebit_state_compare(NULL, NULL, &err), SAMEBIT_USAGE, "NULL");
    refused(samebit_state_piece(NULL, 0, NULL, NULL, &err), SAMEBIT_USAGE, "NULL");
    refused(samebit_session_save(session, NULL, NULL, &err), SAMEBIT_USAGE, "NULL");
    refused(samebit_session_load(session, NULL, &err), SAMEBIT_USAGE, "NULL");
    refused(samebit_session_load_bytes(session, NULL, 1, &err), SAMEBIT_USAGE, "NULL");
    refused(samebit_checkpoint_config(NULL, "layers", NULL, &err), SAMEBIT_USAGE, "NULL");
    refused(samebit_checkpoint_resident_limit(NULL, 1, &err), SAMEBIT_USAGE, "NULL");
    refused(samebit_checkpoint_digest(NULL, NULL, &err), SAMEBIT_USAGE, "NULL");
    assert_int_equal(samebit_session_rows(NULL) + samebit_checkpoint_tensors(NULL), 0);
    assert_null(samebit_checkpoint_family(NULL));
    samebit_session_reset(NULL);
    samebit_session_free(session);
}

/* The whole life of a session; returns the first status that is not SAMEBIT_OK. */
static samebit_status live(const char *path)
{
    samebit_session *session = NULL;
    samebit_state *copy = NULL;
    samebit_session_options options = {.size = sizeof options, .mtp = 1, .threads = 1};
    uint32_t tokens[2];
    samebit_status status = samebit_session_new(checkpoint, &options, &session, &err);
    if (!status)
        status = samebit_session_generate(session, prompt, 3, 2, 1, tokens, NULL, &err);
    if (!status)
        status = samebit_session_state(session, &copy, &err);
    if (!status)
        status = samebit_session_save(session, path, NULL, &err);
    if (!status)
        status = samebit_session_load(session, path, &err);
    samebit_state_free(copy);
    samebit_session_free(session);
    return status;
}

TEST(memory_runs_out_anywhere)
{
    const char *path = test_path(PROGRAM, "short-of-memory");
    unsigned long failed = 0;
    samebit_status status = SAMEBIT_REFUSED;
    while (status) {
        memset(&err, 0, sizeof err);
        sb_alloc_fail_at(++failed);
        status = live(path);
        sb_alloc_fail_at(0);
        if (status)
            refused(status, SAMEBIT_REFUSED, "memory");
        assert_true(failed < 10000);
    }
    assert_true(failed > 20);
}

/* The variables of one thread of the host. */
enum { HOSTS = 4, TOKENS = 6 };

typedef struct host {
    pthread_t thread;
    int status;
    uint32_t tokens[TOKENS];
    samebit_digest digest;
} host;

static void *live_in_a_thread(void *arg)
{
    host *h = arg;
    samebit_error own;
    samebit_session *s = NULL;
    samebit_session_options o = {.size = sizeof o, .mtp = 1, .threads = 2};
    h->status = (int)samebit_session_new(checkpoint, &o, &s, &own);
    if (!h->status)
        h->status =
            (int)samebit_session_generate(s, prompt, PROMPT, TOKENS, 2, h->tokens, NULL, &own);
    if (!h->status)
        h->status = (int)samebit_checkpoint_digest(checkpoint, &h->digest, &own);
    samebit_session_free(s);
    return NULL;
}

static void plain_tokens(uint32_t tokens[TOKENS])
{
    samebit_session *session = new_with_head();
    good(samebit_session_generate(session, prompt, PROMPT, TOKENS, 2, tokens, NULL, &err));
    samebit_session_free(session);
}

/* Many threads run the same sequence at the same time on one checkpoint, each with its own
 * error. */
TEST(threads_do_not_meet)
{
    host hosts[HOSTS];
    uint32_t expected[TOKENS];
    plain_tokens(expected);
    for (int i = 0; i < HOSTS; i++)
        assert_int_equal(pthread_create(&hosts[i].thread, NULL, live_in_a_thread, &hosts[i]), 0);
    for (int i = 0; i < HOSTS; i++)
        pthread_join(hosts[i].thread, NULL);
    for (int i = 0; i < HOSTS; i++) {
        assert_int_equal(hosts[i].status, 0);
        assert_memory_equal(hosts[i].tokens, expected, sizeof expected);
        assert_string_equal(hosts[i].digest.hex, hosts[0].digest.hex);
    }
}

/* After fork() the child does not have the threads of the parent. */
TEST(a_child_goes_on)
{
    host h;
    int ended = -1;
    uint32_t expected[TOKENS];
    plain_tokens(expected);
    const pid_t child = fork();
    if (child == 0) {
        live_in_a_thread(&h);
        _exit(h.status != 0 || memcmp(h.tokens, expected, sizeof expected) != 0);
    }
    assert_true(child > 0 && waitpid(child, &ended, 0) == child);
    assert_true(WIFEXITED(ended) && WEXITSTATUS(ended) == 0);
}

/* Sets rounding upwards and, where the processor has such bits, flushing of subnormals. */
static void spoil(void *ctx, size_t i, size_t worker)
{
    (void)ctx;
    (void)i;
    (void)worker;
    assert_int_equal(fesetround(FE_UPWARD), 0);
#if defined(__x86_64__)
    sb_fp_mode mode = sb_fp_mode_now();
    mode.word |= 0x8040; /* FTZ and DAZ */
    sb_fp_mode_set(mode);
#endif
}

static int spoil_in_a_tap(void *ctx, const char *name, float *data, size_t rows, size_t cols)
{
    (void)name;
    (void)data;
    (void)rows;
    (void)cols;
    spoil(ctx, 0, 0);
    return 0;
}

static void feed_in_mode(int main_too, int workers, int tap)
{
    float expected[V], logits[V];
    samebit_session_options options = {
        .size = sizeof options, .threads = 3, .tap = tap ? spoil_in_a_tap : NULL};
    samebit_session *plain = new_session(NULL), *session = new_session(&options);
    const sb_fp_mode before = sb_fp_mode_now();
    const uint32_t token = 5;
    good(samebit_session_feed(plain, prompt, PROMPT, &err));
    good(samebit_session_feed(plain, &token, 1, &err));
    good(samebit_session_logits(plain, 0, 1, expected, &err));
    sb_threads_set(3);
    for (int call = 0; call < 2; call++) { /* before the first call, and between two calls */
        if (workers)
            sb_parallel_for(64, 1, spoil, NULL);
        sb_fp_mode_set(before);
        if (main_too)
            spoil(NULL, 0, 0);
        const sb_fp_mode mine = sb_fp_mode_now();
        good(call ? samebit_session_feed(session, &token, 1, &err)
                  : samebit_session_feed(session, prompt, PROMPT, &err));
        assert_int_equal(sb_fp_mode_now().word, mine.word);
        assert_int_equal(sb_fp_mode_now().x87, mine.x87);
    }
    good(samebit_session_logits(session, 0, 1, logits, &err));
    sb_fp_mode_set(before);
    sb_threads_set(0);
    assert_memory_equal(logits, expected, sizeof logits);
    samebit_session_free(session);
    samebit_session_free(plain);
}

/* A host that rounds upwards or flushes subnormals gets the same bits, and its mode is restored. */
TEST(a_mode_of_the_host_is_set_aside)
{
    for (int which = 0; which < 8; which++)
        feed_in_mode(which & 1, which & 2, which & 4);
}

TEST_GROUP(open_checkpoint, close_checkpoint)
