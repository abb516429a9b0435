/* test_trained.c - checks on trained weights (tools/gen/train_small.py).
 *
 * golden/trained/dense is a small model with its MTP head, trained on licences and manuals. TRAINED
 * names another folder of that shape. In every format the model is sound, alone and with its
 * original, and planted faults are found. The head is run, too: --run finds faults of a head that
 * no statistic shows. docs/check/trained.md has the tables.
 *
 * CHECK_ALL=1: every variation in every format, and every fault of the head; else a third of the
 * variations and a quarter of the faults. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check/folder.h"
#include "tests/check/plant.h"
#include "tests/lib/check_all.h"
#include "tests/lib/checkpoint.h"
#include "tools/judge/accept/head.h"

enum { TEXT = 160, POSITIONS = 96 };

/* True if number i of a list is tested: all with CHECK_ALL=1, else one in `of`. */
static int is_chosen(size_t i, size_t of)
{
    return i % of == 0 || check_all();
}

static const char *trained(void)
{
    const char *other = getenv("TRAINED");
    return other ? other : "golden/trained/dense";
}

/* The vehicle of a format, with further words. */
static const char *in_format(const char *words, char text[TEXT])
{
    assert_true(snprintf(text, TEXT, "@%s %s tokenizer", trained(), words) < TEXT);
    return text;
}

/* --- sound ------------------------------------------------------------------------------------ */

/* Formats that are not quantized, and further options of those that are; all these formats without
 * options are tested, too. */
static const char *const sound[] = {
    "bf16",
    "bf16 layout=vl",
    "bf16 storage=qwen3.5",
    "bf16 no-mtp",
    "f16",
    "f32",
    "fp8-block rule=reciprocal",
    "nvfp4-modelopt rule=four-over-six",
    "int4-gptq rule=signed-max",
    "int4-gptq group=32",
    "int4-awq group=64",
    "nvidia-mix kv",
};

static void expect_sound(const char *path, const char *against)
{
    folder_result *r = folder_check_made(path, against, NULL);
    expect_none_above(r, SB_LEVEL_warn);
    /* Without an original there is no WARN, either. */
    if (!against && folder_finding(r, 0, SB_LEVEL_warn, NULL)) {
        folder_print(r);
        fail_msg("%s: a WARN of sound weights", path);
    }
    folder_result_free(r);
}

static void expect_both_sound(const char *words)
{
    char text[TEXT];
    expect_sound(in_format(words, text), NULL);
    expect_sound(in_format(words, text), trained());
}

TEST(sound_formats)
{
    expect_sound(trained(), NULL);
    expect_sound(trained(), trained());
    for (size_t i = 0; i < sizeof sound / sizeof *sound; i++)
        expect_both_sound(sound[i]);
    for (size_t i = 0; test_quantized_format(i); i++)
        expect_both_sound(test_quantized_format(i));
}

/* --- what only large models have -------------------------------------------------------------- */
/* A few hundred steps of training give no outliers. Outliers that this test adds are no fault,
 * either. */

static int is_matrix(const folder_tensor *t)
{
    return t->rank == 2 && t->shape[1] >= 64;
}

/* Channels of the residual stream that are many times larger than the others. */
static void outlier_channels(folder *f)
{
    static const uint64_t channels[] = {5, 77};
    for (size_t i = 0; i < f->count; i++) {
        folder_tensor *t = f->tensors[i];
        if (!is_matrix(t))
            continue;
        for (uint64_t row = 0; row < t->shape[0]; row++)
            for (size_t c = 0; c < 2; c++) {
                uint64_t at = row * t->shape[1] + channels[c];
                folder_set(t, at, folder_get(t, at) * (c ? 12.0f : 40.0f));
            }
    }
    for (size_t i = 0; i < f->count; i++)
        if (strstr(f->tensors[i]->name, "layernorm.weight"))
            folder_set(f->tensors[i], channels[0], 6.0f);
}

/* x becomes 4 x |x|^1/2: the kurtosis is far above that of a normal distribution. */
static float heavier(float x)
{
    float a = x < 0 ? -x : x, root = 1.0f;
    for (int i = 0; i < 24; i++) /* Newton */
        root = 0.5f * (root + a / root);
    return 4.0f * x * root;
}

static void heavy_tails(folder *f)
{
    for (size_t i = 0; i < f->count; i++)
        if (is_matrix(f->tensors[i]))
            folder_map(f->tensors[i], heavier);
}

/* Ids that occur in no text: their rows are zero, or all the same. */
static void unused_ids(folder *f)
{
    folder_tensor *t = folder_find(f, "embed_tokens.weight");
    uint64_t cols = t->shape[1];
    folder_zero_rows(t, 370, 4);
    for (uint64_t row = 375; row < 384; row++)
        for (uint64_t c = 0; c < cols; c++)
            folder_set(t, row * cols + c, folder_get(t, 374 * cols + c));
}

