/* test_state_file.c - a state on disk: the same bits come back (D-10), its model and knobs are
 * checked (D-11), and no changed bit passes unseen (D-12). */
#include "tests/lib/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/base/pool.h"
#include "ref/base/rng.h"
#include "ref/container/file.h"
#include "tests/lib/checkpoint.h"
#include "tests/lib/plain.h"
#include "tests/lib/record.h"
#include "tests/lib/state_parts.h"
#include "tests/lib/states.h"

#define PROGRAM "test_state_file"

enum { V = 384, N = 9, MORE = 3 };

static sb_model *model; /* T4: three linear layers, a full-attention layer, dense, with a head */
static uint32_t ids[N + MORE];
static sb_knobs exact;
static sb_state_origin origin;

static sb_digest digest_of(const sb_model *m)
{
    sb_digest digest;
    sb_error err;
    if (sb_checkpoint_digest(m->checkpoint, &digest, &err))
        fail_msg("%s", err.text);
    return digest;
}

TEST_FIXTURE(open_model)
{
    model = test_model_open(test_checkpoint(PROGRAM, "T4", NULL, "bf16", "text"));
    test_draw_ids("state file", V, ids, N + MORE);
    sb_knobs_exact(&exact);
    origin = (sb_state_origin){
        .checkpoint = digest_of(model), .knobs = &exact, .profile = "exact", .tokens = ids};
    return 0;
}

TEST_FIXTURE(close_model)
{
    sb_model_close(model);
    return 0;
}

static void save(const char *path, const sb_state *state, const sb_state_origin *from)
{
    sb_error err;
    if (sb_state_save(path, state, from, &err))
        fail_msg("%s", err.text);
}

static unsigned char *bytes_of(const char *path, size_t *size)
{
    unsigned char *bytes = NULL;
    sb_error err;
    if (sb_read_file(path, 1 << 26, &bytes, size, &err))
        fail_msg("%s", err.text);
    return bytes;
}

/* Saves in the middle, loads, and feeds the rest: states and logits equal those without a break. */
static void check_round_trip(const char *preset, int mtp)
{
    const char *path = test_path(PROGRAM, "round"), *again = test_path(PROGRAM, "again");
    float through[1024], resumed[1024];
    uint32_t own[N + MORE];
    sb_model *m = test_model_open(test_checkpoint(PROGRAM, preset, NULL, "bf16", "text"));
    size_t size, size_again;
    sb_error err;
    test_draw_ids(preset, m->config.vocab_size, own, N + MORE);
    sb_state_origin from = {digest_of(m), &exact, "exact", own, 0, NULL};
    sb_session *a = test_session_mtp(m, NULL, mtp), *b = test_session_mtp(m, NULL, mtp);
    test_feed(a, own, N);
    save(path, sb_session_state(a), &from);
    sb_state *loaded = NULL;
    if (sb_state_load(path, m, &from, mtp, &loaded, &err))
        fail_msg("%s", err.text);
    assert_ptr_equal(loaded->config, &m->config);
    test_same_state(preset, loaded, sb_session_state(a));
    save(again, loaded, &from);
    unsigned char *one = bytes_of(path, &size), *two = bytes_of(again, &size_again);
    assert_int_equal(size, size_again);
    assert_memory_equal(one, two, size);
    assert_int_equal(sb_session_set_state(b, loaded, &err), SB_OK);
    test_feed(a, own + N, MORE);
    test_feed(b, own + N, MORE);
    test_same_state(preset, sb_session_state(b), sb_session_state(a));
    assert_int_equal(sb_session_logits(a, MORE - 1, through, &err), SB_OK);
    assert_int_equal(sb_session_logits(b, MORE - 1, resumed, &err), SB_OK);
    assert_memory_equal(through, resumed, m->config.vocab_size * sizeof *through);
    free(one);
    free(two);
    sb_state_free(loaded);
    sb_session_free(a);
    sb_session_free(b);
    sb_model_close(m);
}

TEST(test_round_trip)
{
    static const char *const presets[] = {"T1", "T2", "T4", "T5"};
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
        check_round_trip(presets[i], 0);
        check_round_trip(presets[i], 1);
    }
}

