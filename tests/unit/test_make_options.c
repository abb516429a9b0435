/* test_make_options.c - the options of `samebit make`, and its refusals. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/formats/plain_row.h"
#include "ref/formats/small_float.h"
#include "tests/lib/checkpoint.h"
#include "tools/make/plan.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* A folder of sb_make, opened as a model, so that its configuration is read back and every tensor
 * is bound. */
typedef struct made {
    const char *dir;
    sb_model *model;
} made;

static made make(const char *name, sb_make_options o)
{
    o.dir = name;
    made m = {.dir = test_checkpoint_with("options", &o)};
    m.model = test_model_open(m.dir);
    return m;
}

static sb_digest stored_digest(const made *m)
{
    sb_digest digest;
    assert_int_equal(sb_checkpoint_digest(m->model->checkpoint, &digest, NULL), SB_OK);
    return digest;
}

/* If some or all layers exceed the memory limit `hold`, the bytes do not change. */
TEST(test_hold)
{
    static const char *const formats[] = {"nvfp4-ct", "nvidia-mix", "fp8-block", "mxfp4",
                                          "fp8-channel"};
    static const uint64_t most[] = {0, 1, 20000};
    for (size_t f = 0; f < COUNT(formats); f++) {
        sb_digest digest[COUNT(most)];
        for (size_t i = 0; i < COUNT(most); i++) {
            made m = make("hold", (sb_make_options){.preset = "T6",
                                                    .layers = 1,
                                                    .format = formats[f],
                                                    .hold = most[i],
                                                    .replace = 1});
            digest[i] = stored_digest(&m);
            sb_model_close(m.model);
            assert_memory_equal(&digest[i], &digest[0], sizeof digest[0]);
        }
    }
}

TEST(test_layers_and_mtp)
{
    made m = make("short", (sb_make_options){.preset = "T1", .layers = 5, .no_mtp = 1});
    assert_int_equal(m.model->config.layers, 5);
    assert_int_equal(m.model->config.mtp_layers, 0);
    assert_int_equal(m.model->weights->storage.has_mtp, 0);
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(m.model->config.layer_is_full[i], i == 3);
    sb_model_close(m.model);
    m = make("next", (sb_make_options){.preset = "T5-raw", .layers = 1});
    assert_int_equal(m.model->config.norm_topk_prob, 0);
    assert_int_equal(m.model->weights->storage.has_mtp, 1);
    sb_model_close(m.model);
}

/* output_gate_type is a field of Qwen3.8 only, and is written as published. */
TEST(test_output_gate)
{
    sb_error err;
    for (unsigned i = 0; i < 2; i++) {
        sb_make_options o = {.preset = i ? "T9" : "T1"};
        sb_make_plan plan;
        if (sb_make_plan_new(&o, &plan, &err))
            fail_msg("%s", err.text);
        int there = strstr(plan.config_text, "\"output_gate_type\": \"swish\"") != NULL;
        assert_int_equal(there, i == 1);
        assert_string_equal(plan.config.output_gate_type, "silu");
        assert_int_equal(plan.config.lin_v_heads / plan.config.lin_k_heads, i ? 8 : 2);
        sb_make_plan_free(&plan);
    }
}

/* "Its taps are RN(code times scale), and they are parameters of binary32 from then on". A
 * convolution in BF16 keeps its format, whatever is declared. */
TEST(test_fp8_convolution)
{
    made m = make("conv", (sb_make_options){.preset = "T9", .format = "nvidia-max-conv"});
    const sb_checkpoint *c = m.model->checkpoint;
    const sb_tensor *codes = sb_checkpoint_find(c, "model.layers.1.linear_attn.conv1d.weight");
    const sb_tensor *stored =
        sb_checkpoint_find(c, "model.layers.1.linear_attn.conv1d.weight_scale");
    assert_non_null(codes);
    assert_non_null(stored);
    assert_true(codes->dtype == SB_DTYPE_F8_E4M3 && codes->rank == 3 && codes->shape[2] == 4);
    const sb_matrix *taps = &m.model->weights->layers[1].w[SB_ROLE_conv1d];
    assert_true(taps->format == SB_FORMAT_f32 && taps->rows == codes->shape[0] && taps->cols == 4);
    double scale = (double)sb_f32_from_bits(sb_load_u32(stored->data));
    size_t rounded = 0;
    for (size_t i = 0; i < (size_t)codes->bytes; i++) {
        double exact = (double)sb_e4m3_to_f32(codes->data[i]) * scale;
        float tap = sb_f32_from_bits(sb_load_u32(taps->data + 4 * i));
        assert_true(tap == (float)exact);
        rounded += (double)tap != exact;
    }
    assert_true(rounded > 100); /* else the rounding would not be tested */
    sb_model_close(m.model);
    m = make("listed", (sb_make_options){.preset = "T9", .format = "nvidia-max"});
    assert_int_equal(m.model->weights->layers[1].w[SB_ROLE_conv1d].format, SB_FORMAT_bf16);
    assert_int_equal(m.model->weights->disagreements, 0);
    sb_model_close(m.model);
}