/* Shifts weights to one side, as the gates of a trained q_proj are. */
static void tilted(folder *f)
{
    folder_tensor *t = folder_find(f, "layers.3.self_attn.q_proj.weight");
    float sum = 0.0f;
    for (uint64_t i = 0; i < folder_values(t); i++)
        sum += folder_get(t, i) < 0 ? -folder_get(t, i) : folder_get(t, i);
    for (uint64_t i = 0; i < folder_values(t); i++)
        folder_set(t, i, folder_get(t, i) + 0.12f * sum / (float)folder_values(t));
}

/* Decays the rows of neurons that never fire. (Rows of zeros give a WARN of check 29.) */
static void dead_neurons(folder *f)
{
    folder_tensor *up = folder_find(f, "layers.2.mlp.up_proj.weight");
    for (uint64_t i = 0; i < up->shape[1]; i++)
        for (uint64_t row = 40; row < 44; row++)
            folder_set(up, row * up->shape[1] + i, 2e-3f * folder_get(up, row * up->shape[1] + i));
}

static const struct {
    const char *name;
    void (*change)(folder *f);
} variations[] = {
    {"outlier channels", outlier_channels},
    {"heavy tails", heavy_tails},
    {"unused ids", unused_ids},
    {"tilted", tilted},
    {"dead neurons", dead_neurons},
};

TEST(sound_variations)
{
    static const char *const formats[] = {"bf16",     "fp8-block",      "fp8-channel",
                                          "nvfp4-ct", "mxfp4",          "int4-gptq",
                                          "int4-awq", "nvfp4-modelopt", "nvidia-mix"};
    char vehicle[2400];
    for (size_t i = 0; i < sizeof variations / sizeof *variations; i++) {
        folder *f = folder_at(trained());
        variations[i].change(f);
        const char *path = folder_write(f);
        printf("%s\n", variations[i].name);
        expect_sound(path, NULL);
        for (size_t k = 0; k < sizeof formats / sizeof *formats; k++) {
            if (!is_chosen(i + k, 3))
                continue;
            snprintf(vehicle, sizeof vehicle, "@%s %s tokenizer", path, formats[k]);
            expect_sound(vehicle, NULL);
            expect_sound(vehicle, path);
        }
        folder_free(f);
    }
}

/* --- faults ----------------------------------------------------------------------------------- */

#define L1 "model.layers.1."
#define L3 "model.layers.3."

/* alone: found without the original, too. */
static const struct {
    const char *format, *plant;
    int alone;
} faults[] = {
    {"bf16", "zero " L1 "mlp.down_proj.weight", 1},
    {"bf16", "zero " L1 "linear_attn.conv1d.weight", 1},
    {"bf16", "zero-columns " L1 "mlp.down_proj.weight 64 64", 1},
    {"bf16", "repeat " L1 "mlp.up_proj.weight 9 8", 1},
    {"bf16", "set " L1 "linear_attn.A_log 0 50", 1},
    {"bf16", "times " L1 "linear_attn.dt_bias 100", 1},
    {"bf16", "fill model.norm.weight 1e30", 1},
    {"bf16", "plus " L3 "input_layernorm.weight 1", 1},
    {"bf16", "positive " L1 "mlp.gate_proj.weight", 1},
    {"bf16", "random-bytes " L1 "mlp.gate_proj.weight 4096 4096 7", 1},
    {"bf16", "swap " L1 "mlp.gate_proj.weight " L1 "mlp.up_proj.weight", 0},
    {"bf16", "rotate model.embed_tokens.weight", 0},
    {"bf16", "untrained mtp.", 0},
    {"fp8-block", "times " L1 "mlp.up_proj.weight_scale_inv 100", 1},
    {"fp8-block", "noise " L1 "mlp.up_proj.weight", 1},
    {"fp8-channel", "invert " L3 "self_attn.q_proj.weight_scale", 1},
    {"nvfp4-ct", "nibble-order " L1 "mlp.up_proj.weight_packed", 0},
    {"nvfp4-ct", "invert " L1 "mlp.up_proj.weight_global_scale", 1},
    {"nvfp4-ct", "noise " L1 "mlp.up_proj.weight_scale", 1},
    {"nvfp4-ct", "noise " L1 "mlp.up_proj.weight_packed", 1},
    {"mxfp4", "noise " L1 "mlp.up_proj.weight_packed", 0},
    {"int4-gptq", "noise " L1 "mlp.up_proj.qweight", 1},
    {"int4-awq", "noise " L1 "mlp.up_proj.qweight", 1},
};

static int fails(const char *vehicle, const char *what, const char *against)
{
    int failed = 0;
    folder *f = folder_of(vehicle);
    plant(f, what);
    folder_result *r = folder_try(f, against, NULL);
    for (size_t i = 0; i < r->check.findings.count; i++)
        failed |= r->check.findings.rows[i].level >= SB_LEVEL_error;
    folder_result_free(r);
    folder_free(f);
    return failed;
}

