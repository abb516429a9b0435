/* test_model_bind.c - folders whose tensors do not match config.json: M-4, M-6. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/checkpoint.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* A change to a good folder, and the message of binding it. */
typedef struct bad_folder {
    const char *what;
    const char *removed; /* or NULL */
    const char *added;   /* or NULL; of the given dtype and shape */
    sb_dtype dtype;
    unsigned rank;
    uint64_t shape[3];
    sb_status status;
    const char *message[2]; /* parts of the message */
} bad_folder;

static test_folder sound;

TEST_FIXTURE(load)
{
    sound = test_folder_load(test_checkpoint("test_model_bind", "T4", NULL, "bf16", "text"));
    return 0;
}

TEST_FIXTURE(unload)
{
    test_folder_free(&sound);
    return 0;
}

/* A second list of the same tensors, so that the folder `sound` does not change. */
static test_folder copy(void)
{
    test_folder f = sound;
    f.room = sound.count + 4;
    f.tensors = malloc(f.room * sizeof *f.tensors);
    assert_non_null(f.tensors);
    memcpy(f.tensors, sound.tensors, sound.count * sizeof *f.tensors);
    return f;
}

static sb_status bind(const char *folder, sb_weights *out, sb_error *err)
{
    sb_model *model = NULL;
    sb_status status = sb_model_open(folder, &model, err);
    if (!status && out)
        *out = *model->weights; /* *out has counters only; the arrays are freed below */
    if (!status)
        sb_model_close(model);
    return status;
}

static void check(const bad_folder *bad)
{
    test_folder f = copy();
    unsigned char *fresh = NULL;
    sb_error err = {""};
    for (size_t i = 0; bad->removed && i < f.count; i++)
        if (strcmp(f.tensors[i].name, bad->removed) == 0)
            f.tensors[i--] = f.tensors[--f.count];
    assert_int_equal(f.count, sound.count - (bad->removed != NULL));
    if (bad->added)
        fresh = test_folder_add(&f, bad->added, bad->dtype, bad->rank, bad->shape)->bytes;
    sb_status status = bind(test_folder_save(&f, "test_model_bind", "changed"), NULL, &err);
    free(fresh);
    free(f.tensors);
    if (status != bad->status)
        fail_msg("%s: status %d, expected %d: %s", bad->what, (int)status, (int)bad->status,
                 err.text);
    for (size_t i = 0; status && i < COUNT(bad->message) && bad->message[i]; i++)
        if (!strstr(err.text, bad->message[i]))
            fail_msg("%s: message \"%s\" lacks \"%s\"", bad->what, err.text, bad->message[i]);
    if (strchr(err.text, '\n'))
        fail_msg("%s: more than one line: %s", bad->what, err.text);
}

#define L0 "model.layers.0.linear_attn."
#define BF SB_DTYPE_BF16

static const bad_folder tensors_gone_or_new[] = {
    {"nothing changed", NULL, NULL, BF, 0, {0}, SB_OK, {NULL}},
    {"missing in a layer", L0 "A_log", NULL, BF, 0, {0}, SB_ERR_INPUT, {L0 "A_log", "missing"}},
    {"missing in the last layer",
     "model.layers.3.mlp.down_proj.weight",
     NULL,
     BF,
     0,
     {0},
     SB_ERR_INPUT,
     {"model.layers.3.mlp.down_proj.weight", "missing"}},
    {"missing norm",
     "model.norm.weight",
     NULL,
     BF,
     0,
     {0},
     SB_ERR_INPUT,
     {"model.norm.weight", "missing"}},
    {"no embedding",
     "model.embed_tokens.weight",
     NULL,
     BF,
     0,
     {0},
     SB_ERR_INPUT,
     {"no embedding", "model.language_model.embed_tokens.weight"}},
    {"two embeddings",
     NULL,
     "language_model.model.embed_tokens.weight",
     BF,
     2,
     {384, 128},
     SB_ERR_INPUT,
     {"two embeddings", "language_model.model.embed_tokens.weight"}},
    {"unexpected bias",
     NULL,
     L0 "in_proj_z.bias",
     BF,
     1,
     {128},
     SB_ERR_INPUT,
     {L0 "in_proj_z.bias", "does not belong to this model"}},
    {"a layer too many",
     NULL,
     "model.layers.4.input_layernorm.weight",
     BF,
     1,
     {128},
     SB_ERR_INPUT,
     {"model.layers.4.input_layernorm.weight", "does not belong to this model"}},
    {"a head beside a tied one",
     NULL,
     "lm_head.weight",
     BF,
     2,
     {384, 128},
     SB_ERR_INPUT,
     {"lm_head.weight", "does not belong to this model"}},
    {"a scale of a quantized tensor",
     NULL,
     L0 "out_proj.weight_scale_inv",
     SB_DTYPE_F32,
     2,
     {1, 1},
     SB_ERR_INPUT,
     {L0 "out_proj.weight_scale_inv", "stored as plain"}},
    {"other name for a vision tower",
     NULL,
     "model.visual_tower.x",
     BF,
     1,
     {4},
     SB_ERR_INPUT,
     {"model.visual_tower.x", "does not belong to this model"}},
    {"MTP without its projection",
     "mtp.fc.weight",
     NULL,
     BF,
     0,
     {0},
     SB_ERR_INPUT,
     {"mtp.fc.weight", "missing"}},
    {"MTP without its norm",
     "mtp.norm.weight",
     NULL,
     BF,
     0,
     {0},
     SB_ERR_INPUT,
     {"mtp.norm.weight", "missing"}},
    {"MTP without a layer tensor",
     "mtp.layers.0.self_attn.k_norm.weight",
     NULL,
     BF,
     0,
     {0},
     SB_ERR_INPUT,
     {"mtp.layers.0.self_attn.k_norm.weight", "missing"}},
    {"a second MTP layer",
     NULL,
     "mtp.layers.1.input_layernorm.weight",
     BF,
     1,
     {128},
     SB_ERR_INPUT,
     {"mtp.layers.1.input_layernorm.weight", "does not belong to this model"}},
};