/* Known numbers of published folders: tensors and parameters without the vision tower. */
TEST(test_published_shapes)
{
    static const struct {
        const char *preset, *storage;
        size_t tensors;
        uint64_t parameters; /* 0: not counted here */
    } known[] = {{"35b-a3b", "qwen3.6", 1045 - 333, UINT64_C(35951822704) - 446571248},
                 {"35b-a3b", "qwen3.5", 1811 - 333, UINT64_C(35951822704) - 446571248},
                 {"27b", "qwen3.6", 3 + 48 * 14 + 16 * 11 + 4 + 11, 0},
                 {"0.8b", "qwen3.5", 2 + 18 * 14 + 6 * 11 + 4 + 11, 0},
                 {"122b-a10b", "qwen3.6", 3 + 36 * 18 + 12 * 15 + 19, 0},
                 {"397b-a17b", "qwen3.6", 3 + 45 * 18 + 15 * 15 + 19, 0},
                 {"2.4t-a95b", "qwen3.6", 3 + 69 * 18 + 23 * 15 + 19, 0},
                 {"3.8-27b", "qwen3.6", 3 + 48 * 14 + 16 * 11 + 4 + 11, 0}};
    for (size_t i = 0; i < COUNT(known); i++) {
        sb_make_options o = {.preset = known[i].preset, .storage = known[i].storage};
        sb_make_plan plan;
        sb_error err;
        if (sb_make_plan_new(&o, &plan, &err))
            fail_msg("%s: %s", o.preset, err.text);
        assert_int_equal(plan.count, known[i].tensors);
        if (known[i].parameters && strcmp(o.storage, "qwen3.6") == 0)
            assert_true(plan.bytes == 2 * known[i].parameters);
        sb_make_plan_free(&plan);
    }
}

static void check_refused(const sb_make_options *o, const char *fragment, const char *known)
{
    sb_error err = {{0}};
    sb_status status = sb_make(o, &err);
    if (status != SB_ERR_USAGE || !strstr(err.text, fragment) || !strstr(err.text, known))
        fail_msg("status %d, \"%s\", expected a wrong use that names \"%s\" and \"%s\"",
                 (int)status, err.text, fragment, known);
}

/* The presets of M-11: what their layers have and lack, and norms around 1. */
TEST(test_qwen3)
{
    for (size_t p = 0; p < 2; p++) {
        made m = make("qwen3", (sb_make_options){.preset = p ? "T8" : "T7"});
        const sb_config *c = &m.model->config;
        assert_int_equal(c->family, p ? SB_QWEN3 : SB_QWEN3_MOE);
        assert_false(m.model->weights->storage.has_mtp);
        for (uint32_t i = 0; i < c->layers; i++) {
            const sb_layer *layer = &m.model->weights->layers[i];
            const int dense = p == 1 || i == 1;
            float norm[128], sum = 0;
            assert_true(dense == (layer->experts == NULL));
            assert_true(dense == (layer->w[SB_ROLE_gate_proj].data != NULL));
            assert_true(dense == (layer->w[SB_ROLE_router].data == NULL));
            assert_null(layer->w[SB_ROLE_shared_gate_proj].data);
            assert_null(layer->w[SB_ROLE_in_proj_qkv].data);
            assert_int_equal(layer->w[SB_ROLE_q_proj].rows, c->heads * c->head_dim);
            sb_matrix_row(&layer->w[SB_ROLE_input_layernorm], 0, norm);
            for (size_t j = 0; j < COUNT(norm); j++)
                sum += norm[j] / (float)COUNT(norm);
            assert_true(sum > 0.8f && sum < 1.2f);
        }
        sb_model_close(m.model);
    }
    made cut = make("qwen3-cut", (sb_make_options){.preset = "T7", .layers = 1});
    assert_true(cut.model->config.intermediate == 0 && cut.model->weights->layers[0].experts);
    sb_model_close(cut.model);
}