/* D-10: "A tensor without elements is left out": at position 0 no keys, at position 1 no entry. */
TEST(test_short_sequences)
{
    const char *path = test_path(PROGRAM, "short");
    for (size_t n = 0; n < 3; n++) {
        sb_session *session = test_session_mtp(model, NULL, 1);
        sb_state_file *file = NULL;
        sb_error err;
        if (n)
            test_feed(session, ids, n);
        save(path, sb_session_state(session), &origin);
        if (sb_state_file_open(path, &file, &err))
            fail_msg("%s", err.text);
        test_same_state("short", file->state, sb_session_state(session));
        assert_int_equal(file->state->mtp_entries, n ? n - 1 : 0);
        assert_int_equal(file->tokens != NULL, n > 0);
        sb_state_file_free(file);
        sb_session_free(session);
    }
}

/* The content of a file as bytes, and as the reader gives it. */
TEST(test_file_by_itself)
{
    const char *path = test_path(PROGRAM, "itself");
    sb_safetensors in;
    sb_state_file *file = NULL;
    sb_error err;
    sb_session *session = test_session_mtp(model, NULL, 1);
    const sb_state *s = sb_session_state(session);
    test_feed(session, ids, N);
    save(path, s, &origin);
    assert_int_equal(sb_safetensors_open(path, &in, &err), SB_OK);
    assert_int_equal(in.count, 2 * 4 + 3 + 1);
    for (size_t i = 0; i < in.count; i++) {
        const sb_tensor *t = &in.tensors[i];
        if (strcmp(t->name, "layers.1.linear_attn.recurrent_state") == 0) {
            assert_true(t->shape[0] == 2 && t->shape[1] == 64 && t->shape[2] == 64);
            for (size_t e = 0; e < 2 * 64 * 64; e++)
                assert_int_equal(sb_load_u32(t->data + 4 * e),
                                 sb_bits_f32(s->layers[1].recurrent[e]));
        }
        if (strcmp(t->name, "mtp.layers.0.self_attn.values") == 0)
            assert_true(t->shape[0] == N - 1 && t->shape[1] == 2 && t->shape[2] == 64);
    }
    assert_string_equal(sb_metadata_get(&in.metadata, "samebit.state.target"),
                        test_state_digest(session).hex);
    assert_string_equal(sb_metadata_get(&in.metadata, "samebit.state.layers"), "lllf");
    sb_safetensors_close(&in);
    assert_int_equal(sb_state_file_open(path, &file, &err), SB_OK);
    assert_memory_equal(file->tokens, ids, N * sizeof *ids);
    assert_string_equal(file->profile, "exact");
    assert_string_equal(file->checkpoint.hex, origin.checkpoint.hex);
    sb_state_file_free(file);
    sb_session_free(session);
}

static void check_load(const char *what, const char *path, const sb_model *m,
                       const sb_state_origin *from, int mtp, const char *const *parts)
{
    sb_state *loaded = NULL;
    sb_error err = {""};
    sb_status status = sb_state_load(path, m, from, mtp, &loaded, &err);
    if (status != (parts[0] ? SB_ERR_INPUT : SB_OK))
        fail_msg("%s: status %d, %s", what, (int)status, err.text);
    for (; *parts; parts++)
        if (!strstr(err.text, *parts))
            fail_msg("%s: \"%s\" lacks \"%s\"", what, err.text, *parts);
    sb_state_free(loaded);
}

#define PARTS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* A state of another checkpoint, another configuration, other knobs, or without a head is refused;
 * some differences do not matter. */
TEST(test_what_it_belongs_to)
{
    const char *path = test_path(PROGRAM, "belongs");
    sb_knobs knobs = test_knobs("act=bf16 mtp_hidden=residual");
    sb_session *session = test_session_mtp(model, NULL, 1);
    test_feed(session, ids, N);
    save(path, sb_session_state(session), &origin);
    sb_state_origin other = origin;
    memcpy(other.checkpoint.hex, "00112233445566778899aabbccddeeff", 33);
    check_load("checkpoint", path, model, &other, 1,
               PARTS(other.checkpoint.hex, origin.checkpoint.hex));
    other = origin;
    other.knobs = &knobs;
    check_load("knobs", path, model, &other, 1, PARTS("act=f32", "act=bf16", "profile exact"));
    other.knobs = &exact;
    other.profile = "of another name";
    other.tokens = NULL;
    check_load("only another name", path, model, &other, 1, (const char *const[]){NULL});
    sb_model changed = *model;
    changed.config.rope_theta *= 2;
    check_load("theta", path, &changed, &origin, 1, PARTS("rope_theta=", "belongs to a model"));
    changed = *model;
    changed.config.layer_is_full[1] = 1;
    check_load("kinds", path, &changed, &origin, 1, PARTS("kinds of layers"));
    changed = *model;
    changed.config.max_position_embeddings++;
    check_load("no matter", path, &changed, &origin, 1, (const char *const[]){NULL});
    /* D-11: "Only kernels continue a state of kernels." */
    other = origin;
    other.kernels = 1;
    check_load("a state of the reference", path, model, &other, 1, (const char *const[]){NULL});
    save(path, sb_session_state(session), &other);
    check_load("kernels", path, model, &other, 1, (const char *const[]){NULL});
    check_load("not kernels", path, model, &origin, 1, PARTS("was computed by kernels"));
    sb_session_free(session);
}

