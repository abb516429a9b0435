/* test_structure.c - the checks that need headers only, beyond what faults.def plants: the words of
 * the messages, damaged containers, missing files, and findings that a fault must not cause.
 *
 *   check test_structure --sparse DIR  writes DIR/FORMAT for some formats: headers of a 35B model
 */
#include "tests/lib/suite.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check/folder.h"
#include "tests/check/plant.h"
#include "tests/lib/checkpoint.h"
#include "tests/lib/sparse.h"

#define CT "T3 nvfp4-ct recipe=plain"
#define VL "T3 nvfp4-ct recipe=plain layout=vl"
#define FP8 "T3 fp8-block recipe=plain"
#define ODD "T6 fp8-block recipe=plain"
#define GPTQ "T3 int4-gptq recipe=plain"
#define STACKED "T3 bf16 recipe=plain"
#define L1 "model.layers.1."
#define E1 "model.layers.1.mlp.experts.1"

/* --- messages --------------------------------------------------------------------------------- */

static const struct {
    const char *vehicle, *plant;
    unsigned check;
    sb_level level;
    const char *where, *says; /* part of the tensor's name, part of the message */
} rows[] = {
    {CT, "rename model.norm.weight norm.weight", 3, SB_LEVEL_error, "norm.weight",
     "prefix is wrong, probably meant: model.norm.weight"},
    {VL, "rename mtp.fc.weight model.language_model.mtp.fc.weight", 3, SB_LEVEL_error, "mtp.fc",
     "probably meant: mtp.fc.weight"},
    {VL, "rename model.language_model.layers.1.mlp.gate.weight model.layers.1.mlp.gate.weight", 3,
     SB_LEVEL_error, L1 "mlp.gate", "probably meant: model.language_model.layers.1.mlp.gate"},
    {CT, "rename " L1 "mlp.gate.weight model.layers.4.mlp.gate.weight", 3, SB_LEVEL_error,
     "model.layers.4.mlp.gate", "is of layer 4, but config.json declares 4 layers"},
    {CT, "rename " L1 "linear_attn.norm.weight " L1 "self_attn.q_norm.weight", 3, SB_LEVEL_error,
     "self_attn.q_norm", "layer 1 has linear attention"},
    {CT, "rename " E1 ".up_proj.weight_scale " E1 ".up_proj.weight_scales", 3, SB_LEVEL_error,
     "weight_scales", "no part \"weight_scales\""},
    {CT, "add " L1 "self_attn.rotary_emb.inv_freq F32 8", 3, SB_LEVEL_warn, "inv_freq",
     "compute themselves"},
    {CT, "add transformer.h.0.attn.weight BF16 8,8", 3, SB_LEVEL_error, "transformer.h.0",
     "no place in the architecture"},
    {VL, "rename model.visual.merger.norm.bias model.visual.merger.ln_q.bias", 3, SB_LEVEL_error,
     "ln_q", "vision tower"},
    {"T4 bf16 recipe=plain", "twin model.embed_tokens.weight lm_head.weight", 3, SB_LEVEL_warn,
     "lm_head", "tie_word_embeddings"},
    {STACKED, "add " L1 "mlp.experts.3.up_proj.weight BF16 128,128", 4, SB_LEVEL_fatal,
     L1 "mlp.experts", "stored twice"},
    {CT, "add " L1 "mlp.gate.pre_quant_scale BF16 128", 4, SB_LEVEL_warn, L1 "mlp.gate",
     "this version does not read it"},
    {CT, "drop mtp.norm.weight", 4, SB_LEVEL_error, "mtp.norm", "is missing"},
    {CT, "drop " L1 "linear_attn.A_log", 4, SB_LEVEL_fatal, L1 "linear_attn.A_log", "is missing"},
    {CT, "drop-all " L1 "mlp.experts.3.", 5, SB_LEVEL_error, L1 "mlp.experts.3.gate_proj",
     "gate_proj: 31 of 32"},
    {CT, "drop " L1 "mlp.experts.0.up_proj.input_global_scale", 6, SB_LEVEL_error,
     L1 "mlp.experts.0.up_proj", "but 7 experts of the layer are nvfp4-ct"},
    {ODD, "resize " L1 "mlp.shared_expert.gate_proj.weight_scale_inv 2,2", 32, SB_LEVEL_fatal,
     L1 "mlp.shared_expert.gate_proj", "2 x 2 scales for a matrix of 320 x 320, expected 3 x 3"},
    {FP8, "to-fp8 " L1 "linear_attn.in_proj_b.weight", 32, SB_LEVEL_error, "in_proj_b",
     "less than a block"},
    {GPTQ, "config quantization_config.group_size 32", 8, SB_LEVEL_fatal, "experts.0.down_proj",
     "but 32 are declared"},
    {CT, "retype " L1 "mlp.experts.1.up_proj.weight_packed I8", 7, SB_LEVEL_fatal, E1,
     "has dtype I8, expected U8"},
    {CT, "retype " L1 "post_attention_layernorm.weight I16", 11, SB_LEVEL_error,
     "post_attention_layernorm", "has dtype I16"},
    {CT, "drop-all " L1, 4, SB_LEVEL_fatal, "model.layers.1",
     "is missing with all of its 40 modules"},
    {CT, "rename-all model. trunk.", 4, SB_LEVEL_fatal, "", "there is no tensor of the text model"},
    {CT, "rename-all model. trunk.", 3, SB_LEVEL_error, "trunk.norm.weight",
     "probably meant: model.language_model. or model. before norm.weight"},
    {CT, "config quantization_config null", 9, SB_LEVEL_error, "experts.0.down_proj",
     "no quantization is declared"},
};

