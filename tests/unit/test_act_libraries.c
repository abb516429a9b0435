/* test_act_libraries.c - forms of K-18 to K-23 compared with the libraries that use them.
 *
 * golden/quant/activations.safetensors, act-ct.safetensors (compressed-tensors) and
 * act-modelopt.safetensors (ModelOpt) contain inputs in binary32 and BF16 and the values after the
 * libraries' quantizers: every value must be equal. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/container/safetensors.h"
#include "ref/formats/format.h"
#include "ref/ops/act_quant.h"
#include "tests/lib/plain.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

enum { ROWS_MAX = 16, COLS = 256 };

static const unsigned char scales[1];

/* Inputs are "<in>.<type><suffix>", results "<name>.<type>.out" or "<name>.<type>". */
static const struct recording {
    const char *path;
    size_t rows;
    int separate; /* 1: each result has its own tensor of inputs */
    const char *law;
} recordings[] = {
    {"golden/quant/activations.safetensors", 8, 0, "ct_div"},
    {"golden/quant/act-ct.safetensors", 16, 1, "ct_div"},
    {"golden/quant/act-modelopt.safetensors", 16, 1, "mo_mul"},
};

enum { OURS, CT, MODELOPT };

static const struct scheme {
    size_t recording;
    const char *name, *setting, *form;
    sb_container container;
    sb_format format, scale_format;
    uint32_t block_cols;
    sb_factor input; /* value 0: it is read from the recording */
} schemes[] = {
    {OURS,
     "nvfp4",
     "act_fp4=",
     "ct",
     SB_CONTAINER_nvfp4_ct,
     SB_FORMAT_e2m1,
     SB_FORMAT_e4m3,
     16,
     {SB_DIVISOR, 2688.0f / 11.0625f}},
    {OURS,
     "nvfp4-one",
     "act_fp4=",
     "ct",
     SB_CONTAINER_nvfp4_ct,
     SB_FORMAT_e2m1,
     SB_FORMAT_e4m3,
     16,
     {SB_DIVISOR, 1}},
    {OURS,
     "fp8-group",
     "act_fp8_group=",
     "ct",
     SB_CONTAINER_fp8_block_ct,
     SB_FORMAT_e4m3,
     SB_FORMAT_bf16,
     128,
     {SB_NO_FACTOR, 0}},
    {OURS,
     "fp8-token",
     "act_fp8_token=",
     "ct",
     SB_CONTAINER_fp8_channel,
     SB_FORMAT_e4m3,
     SB_FORMAT_bf16,
     COLS,
     {SB_NO_FACTOR, 0}},
    {OURS,
     "fp8-static",
     "act_fp8_static=",
     "ct",
     SB_CONTAINER_fp8_tensor,
     SB_FORMAT_e4m3,
     SB_FORMAT_bf16,
     COLS,
     {SB_MULTIPLIER, 0.0291748046875f}},
    {OURS,
     "mxfp4",
     "act_mx=",
     "ct",
     SB_CONTAINER_mxfp4,
     SB_FORMAT_e2m1,
     SB_FORMAT_e8m0,
     32,
     {SB_NO_FACTOR, 0}},
    {OURS,
     "mxfp8",
     "act_mx=",
     "ct",
     SB_CONTAINER_mxfp8,
     SB_FORMAT_e4m3,
     SB_FORMAT_e8m0,
     32,
     {SB_NO_FACTOR, 0}},
    {CT,
     "act.nvfp4-g1",
     "act_fp4=",
     "ct",
     SB_CONTAINER_nvfp4_ct,
     SB_FORMAT_e2m1,
     SB_FORMAT_e4m3,
     16,
     {SB_DIVISOR, 0}},
    {CT,
     "act.nvfp4-g64",
     "act_fp4=",
     "ct",
     SB_CONTAINER_nvfp4_ct,
     SB_FORMAT_e2m1,
     SB_FORMAT_e4m3,
     16,
     {SB_DIVISOR, 0}},
    {CT,
     "act.nvfp4-g243",
     "act_fp4=",
     "ct",
     SB_CONTAINER_nvfp4_ct,
     SB_FORMAT_e2m1,
     SB_FORMAT_e4m3,
     16,
     {SB_DIVISOR, 0}},
    {CT,
     "act.fp8-group128",
     "act_fp8_group=",
     "ct",
     SB_CONTAINER_fp8_block_ct,
     SB_FORMAT_e4m3,
     SB_FORMAT_bf16,
     128,
     {SB_NO_FACTOR, 0}},
    {CT,
     "act.fp8-token",
     "act_fp8_token=",
     "ct",
     SB_CONTAINER_fp8_channel,
     SB_FORMAT_e4m3,
     SB_FORMAT_bf16,
     COLS,
     {SB_NO_FACTOR, 0}},
    {CT,
     "act.mxfp4",
     "act_mx=",
     "ct",
     SB_CONTAINER_mxfp4,
     SB_FORMAT_e2m1,
     SB_FORMAT_e8m0,
     32,
     {SB_NO_FACTOR, 0}},
    {CT,
     "act.mxfp8",
     "act_mx=",
     "ct",
     SB_CONTAINER_mxfp8,
     SB_FORMAT_e4m3,
     SB_FORMAT_e8m0,
     32,
     {SB_NO_FACTOR, 0}},
    {MODELOPT,
     "act.nvfp4-g1",
     "act_fp4=",
     "modelopt",
     SB_CONTAINER_nvfp4_modelopt,
     SB_FORMAT_e2m1,
     SB_FORMAT_e4m3,
     16,
     {SB_MULTIPLIER, 0}},
    {MODELOPT,
     "act.nvfp4-g64",
     "act_fp4=",
     "modelopt",
     SB_CONTAINER_nvfp4_modelopt,
     SB_FORMAT_e2m1,
     SB_FORMAT_e4m3,
     16,
     {SB_MULTIPLIER, 0}},
    {MODELOPT,
     "act.nvfp4-g243",
     "act_fp4=",
     "modelopt",
     SB_CONTAINER_nvfp4_modelopt,
     SB_FORMAT_e2m1,
     SB_FORMAT_e4m3,
     16,
     {SB_MULTIPLIER, 0}},
};