/* A file with a head can be loaded into a session without one, but not the other way round. */
TEST(test_with_and_without_head)
{
    const char *path = test_path(PROGRAM, "head");
    sb_state *loaded = NULL;
    sb_error err;
    sb_session *with = test_session_mtp(model, NULL, 1),
               *without = test_session_mtp(model, NULL, 0);
    test_feed(with, ids, N);
    test_feed(without, ids, N);
    save(path, sb_session_state(without), &origin);
    check_load("no head", path, model, &origin, 1, PARTS("no state of the MTP head"));
    save(path, sb_session_state(with), &origin);
    assert_int_equal(sb_state_load(path, model, &origin, 0, &loaded, &err), SB_OK);
    test_same_state("head dropped", loaded, sb_session_state(without));
    sb_state_free(loaded);
    sb_session_free(with);
    sb_session_free(without);
}

static void check_parts(const char *what, const test_parts *p, sb_status expected,
                        const char *const *messages)
{
    size_t size;
    sb_state_file *file = NULL;
    sb_error err = {""};
    unsigned char *bytes = test_put_together(p, &size);
    sb_status status = sb_state_file_parse(bytes, size, "input", &file, &err);
    if (status != expected)
        fail_msg("%s: status %d (%s)", what, (int)status, err.text);
    for (; *messages; messages++)
        if (!strstr(err.text, *messages))
            fail_msg("%s: \"%s\" lacks \"%s\"", what, err.text, *messages);
    sb_state_file_free(file);
    free(bytes);
}

/* A good file of N tokens with its head; tests change it. */
static test_parts sound_parts(void)
{
    const char *path = test_path(PROGRAM, "sound");
    sb_session *session = test_session_mtp(model, NULL, 1);
    test_feed(session, ids, N);
    save(path, sb_session_state(session), &origin);
    sb_session_free(session);
    return test_take_apart(path);
}

#define META "samebit.state."