TEST(planted_faults)
{
    char text[TEXT];
    size_t wrong = 0;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        const char *vehicle = in_format(faults[i].format, text);
        int alone = fails(vehicle, faults[i].plant, NULL);
        int against = fails(vehicle, faults[i].plant, trained());
        if (alone >= faults[i].alone && against)
            continue;
        printf("%s: %s: %s alone, %s with the original\n", faults[i].format, faults[i].plant,
               alone ? "FAIL" : "missed", against ? "FAIL" : "missed");
        wrong++;
    }
    assert_int_equal(wrong, 0);
}

/* --- the head --------------------------------------------------------------------------------- */

#define HEAD "mtp.layers.0."

/* by: how the fault shows without the original: F in the files (an ERROR), R in the run. In a head
 * as small as this one attention and norms do little: their faults cost few drafts, and only the
 * comparison with the original (check 14) shows them. */
static const struct {
    const char *plant, *by;
} head_faults[] = {
    {"zero mtp.fc.weight", "FR"},
    {"zero-columns mtp.fc.weight 0 128", "F"},
    {"zero-columns mtp.fc.weight 128 128", "F"},
    {"rotate mtp.fc.weight", "R"},
    {"swap-halves mtp.fc.weight", "R"},
    {"swap mtp.pre_fc_norm_embedding.weight mtp.pre_fc_norm_hidden.weight", ""},
    {"fill mtp.pre_fc_norm_embedding.weight 0; fill mtp.pre_fc_norm_hidden.weight 0", ""},
    {"fill mtp.norm.weight 0", ""},
    {"swap " HEAD "input_layernorm.weight " HEAD "post_attention_layernorm.weight", ""},
    {"swap " HEAD "self_attn.k_proj.weight " HEAD "self_attn.v_proj.weight", ""},
    {"zero " HEAD "self_attn.o_proj.weight", "F"},
    {"rotate " HEAD "self_attn.o_proj.weight", ""},
    {"zero " HEAD "mlp.down_proj.weight", "F"},
    {"rotate " HEAD "mlp.down_proj.weight", ""},
    {"swap " HEAD "mlp.gate_proj.weight " HEAD "mlp.up_proj.weight", ""},
    {"untrained mtp.", "R"},
};

static sb_head_run run_head(const char *path, const char *original)
{
    sb_head_run run;
    sb_error err;
    sb_head_options options = {.path = path, .original = original, .positions = POSITIONS};
    if (sb_head_measure(&options, &run, &err))
        fail_msg("%s", err.text);
    return run;
}

TEST(a_healthy_head)
{
    sb_head_run r = run_head(trained(), NULL);
    printf("healthy: %d of %d accepted, best constant %d\n", (int)r.cell[0][0].accepted,
           (int)r.cell[0][0].of, (int)r.common);
    assert_int_equal(r.verdict, SB_HEAD_UNKNOWN);
    assert_true(r.cell[0][0].accepted > 4 * r.common);
    assert_int_equal(run_head(trained(), trained()).verdict, SB_HEAD_OK);
}

/* Quantization changes trunk and head together, so that the head drafts as well as before. */
TEST(a_quantized_head)
{
    static const char *const formats[] = {"fp8-block", "nvfp4-ct", "int4-autoround"};
    char text[TEXT];
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        sb_head_run run = run_head(folder_path(in_format(formats[i], text)), NULL);
        printf("%s: %d of %d accepted\n", formats[i], (int)run.cell[0][0].accepted,
               (int)run.cell[0][0].of);
        assert_int_not_equal(run.verdict, SB_HEAD_WEAK);
    }
}

/* A run with the original takes four times as long: only for the table of docs/check/trained.md. */
static const char *with_original(const char *path)
{
    return getenv("SAMEBIT_TABLE") ? sb_head_verdict_name(run_head(path, trained()).verdict) : "";
}

TEST(faults_of_the_head)
{
    size_t wrong = 0;
    for (size_t i = 0; i < sizeof head_faults / sizeof *head_faults; i++) {
        if (!is_chosen(i, 4))
            continue;
        folder *f = folder_at(trained());
        plant(f, head_faults[i].plant);
        const char *path = folder_write(f);
        folder_result *files = folder_try_made(path, NULL, NULL);
        folder_result *both = folder_try_made(path, trained(), NULL);
        sb_head_run run = run_head(path, NULL);
        char by[3] = "", *at = by;
        if (folder_finding(files, 0, SB_LEVEL_error, NULL))
            *at++ = 'F';
        if (run.verdict == SB_HEAD_WEAK)
            *at++ = 'R';
        printf("%-3s %2d of %d %s: %s\n", by, (int)run.cell[0][0].accepted, (int)run.cell[0][0].of,
               with_original(path), head_faults[i].plant);
        wrong += strcmp(by, head_faults[i].by) != 0;
        assert_non_null(folder_finding(both, 14, SB_LEVEL_error, "mtp."));
        folder_result_free(files);
        folder_result_free(both);
        folder_free(f);
    }
    assert_int_equal(wrong, 0);
}