TEST(test_refusals)
{
    const char *dir = test_path("options", "refused");
    static const struct {
        sb_make_options options;
        const char *fragment, *known;
    } cases[] = {
        {{.preset = "T0"},
         "preset \"T0\"",
         "T1, T2, T3, T4, T5, T5-raw, T6, T7, T8, T9, 35b-a3b, 122b-a10b"},
        {{.preset = NULL}, "preset \"\"", "T1"},
        {{.preset = "T1", .recipe = "x"},
         "recipe \"x\"",
         "mistakes, predictable, plain, predictable-1"},
        {{.preset = "T1", .format = "fp8"}, "format \"fp8\"", "bf16, f16, f32"},
        {{.preset = "T1", .layout = "audio"}, "layout \"audio\"", "text, vl"},
        {{.preset = "T1", .storage = "qwen4"}, "storage \"qwen4\"", "qwen3.6, qwen3.5"},
        {{.preset = "T1", .experts = "3d"}, "experts \"3d\"", "fused, split"},
        {{.preset = "T4", .experts = "split"}, "T4", "dense"},
        {{.preset = "T5", .layout = "vl"}, "T5", "\"text\""},
        {{.preset = "T1", .layers = 1025}, "1025", "1024"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        sb_make_options o = cases[i].options;
        o.dir = dir;
        check_refused(&o, cases[i].fragment, cases[i].known);
    }
}

/* A folder that is not empty keeps every byte. */
TEST(test_nothing_is_overwritten)
{
    made m = make("kept", (sb_make_options){.preset = "T4"});
    sb_digest before = stored_digest(&m);
    sb_model_close(m.model);
    check_refused(&(sb_make_options){.dir = m.dir, .preset = "T5", .seed = 1}, m.dir, "not empty");
    m.model = test_model_open(m.dir);
    assert_string_equal(stored_digest(&m).hex, before.hex);
    sb_model_close(m.model);
    m = make("kept", (sb_make_options){.preset = "T5"}); /* it sets .replace */
    assert_string_not_equal(stored_digest(&m).hex, before.hex);
    sb_model_close(m.model);
}

typedef struct watched {
    size_t calls;
    uint64_t before_last, done, total;
} watched;

static void watch(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    watched *w = ctx;
    assert_true(what[0] != '\0' && done >= w->done && done <= total);
    assert_true(w->calls == 0 || total == w->total);
    w->before_last = w->done;
    w->calls++;
    w->done = done;
    w->total = total;
}

TEST(test_progress)
{
    watched w = {0, 0, 0, 0};
    made m =
        make("progress", (sb_make_options){.preset = "T3", .progress = watch, .progress_ctx = &w});
    assert_true(w.calls > sb_checkpoint_count(m.model->checkpoint));
    assert_true(w.before_last > w.total / 2);
    assert_true(w.done == w.total && w.total == sb_checkpoint_bytes(m.model->checkpoint));
    sb_model_close(m.model);
}

/* A folder made from the weights of another folder equals the folder made from the preset. */
TEST(test_weights)
{
    static const struct {
        const char *preset, *experts;
    } sources[] = {{"T3", NULL}, {"T3", "split"}, {"T4", NULL}, {"T6", NULL}};
    static const char *const formats[] = {"bf16", "nvfp4-ct", "fp8-block", "mxfp4"};
    for (size_t i = 0; i < COUNT(sources); i++) {
        made source = make("source", (sb_make_options){.preset = sources[i].preset,
                                                       .experts = sources[i].experts,
                                                       .recipe = "plain",
                                                       .layers = 2,
                                                       .replace = 1});
        for (size_t f = 0; f < COUNT(formats); f++) {
            made drawn = make("drawn", (sb_make_options){.preset = sources[i].preset,
                                                         .recipe = "plain",
                                                         .layers = 2,
                                                         .format = formats[f],
                                                         .replace = 1});
            made taken =
                make("taken",
                     (sb_make_options){.weights = source.dir, .format = formats[f], .replace = 1});
            sb_digest a = stored_digest(&drawn), b = stored_digest(&taken);
            assert_memory_equal(&a, &b, sizeof a);
            sb_model_close(drawn.model);
            sb_model_close(taken.model);
        }
        sb_model_close(source.model);
    }
}

/* Without a head in the source none is written; and sources that are refused. */
TEST(test_weights_refused)
{
    made bare = make("bare", (sb_make_options){.preset = "T4", .no_mtp = 1});
    made taken = make("taken-bare", (sb_make_options){.weights = bare.dir});
    assert_int_equal(taken.model->config.mtp_layers, 0);
    sb_model_close(taken.model);
    sb_model_close(bare.model);
    made codes = make("codes", (sb_make_options){.preset = "T4", .format = "fp8-block"});
    made next = make("next", (sb_make_options){.preset = "T5"});
    const char *dir = test_path("options", "no-weights");
    check_refused(&(sb_make_options){.dir = dir, .weights = codes.dir}, "not stored as floats",
                  "floats");
    check_refused(&(sb_make_options){.dir = dir, .weights = next.dir}, "Qwen3-Next", "Qwen3.5");
    sb_model_close(codes.model);
    sb_model_close(next.model);
}

TEST(test_lists)
{
    static char text[8192];
    FILE *out = fmemopen(text, sizeof text - 1, "w");
    assert_non_null(out);
    sb_make_list(out);
    fclose(out);
    for (unsigned list = 0; list < SB_MAKE_LISTS; list++) {
        size_t count;
        const sb_make_choice *choices = sb_make_choices((sb_make_list_id)list, &count);
        assert_non_null(strstr(text, sb_make_list_name((sb_make_list_id)list)));
        assert_true(count >= 2);
        for (size_t i = 0; i < count; i++) {
            assert_non_null(strstr(text, choices[i].name));
            assert_non_null(strstr(text, choices[i].help));
        }
    }
}