TEST(test_messages)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sb_check_options headers = {.headers_only = 1};
        folder *f = folder_of(rows[i].vehicle);
        plant(f, rows[i].plant);
        folder_result *r = folder_check(f, NULL, &headers);
        int said = 0;
        for (size_t k = 0; k < r->check.findings.count; k++) {
            const sb_finding *found = &r->check.findings.rows[k];
            said |= found->check == rows[i].check && found->level == rows[i].level &&
                    strstr(found->tensor, rows[i].where) && strstr(found->message, rows[i].says);
        }
        if (!said) {
            folder_print(r);
            fail_msg("%s: no %s of check %u at %s that says \"%s\"", rows[i].plant,
                     sb_level_name(rows[i].level), rows[i].check, rows[i].where, rows[i].says);
        }
        folder_result_free(r);
        folder_free(f);
    }
}

/* --- files ------------------------------------------------------------------------------------ */

static size_t count_of(const folder_result *r, unsigned check, sb_level at_least)
{
    size_t n = 0;
    for (size_t i = 0; i < r->check.findings.count; i++)
        n +=
            r->check.findings.rows[i].check == check && r->check.findings.rows[i].level >= at_least;
    return n;
}

static void expect_said(const folder_result *r, unsigned check, sb_level level, const char *says)
{
    for (size_t i = 0; i < r->check.findings.count; i++)
        if (r->check.findings.rows[i].check == check && r->check.findings.rows[i].level == level &&
            strstr(r->check.findings.rows[i].message, says))
            return;
    folder_print(r);
    fail_msg("no %s of check %u says \"%s\"", sb_level_name(level), check, says);
}

/* One finding reports all that a missing file holds, and no other check reports it again. */
TEST(test_missing_files)
{
    sb_check_options headers = {.headers_only = 1};
    folder *f = folder_of(CT);
    plant(f, "lost model-00002-of-00003.safetensors; lost model-00003-of-00003.safetensors");
    folder_result *r = folder_check(f, NULL, &headers);
    expect_said(r, 2, SB_LEVEL_fatal, "2 of 3 files are missing: model-00002-of-00003.safetensors");
    expect_said(
        r, 2, SB_LEVEL_fatal,
        "to get them: hf download REPO --include 'model-00002-of-00003.safetensors' --include "
        "'model-00003-of-00003.safetensors'");
    expect_said(r, 2, SB_LEVEL_fatal, "modules: mtp.* 19, mlp.experts.");
    assert_int_equal(count_of(r, 2, SB_LEVEL_warn), 1);
    for (unsigned check = 3; check <= 9; check++)
        assert_int_equal(count_of(r, check, SB_LEVEL_warn), 0);
    folder_result_free(r);
    folder_free(f);
}

/* The same if only the file of the MTP head is here. */
TEST(test_only_mtp_is_here)
{
    sb_check_options headers = {.headers_only = 1};
    folder *f = folder_of(CT);
    plant(f, "move-all mtp. model_mtp.safetensors; lost model-00001-of-00003.safetensors; "
             "lost model-00002-of-00003.safetensors");
    folder_result *r = folder_check(f, NULL, &headers);
    expect_said(r, 2, SB_LEVEL_fatal, "2 of 3 files are missing");
    for (unsigned check = 3; check <= 9; check++)
        assert_int_equal(count_of(r, check, SB_LEVEL_warn), 0);
    folder_result_free(r);
    folder_free(f);
}