static sb_safetensors files[COUNT(recordings)];

/* The tensor <name>.<type><suffix>, of `count` elements. */
static void read_tensor(size_t recording, const char *name, const char *type, const char *suffix,
                        size_t count, float *values)
{
    char full[96];
    const sb_safetensors *file = &files[recording];
    snprintf(full, sizeof full, "%s.%s%s", name, type, suffix);
    for (size_t i = 0; i < file->count; i++) {
        const sb_tensor *t = &file->tensors[i];
        if (strcmp(t->name, full) != 0)
            continue;
        sb_format format = t->dtype == SB_DTYPE_BF16 ? SB_FORMAT_bf16 : SB_FORMAT_f32;
        assert_int_equal(t->bytes, count * sb_format_bytes(format));
        sb_decode(format, t->data, count, values);
        return;
    }
    fail_msg("%s: no tensor %s", recordings[recording].path, full);
}

/* The number of values that differ from the library's under this form; zeros of either sign are
 * equal. */
static size_t differences(const struct scheme *s, const char *type, const char *form)
{
    const struct recording *r = &recordings[s->recording];
    size_t all = r->rows * COLS, differ = 0;
    char settings[96];
    float in[ROWS_MAX * COLS], want[ROWS_MAX * COLS];
    sb_input got;
    snprintf(settings, sizeof settings, "act=%s dequant=%s %s%s", type, r->law, s->setting, form);
    sb_knobs knobs = test_knobs(settings);
    sb_matrix weight = {.format = s->format,
                        .rows = 1,
                        .cols = COLS,
                        .quant = {.scales = scales,
                                  .scale_format = s->scale_format,
                                  .block_rows = 1,
                                  .block_cols = s->block_cols,
                                  .input = s->input,
                                  .container = s->container}};
    if (s->input.kind && s->input.value == 0)
        read_tensor(s->recording, s->name, type, ".global", 1, &weight.quant.input.value);
    read_tensor(s->recording, r->separate ? s->name : "in", type, r->separate ? ".in" : "", all,
                in);
    read_tensor(s->recording, s->name, type, r->separate ? ".out" : "", all, want);
    assert_int_equal(sb_quantize_input(&knobs, &weight, in, r->rows, &got), SB_OK);
    for (size_t i = 0; i < all; i++)
        differ += got.rounded[i] != want[i];
    sb_input_free(&got);
    return differ;
}

TEST(test_libraries)
{
    static const char *const types[] = {"f32", "bf16"};
    for (size_t i = 0; i < COUNT(schemes); i++)
        for (size_t t = 0; t < COUNT(types); t++) {
            const struct scheme *s = &schemes[i];
            size_t differ = differences(s, types[t], s->form);
            if (differ)
                fail_msg("%s: %s in %s: %zu values are not the library's",
                         recordings[s->recording].path, s->name, types[t], differ);
        }
}

/* Forms that belong to other libraries give other values: the recordings can tell the forms
 * apart. */
TEST(test_other_forms)
{
    assert_true(differences(&schemes[0], "bf16", "vllm_ref") > 0);
    assert_true(differences(&schemes[0], "bf16", "modelopt") > 0);
    assert_true(differences(&schemes[2], "bf16", "vllm_cuda") > 0);
    assert_true(differences(&schemes[3], "bf16", "vllm") > 0);
    assert_true(differences(&schemes[4], "bf16", "vllm") > 0);
}

TEST_FIXTURE(open_files)
{
    for (size_t i = 0; i < COUNT(recordings); i++) {
        sb_error err;
        if (sb_safetensors_open(recordings[i].path, &files[i], &err)) {
            print_error("%s\n", err.text);
            return -1;
        }
    }
    return 0;
}

TEST_FIXTURE(close_files)
{
    for (size_t i = 0; i < COUNT(recordings); i++)
        sb_safetensors_close(&files[i]);
    return 0;
}

TEST_GROUP(open_files, close_files)