TEST(test_missing_and_unexpected)
{
    for (size_t i = 0; i < COUNT(tensors_gone_or_new); i++)
        check(&tensors_gone_or_new[i]);
}

static const bad_folder tensors_changed[] = {
    {"transposed",
     "model.layers.3.self_attn.o_proj.weight",
     "model.layers.3.self_attn.o_proj.weight",
     BF,
     2,
     {128, 127},
     SB_ERR_INPUT,
     {"model.layers.3.self_attn.o_proj.weight", "has shape [128, 127], expected [128, 128]"}},
    {"rank too high",
     "model.norm.weight",
     "model.norm.weight",
     BF,
     2,
     {1, 128},
     SB_ERR_INPUT,
     {"model.norm.weight", "has shape [1, 128], expected [128]"}},
    {"rank too low",
     L0 "conv1d.weight",
     L0 "conv1d.weight",
     BF,
     2,
     {384, 4},
     SB_ERR_INPUT,
     {L0 "conv1d.weight", "has shape [384, 4], expected [384, 1, 4]"}},
    {"other vocabulary",
     "model.embed_tokens.weight",
     "model.embed_tokens.weight",
     BF,
     2,
     {383, 128},
     SB_ERR_INPUT,
     {"model.embed_tokens.weight", "expected [384, 128]"}},
    {"integers",
     L0 "dt_bias",
     L0 "dt_bias",
     SB_DTYPE_I16,
     1,
     {2},
     SB_ERR_UNSUPPORTED,
     {L0 "dt_bias", "I16"}},
    {"eight bits",
     "mtp.fc.weight",
     "mtp.fc.weight",
     SB_DTYPE_F8_E4M3,
     2,
     {128, 256},
     SB_ERR_UNSUPPORTED,
     {"mtp.fc.weight", "F8_E4M3"}},
    {"64 bits",
     "model.norm.weight",
     "model.norm.weight",
     SB_DTYPE_F64,
     1,
     {128},
     SB_ERR_UNSUPPORTED,
     {"model.norm.weight", "F64"}},
    {"another type that is read",
     "model.norm.weight",
     "model.norm.weight",
     SB_DTYPE_F32,
     1,
     {128},
     SB_OK,
     {NULL}},
};

TEST(test_wrong_shape_and_dtype)
{
    for (size_t i = 0; i < COUNT(tensors_changed); i++)
        check(&tensors_changed[i]);
}

TEST(test_vision_is_ignored)
{
    static const char *const names[] = {"model.visual.blocks.0.attn.qkv.weight",
                                        "visual.merger.mlp.0.bias"};
    static const uint64_t shape[2] = {5, 7};
    test_folder f = copy();
    for (size_t i = 0; i < COUNT(names); i++)
        test_folder_add(&f, names[i], SB_DTYPE_I8, 2, shape); /* of any type */
    sb_weights w;
    sb_error err;
    if (bind(test_folder_save(&f, "test_model_bind", "vision"), &w, &err))
        fail_msg("%s", err.text);
    assert_int_equal(w.ignored, 2);
    assert_true(w.ignored_bytes == 70);
    assert_int_equal(w.bound, sound.count);
    free(test_folder_find(&f, names[0])->bytes);
    free(test_folder_find(&f, names[1])->bytes);
    free(f.tensors);
}

/* A folder without any MTP tensor is valid; one with some of them is not. */
TEST(test_without_mtp)
{
    test_folder f = copy();
    for (size_t i = f.count; i-- > 0;)
        if (strncmp(f.tensors[i].name, "mtp.", 4) == 0)
            f.tensors[i] = f.tensors[--f.count];
    sb_weights w;
    assert_int_equal(f.count, sound.count - 15);
    assert_int_equal(bind(test_folder_save(&f, "test_model_bind", "no-mtp"), &w, NULL), SB_OK);
    assert_false(w.storage.has_mtp);
    assert_int_equal(w.layer_count, 4);
    free(f.tensors);
}

TEST_GROUP(load, unload)