/* An original that lacks a file serves for the tensors of its other files. */
TEST(test_original_in_part)
{
    folder *original = folder_of(STACKED);
    plant(original, "lost model-00003-of-00003.safetensors");
    char path[512];
    snprintf(path, sizeof path, "%s", folder_write(original));
    folder_result *r = folder_check_made(CT, path, NULL);
    expect_none_above(r, SB_LEVEL_warn);
    assert_int_equal(count_of(r, 2, SB_LEVEL_warn), 0);
    folder_result_free(r);
    folder_free(original);
}

TEST(test_stray_files)
{
    sb_check_options headers = {.headers_only = 1};
    folder *f = folder_of(CT);
    plant(f, "move-all mtp. model_mtp.safetensors; unindex-all mtp.");
    folder_result *r = folder_check(f, NULL, &headers);
    expect_said(r, 2, SB_LEVEL_error, "19 tensors are in no other file: modules: mtp.* 19");
    expect_said(r, 2, SB_LEVEL_error, "load no MTP head");
    assert_int_equal(count_of(r, 2, SB_LEVEL_warn), 1);
    folder_result_free(r);
    folder_free(f);
}

/* Many equal faults give a few findings and their number. */
TEST(test_repetitions)
{
    sb_check_options headers = {.headers_only = 1};
    folder *f = folder_of(CT);
    plant(f, "drop-all .gate_proj.weight_scale");
    folder_result *r = folder_check(f, NULL, &headers);
    expect_said(r, 4, SB_LEVEL_fatal, "32 in all: mlp.experts.gate_proj");
    assert_true(count_of(r, 4, SB_LEVEL_fatal) <= 10);
    folder_result_free(r);
    folder_free(f);
}

/* --- damaged containers ----------------------------------------------------------------------- */

static folder_result *check_path(const char *path)
{
    sb_check_options headers = {.headers_only = 1};
    folder_result *r = calloc(1, sizeof *r);
    assert_non_null(r);
    r->options = headers;
    r->options.path = path;
    r->what = strdup(path);
    r->status = sb_check_run(&r->options, &r->check, &r->why);
    return r;
}

/* Every damaged file of golden/bad: alone it is refused, and beside sound files it is FATAL. */
static void expect_refused(const folder *sound, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "golden/bad/%s", name);
    folder_result *r = check_path(path);
    if (r->status != SB_ERR_INPUT && r->status != SB_ERR_UNSUPPORTED)
        fail_msg("%s: status %d", path, (int)r->status);
    assert_null(strchr(r->why.text, '\n'));
    folder_result_free(r);

    folder *f = folder_copy(sound);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    unsigned char bytes[4096];
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    folder_put(f, "old.safetensors", bytes, size);
    sb_check_options headers = {.headers_only = 1};
    r = folder_check(f, NULL, &headers);
    /* a file without tensors is sound, but the index does not name it */
    int empty = strcmp(name, "no-tensors.safetensors") == 0;
    expect_said(r, empty ? 2 : 1, empty ? SB_LEVEL_error : SB_LEVEL_fatal, "old.safetensors: ");
    assert_int_equal(count_of(r, 1, SB_LEVEL_info), !empty);
    for (unsigned check = 3; check <= 9; check++)
        assert_int_equal(count_of(r, check, SB_LEVEL_warn), 0);
    folder_result_free(r);
    folder_free(f);
}

TEST(test_damaged_files)
{
    folder *sound = folder_of(CT);
    DIR *dir = opendir("golden/bad");
    unsigned seen = 0;
    assert_non_null(dir);
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        const char *tail = strstr(e->d_name, ".safetensors");
        if (!tail || tail[strlen(".safetensors")] || strcmp(e->d_name, "good.safetensors") == 0)
            continue;
        expect_refused(sound, e->d_name);
        seen++;
    }
    closedir(dir);
    folder_free(sound);
    assert_true(seen >= 30);
}