/* Metadata with other content, unsealed and sealed anew. */
TEST(test_changed_metadata)
{
    static const struct {
        const char *key, *value;
        sb_status status;
        const char *message;
    } cases[] = {
        {META "spec", "3", SB_ERR_UNSUPPORTED, "version 3"},
        {META "spec", "one", SB_ERR_INPUT, "spec"},
        {META "position", "10", SB_ERR_INPUT, "entries"},
        {META "position", "16777217", SB_ERR_INPUT, "up to 16777216"},
        {META "position", "09", SB_ERR_INPUT, "expected a number"},
        {META "position", "99999999999999999999", SB_ERR_INPUT, "expected a number"},
        {META "mtp_entries", "7", SB_ERR_INPUT, "expected 8"},
        {META "target", "00112233445566778899aabbccddeeff", SB_ERR_INPUT, "target\" is 0011"},
        {META "mtp", "00112233445566778899aabbccddeeff", SB_ERR_INPUT, "mtp\" is 0011"},
        {META "tokens", "00112233445566778899aabbccddeeff", SB_ERR_INPUT, "tokens\" is 0011"},
        {META "checkpoint", "short", SB_ERR_INPUT, "32 hexadecimal digits"},
        {META "layers", "llf", SB_ERR_INPUT, "12 tensors, expected 10"},
        {META "layers", "llff", SB_ERR_INPUT, "layers.2.self_attn.keys"},
        {META "layers", "lllx", SB_ERR_INPUT, "letters"},
        {META "layers", "", SB_ERR_INPUT, "letters"},
        {META "config", "", SB_ERR_INPUT, "hidden_size"},
        {META "knobs", "act=f64", SB_ERR_UNSUPPORTED, "act=f64"},
        {META "knobs", "  ", SB_ERR_INPUT, "word of 0 bytes"},
        {META "knobs", "mtp_first=zeros", SB_ERR_INPUT, "expected 9"},
        {"format", "np", SB_ERR_INPUT, "format"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        test_parts p = sound_parts();
        test_set_part(&p, cases[i].key, cases[i].value);
        if (strcmp(cases[i].key, "format") != 0)
            check_parts(cases[i].value, &p, SB_ERR_INPUT, PARTS("seal"));
        test_seal(&p);
        check_parts(cases[i].value, &p, cases[i].status, PARTS(cases[i].message));
        test_parts_free(&p);
    }
}

/* Every key of a state with a head and tokens is required, and the message names a missing one. */
TEST(test_missing_metadata)
{
    static const char *const keys[][2] = {{"spec", "spec"},
                                          {"checkpoint", "checkpoint"},
                                          {"position", "position"},
                                          {"mtp_entries", "only one of"},
                                          {"target", "target"},
                                          {"mtp", "only one of"},
                                          {"tokens", "12 tensors, expected 11"},
                                          {"layers", "layers"},
                                          {"config", "config"},
                                          {"knobs", "knobs"},
                                          {"profile", "profile"}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        test_parts p = sound_parts();
        size_t at = 0;
        while (strncmp(p.keys[at], META, strlen(META)) != 0 ||
               strcmp(p.keys[at] + strlen(META), keys[i][0]) != 0)
            at++;
        char *key = p.keys[at], *value = p.values[at];
        p.pairs--;
        for (; at < p.pairs; at++) { /* the seal covers the keys in sorted order */
            p.keys[at] = p.keys[at + 1];
            p.values[at] = p.values[at + 1];
        }
        test_seal(&p);
        check_parts(keys[i][0], &p, SB_ERR_INPUT, PARTS(keys[i][1]));
        free(key);
        free(value);
        test_parts_free(&p);
    }
}

/* Metadata that may change under a new seal: the name of the profile, and a knob set to its first
 * value. */
TEST(test_sound_metadata)
{
    const char *const none[] = {NULL};
    test_parts p = sound_parts();
    check_parts("as it was", &p, SB_OK, none);
    test_set_part(&p, META "profile", "mine");
    check_parts("unsealed", &p, SB_ERR_INPUT, PARTS("seal"));
    test_seal(&p);
    check_parts("profile", &p, SB_OK, none);
    assert_string_equal(*test_part(&p, META "knobs"), "");
    test_set_part(&p, META "knobs", "act=f32 scores=act");
    test_seal(&p);
    check_parts("knobs", &p, SB_OK, none);
    for (size_t i = 0; i < p.pairs; i++)
        if (strcmp(p.keys[i], META "knobs") == 0)
            strcpy(p.keys[i], META "knobz");
    check_parts("another key", &p, SB_ERR_INPUT,
                PARTS("samebit.state.knobz", "does not belong in a state"));
    test_parts_free(&p);
    origin.kernels = 1;
    p = sound_parts();
    origin.kernels = 0;
    check_parts("kernels", &p, SB_OK, none);
    test_set_part(&p, META "engine", "mine");
    test_seal(&p);
    check_parts("another engine", &p, SB_ERR_INPUT, PARTS("was computed by 'mine'"));
    test_parts_free(&p);
}

/* Replaces the first value after `name=` in config. */
static void change_config(test_parts *p, const char *name, const char *value)
{
    char text[2048], *old = *test_part(p, META "config");
    char *at = strstr(old, name);
    assert_non_null(at);
    snprintf(text, sizeof text, "%.*s%s=%s%s", (int)(at - old), old, name, value,
             at + strcspn(at, " "));
    test_set_part(p, META "config", text);
    test_seal(p);
}

TEST(test_changed_config)
{
    static const struct {
        const char *name, *value, *message;
    } cases[] = {
        {"hidden_size", "0", "hidden_size"},
        {"hidden_size", "129", "mtp.hidden"},
        {"head_dim", "16777216", "wider"},
        {"num_key_value_heads", "1", "self_attn.keys"},
        {"linear_num_key_heads", "4294967295", "linear_num_key_heads"},
        {"linear_num_key_heads", "4", "conv_state"},
        {"linear_value_head_dim", "", "linear_value_head_dim"},
        {"linear_conv_kernel_dim", "65", "linear_conv_kernel_dim"},
        {"linear_conv_kernel_dim", "5", "conv_state"},
        {"vocab_size", "1", "token"},
        {"vocab_size", "384x", "vocab_size"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        test_parts p = sound_parts();
        change_config(&p, cases[i].name, cases[i].value);
        check_parts(cases[i].name, &p, SB_ERR_INPUT, PARTS(cases[i].message));
        test_parts_free(&p);
    }
}

/* Tensors that are missing, superfluous, of another shape or dtype, or not finite. */
TEST(test_changed_tensors)
{
    static const char conv[] = "layers.0.linear_attn.conv_state",
                      keys[] = "layers.3.self_attn.keys";
    const uint64_t two[] = {2};
    test_parts p = sound_parts();
    test_folder_remove(&p.tensors, conv);
    check_parts("missing", &p, SB_ERR_INPUT, PARTS("no tensor", conv));
    test_parts_free(&p);
    p = sound_parts();
    test_folder_add(&p.tensors, "layers.4.self_attn.keys", SB_DTYPE_F32, 1, two);
    check_parts("extra", &p, SB_ERR_INPUT, PARTS("13 tensors, expected 12"));
    test_parts_free(&p);
    p = sound_parts();
    strcpy(test_folder_find(&p.tensors, keys)->name, "layers.3.self_attn.key");
    check_parts("renamed", &p, SB_ERR_INPUT, PARTS("no tensor", keys));
    test_parts_free(&p);
    p = sound_parts();
    test_tensor *t = test_folder_find(&p.tensors, conv);
    t->shape[0] = 384;
    t->shape[1] = 3; /* channels first, the layout of some engines */
    check_parts("transposed", &p, SB_ERR_INPUT, PARTS(conv, "[384,3]", "[3,384]"));
    test_parts_free(&p);
    p = sound_parts();
    test_folder_find(&p.tensors, keys)->dtype = SB_DTYPE_I32;
    check_parts("dtype", &p, SB_ERR_INPUT, PARTS(keys, "I32", "expected F32"));
    test_parts_free(&p);
    p = sound_parts();
    sb_store_u32(test_folder_find(&p.tensors, keys)->bytes + 4 * (2 * 128 + 64 + 5),
                 sb_bits_f32(NAN));
    check_parts("NaN", &p, SB_ERR_INPUT, PARTS(keys, "row 2, column 5 of head 1", "not finite"));
    test_parts_free(&p);
    p = sound_parts();
    test_folder_find(&p.tensors, keys)->bytes[77] ^= 1;
    check_parts("flipped", &p, SB_ERR_INPUT, PARTS("target", "one of the two was changed"));
    test_parts_free(&p);
}

static sb_state_file *open_like(const char *path, const sb_state_file *like, const char *message)
{
    sb_state_file *file = NULL;
    sb_error err = {""};
    sb_status status = sb_state_file_open_like(path, like, &file, &err);
    assert_int_equal(status, message ? SB_ERR_INPUT : SB_OK);
    if (message && !strstr(err.text, message))
        fail_msg("\"%s\" lacks \"%s\"", err.text, message);
    return file;
}

static const char *write_parts(const test_parts *p)
{
    const char *path = test_path(PROGRAM, "bare");
    size_t size;
    unsigned char *bytes = test_put_together(p, &size);
    assert_int_equal(sb_write_file(path, bytes, size, NULL), SB_OK);
    free(bytes);
    return path;
}

/* D-10: "A file without metadata is read for a comparison only": another program's dump. */
TEST(test_bare_files)
{
    static const char keys[] = "layers.3.self_attn.keys";
    sb_state_file *like = NULL, *file;
    sb_error err;
    sb_state_difference d;
    test_parts p = sound_parts();
    assert_int_equal(sb_state_file_open(write_parts(&p), &like, &err), SB_OK);
    file = open_like(write_parts(&p), like, NULL); /* the file itself, not bare */
    assert_true(file->tokens && !file->bare);
    sb_state_file_free(file);
    test_folder_remove(&p.tensors, "tokens");
    open_like(write_parts(&p), like, "\"tokens\""); /* a file with metadata needs all tensors */
    for (size_t i = 0; i < p.pairs; i++) {
        free(p.keys[i]);
        free(p.values[i]);
    }
    p.pairs = 0;
    assert_int_equal(sb_state_file_open(write_parts(&p), &file, &err), SB_ERR_INPUT);
    file = open_like(write_parts(&p), like, NULL);
    test_same_state("bare", file->state, like->state);
    assert_true(file->bare && !file->tokens);
    assert_string_equal(file->target.hex, like->target.hex);
    assert_string_equal(file->mtp.hex, like->mtp.hex);
    sb_state_file_free(file);
    test_folder_find(&p.tensors, keys)->bytes[1] ^= 1;
    file = open_like(write_parts(&p), like, NULL);
    assert_int_equal(sb_state_compare(like->state, file->state, &d, &err), SB_OK);
    assert_true(d.differs && strcmp(d.piece.name, keys) == 0 && d.different == 1);
    sb_state_file_free(file);
    test_tensor *t = test_folder_find(&p.tensors, keys);
    t->dtype = SB_DTYPE_BF16; /* only the upper halves */
    t->size /= 2;
    for (size_t i = 0; i < t->size / 2; i++)
        memmove(t->bytes + 2 * i, t->bytes + 4 * i + 2, 2);
    file = open_like(write_parts(&p), like, NULL);
    assert_int_equal(sb_bits_f32(file->state->layers[3].keys[5]),
                     sb_bits_f32(like->state->layers[3].keys[5]) & 0xffff0000u);
    sb_state_file_free(file);
    t->dtype = SB_DTYPE_U16;
    open_like(write_parts(&p), like, "U16");
    test_folder_remove(&p.tensors, keys);
    open_like(write_parts(&p), like, keys);
    sb_state_file_free(like);
    test_parts_free(&p);
}

/* A head with more entries than the sequence has tokens is a reported difference, not a crash. */
TEST(test_bare_file_with_long_head)
{
    static const char *const names[] = {"mtp.layers.0.self_attn.keys",
                                        "mtp.layers.0.self_attn.values"};
    const uint64_t shape[] = {300, 2, 64};
    sb_state_file *like = NULL, *file;
    sb_error err;
    sb_state_difference d;
    test_parts p = sound_parts();
    assert_int_equal(sb_state_file_open(write_parts(&p), &like, &err), SB_OK);
    for (size_t i = 0; i < p.pairs; i++) {
        free(p.keys[i]);
        free(p.values[i]);
    }
    p.pairs = 0;
    test_folder_remove(&p.tensors, "tokens");
    for (size_t i = 0; i < 2; i++) {
        test_folder_remove(&p.tensors, names[i]);
        test_folder_add(&p.tensors, names[i], SB_DTYPE_F32, 3, shape);
    }
    file = open_like(write_parts(&p), like, NULL);
    assert_int_equal(sb_state_compare(like->state, file->state, &d, &err), SB_OK);
    assert_true(d.entries[0] == N - 1 && d.entries[1] == 300);
    sb_state_file_free(file);
    sb_state_file_free(like);
    test_parts_free(&p);
}

/* D-12: "no bit of a file can change unnoticed": all bits of the header, and some of the data. */
TEST(test_every_bit_counts)
{
    const char *path = test_path(PROGRAM, "flips");
    size_t size, flips = 0;
    sb_error err;
    uint64_t key = sb_rng_key(1, "flips");
    sb_session *session = test_session_mtp(model, NULL, 1);
    test_feed(session, ids, N);
    save(path, sb_session_state(session), &origin);
    sb_session_free(session);
    unsigned char *bytes = bytes_of(path, &size);
    size_t header = 8 + (size_t)sb_load_u64(bytes);
    for (size_t i = 0; i < 8 * header + 400; i++) {
        size_t bit =
            i < 8 * header ? i : 8 * header + sb_rng_below(key, i, (uint32_t)(8 * (size - header)));
        sb_state_file *file = NULL;
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        sb_status status = sb_state_file_parse(bytes, size, "input", &file, &err);
        if (!status)
            fail_msg("bit %zu of byte %zu of %zu was changed unseen", bit % 8, bit / 8, size);
        assert_non_null(strstr(err.text, "input"));
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        flips++;
    }
    assert_true(flips > 10000);
    for (size_t cut = 1; cut < size; cut += size / 50 + 1) {
        sb_state_file *file = NULL;
        assert_int_equal(sb_state_file_parse(bytes, size - cut, "input", &file, &err),
                         SB_ERR_INPUT);
    }
    free(bytes);
}

/* A failed save leaves an existing file unchanged. */
TEST(test_saves_that_fail)
{
    const char *path = test_path(PROGRAM, "kept");
    size_t size, after;
    sb_error err;
    sb_state_origin bad = origin;
    uint32_t beyond[N] = {V};
    sb_session *session = test_session_mtp(model, NULL, 1);
    test_feed(session, ids, N);
    save(path, sb_session_state(session), &origin);
    unsigned char *was = bytes_of(path, &size);
    bad.profile = NULL;
    assert_int_equal(sb_state_save(path, sb_session_state(session), &bad, &err), SB_ERR_USAGE);
    bad = origin;
    bad.tokens = beyond;
    assert_int_equal(sb_state_save(path, sb_session_state(session), &bad, &err), SB_ERR_USAGE);
    assert_non_null(strstr(err.text, "id 384"));
    sb_state *hurt = test_state_copy(sb_session_state(session));
    hurt->layers[2].recurrent[5] = INFINITY;
    assert_int_equal(sb_state_save(path, hurt, &origin, &err), SB_ERR_NUMERIC);
    assert_non_null(strstr(err.text, "element 5 of layers.2.linear_attn.recurrent_state"));
    assert_int_equal(sb_state_save("no/such/folder/f", hurt, &origin, &err), SB_ERR_IO);
    unsigned char *is = bytes_of(path, &after);
    assert_int_equal(size, after);
    assert_memory_equal(was, is, size);
    free(was);
    free(is);
    sb_state_free(hurt);
    sb_session_free(session);
}

TEST(test_no_memory)
{
    const char *path = test_path(PROGRAM, "memory");
    unsigned long n, faults = 0;
    sb_threads_set(1); /* the fault counter works in one thread only */
    sb_session *session = test_session_mtp(model, NULL, 1);
    test_feed(session, ids, N);
    for (n = 1;; n++) {
        sb_error err = {""};
        sb_alloc_fail_at(n);
        sb_status status = sb_state_save(path, sb_session_state(session), &origin, &err);
        sb_alloc_fail_at(0);
        if (!status)
            break;
        assert_int_equal(status, SB_ERR_MEMORY);
        faults++;
    }
    assert_true(faults > 10);
    for (n = 1, faults = 0;; n++) {
        sb_error err = {""};
        sb_state *loaded = NULL;
        sb_alloc_fail_at(n);
        sb_status status = sb_state_load(path, model, &origin, 1, &loaded, &err);
        sb_alloc_fail_at(0);
        if (!status) {
            test_same_state("at last", loaded, sb_session_state(session));
            sb_state_free(loaded);
            break;
        }
        assert_int_equal(status, SB_ERR_MEMORY);
        assert_null(loaded);
        faults++;
    }
    assert_true(faults > 10);
    sb_session_free(session);
}

/* The files of golden/state equal these, byte for byte: the layout is the same on every machine.
 * WRITE_SEEDS=1 writes them, after a change of the specification. */
TEST(test_recorded_files)
{
    static const struct {
        const char *path;
        uint64_t tokens;
        int mtp;
    } files[] = {{"golden/state/seed-head.state", 3, 1},
                 {"golden/state/seed-plain.state", 2, 0},
                 {"golden/state/seed-first.state", 1, 1},
                 {"golden/state/seed-empty.state", 0, 1}};
    static const uint32_t tokens[] = {7, 0, 10};
    sb_state_origin from = {{"00112233445566778899aabbccddeeff"}, &exact, "exact", tokens, 0, NULL};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const char *path = getenv("WRITE_SEEDS") ? files[i].path : test_path(PROGRAM, "seed");
        sb_state *tiny = test_tiny_state(files[i].tokens, files[i].mtp);
        size_t size, recorded;
        save(path, tiny, &from);
        unsigned char *is = bytes_of(path, &size), *was = bytes_of(files[i].path, &recorded);
        if (size != recorded || memcmp(is, was, size) != 0)
            fail_msg("%s is not what is written today", files[i].path);
        free(is);
        free(was);
        sb_state_free(tiny);
    }
}

TEST_GROUP(open_model, close_model)