TEST(test_damaged_folders)
{
    static const struct {
        const char *name;
        sb_level level;
        const char *says;
    } folders[] = {
        {"missing-shard", SB_LEVEL_fatal, "1 of 2 files are missing: s2.safetensors"},
        {"not-in-shard", SB_LEVEL_fatal, "s2.safetensors: is not in this file"},
        {"not-in-index", SB_LEVEL_error, "s2.safetensors: is in the file, but not in"},
        {"wrong-shard", SB_LEVEL_fatal, "is not in this file"},
        {"in-two-shards", SB_LEVEL_fatal, "is also in s2.safetensors, with other bytes"},
        {"stray-file", SB_LEVEL_error, "s3.safetensors: the index never names this file"},
        {"stray-single", SB_LEVEL_error, "model-mtp.safetensors: there is no index"},
        {"index-leaves-folder", SB_LEVEL_fatal, "expected a plain file name"},
        {"index-duplicate", SB_LEVEL_fatal, "duplicate object key"},
        {"index-total-text", SB_LEVEL_fatal, "total_size is the string"},
        {"index-no-map", SB_LEVEL_fatal, "weight_map is absent"},
        {"index-truncated", SB_LEVEL_fatal, "not strict JSON"},
    };
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        char path[512];
        snprintf(path, sizeof path, "golden/bad/%s", folders[i].name);
        folder_result *r = check_path(path);
        assert_int_equal(r->status, SB_OK);
        expect_said(r, 2, folders[i].level, folders[i].says);
        assert_int_equal(count_of(r, 2, SB_LEVEL_warn), 1);
        folder_result_free(r);
    }
}

/* --- real sizes ------------------------------------------------------------------------------- */

static const struct {
    const char *format, *identity;
    size_t tensors;
} big[] = {
    /* the published folders have a vision tower of 333 tensors, the text layout none */
    {"fp8-block", "FP8 blocks", 64196 - 333},
    {"bf16", "BF16, experts stacked", 1045 - 333},
    {"int4-autoround", "AutoRound INT4, the shared expert in BF16", 95815 - 333},
    {"nvidia-mix", "ModelOpt: NVFP4 MLPs and head, FP8 attention", 124468 - 333},
    {"nvfp4-ct", "NVFP4 (W4A4): experts, shared expert, attention", 124325 - 333},
};

static void make_big(const char *format, const char *dir)
{
    test_sparse_make(&(sb_make_options){
        .dir = dir, .preset = "35b-a3b", .format = format, .layout = "text", .replace = 1});
}

/* CHECK_ALL=1: all of them. */
TEST(test_identities)
{
    const char *all = getenv("CHECK_ALL");
    size_t count = all && strcmp(all, "1") == 0 ? sizeof big / sizeof *big : 3;
    for (size_t i = 0; i < count; i++) {
        const char *path = test_path("test_structure", big[i].format);
        make_big(big[i].format, path);
        folder_result *r = check_path(path);
        expect_none_above(r, SB_LEVEL_warn);
        expect_said(r, 5, SB_LEVEL_info, big[i].identity);
        assert_int_equal(sb_checkpoint_count(r->check.self.checkpoint), big[i].tensors);
        folder_result_free(r);
    }
}

/* No tensor may have more than SB_MAX_EXPERTS experts. */
TEST(test_many_experts)
{
    static const uint64_t most[3] = {SB_MAX_EXPERTS, 2, 1}, more[3] = {SB_MAX_EXPERTS + 1, 2, 1};
    folder *f = folder_of(STACKED);
    folder_add(f, "model.layers.8.mlp.experts.down_proj", SB_DTYPE_BF16, 3, most, NULL);
    folder_add(f, "model.layers.9.mlp.experts.down_proj", SB_DTYPE_BF16, 3, more, NULL);
    folder_result *r = folder_check(f, NULL, NULL);
    expect_finding(r, 7, SB_LEVEL_fatal, "layers.9.");
    assert_null(folder_finding(r, 7, SB_LEVEL_fatal, "layers.8."));
    folder_result_free(r);
    folder_free(f);
}

/* A kilobyte of configuration must not allocate gigabytes for expected tensors. */
TEST(test_absurd)
{
    folder *f = folder_of(CT);
    folder_json(f, "config.json", "layer_types", NULL);
    folder_json(f, "config.json", "num_hidden_layers", "1024");
    folder_json(f, "config.json", "num_experts", "4096");
    folder_result *r = folder_check(f, NULL, NULL);
    expect_finding(r, 9, SB_LEVEL_fatal, "");
    assert_non_null(strstr(folder_finding(r, 9, SB_LEVEL_fatal, "")->message, "4096 experts"));
    assert_int_equal(r->check.self.units.expected_count, 0);
    folder_result_free(r);
    folder_free(f);
}

static int make_all(int argc, char **argv)
{
    if (argc != 3 || strcmp(argv[1], "--sparse") != 0)
        return 2;
    for (size_t i = 0; i < sizeof big / sizeof *big; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", argv[2], big[i].format);
        make_big(big[i].format, path);
    }
    return 0;
}
TEST_ARGS(make_all)
