/* test_detect_bind.c - quantized layers in whole folders, through sb_weights_bind: row maps, halves
 * of stacks, scales of the cache, declarations, counts, and failing allocations. M-7, M-8, Q-9,
 * */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/formats/wide.h"
#include "ref/model/held.h"
#include "ref/model/layers.h"
#include "ref/model/weights.h"
#include "tests/lib/quant_layer.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

typedef struct bound {
    sb_checkpoint *checkpoint;
    sb_config config;
    sb_weights *weights;
    const sb_declared *declared;
} bound;

/* A copy of the plain folder, which is made once. */
static test_folder preset(const char *name)
{
    static const char *made[10];
    const char **folder = &made[name[1] - '0'];
    if (!*folder)
        *folder = test_checkpoint("test_detect_bind", name, NULL, "bf16", "text");
    return test_folder_load(*folder);
}

static sb_status bind(const test_folder *f, bound *b, sb_error *err)
{
    b->checkpoint = quant_open(f, "test_detect_bind");
    b->weights = NULL;
    if (sb_config_parse(f->config, strlen(f->config), "config", &b->config, err))
        fail_msg("%s", err->text);
    return sb_weights_bind(b->checkpoint, &b->config, b->declared, &b->weights, err);
}

static void unbind(bound *b)
{
    sb_weights_free(b->weights);
    sb_checkpoint_close(b->checkpoint);
}

/* Replaces a plain layer by a drawn one. */
static quant_layer put(test_folder *f, const quant_spec *spec)
{
    char plain[256];
    quant_layer l = quant_layer_draw(spec, 11);
    snprintf(plain, sizeof plain, "%s%s", spec->name, spec->experts ? "" : ".weight");
    const test_tensor *old = test_folder_find(f, plain);
    assert_int_equal(old->shape[old->rank - 2], spec->rows);
    assert_int_equal(old->shape[old->rank - 1], spec->cols);
    test_folder_remove(f, plain);
    for (size_t i = 0; i < l.folder.count; i++) {
        const test_tensor *t = &l.folder.tensors[i];
        memcpy(test_folder_add(f, t->name, t->dtype, t->rank, t->shape)->bytes, t->bytes,
               (size_t)t->size);
    }
    return l;
}

/* Row `row` of a bound matrix equals row n of expert e of the drawn layer. */
static void check_row(const quant_layer *l, const sb_matrix *m, uint32_t row, uint32_t e,
                      uint32_t n)
{
    double wide[1024];
    assert_true(m->cols == l->spec.cols && m->cols <= COUNT(wide) && row < m->rows);
    size_t first = ((size_t)e * l->spec.rows + n) * l->spec.cols;
    sb_matrix_wide(m, row, wide);
    for (uint32_t k = 0; k < m->cols; k++)
        if (wide[k] != (double)l->code[first + k] * l->scale[first + k])
            fail_msg("%s: row %u, column %u: %a, expected %a", quant_spec_text(&l->spec), row, k,
                     wide[k], (double)l->code[first + k] * l->scale[first + k]);
}

#define C(id) .container = SB_CONTAINER_##id
#define QKVZ .name = "model.layers.0.linear_attn.in_proj_qkvz", .rows = 768, .cols = 128
#define BA .name = "model.layers.0.linear_attn.in_proj_ba", .rows = 8, .cols = 128

/* T5: two key heads of dk 64, each with two value heads of dv 64. */
static void check_interleaved(const quant_spec *qkvz, const quant_spec *ba)
{
    enum { HEADS = 2, DK = 64, PER = 2, DV = 64, PART = 2 * DK + 2 * PER * DV };
    test_folder f = preset("T5");
    quant_layer l = put(&f, qkvz), small = put(&f, ba);
    bound b = {0};
    sb_error err = {""};
    if (bind(&f, &b, &err))
        fail_msg("%s", err.text);
    const sb_matrix *w = b.weights->layers[0].w;
    assert_int_equal(b.weights->stored[qkvz->container].layers,
                     1 + (ba->container == qkvz->container));
    for (uint32_t g = 0; g < HEADS; g++) {
        for (uint32_t i = 0; i < DK; i++) {
            check_row(&l, &w[SB_ROLE_in_proj_qkv], g * DK + i, 0, g * PART + i);
            check_row(&l, &w[SB_ROLE_in_proj_qkv], (HEADS + g) * DK + i, 0, g * PART + DK + i);
        }
        for (uint32_t i = 0; i < PER * DV; i++) {
            check_row(&l, &w[SB_ROLE_in_proj_qkv], 2 * HEADS * DK + g * PER * DV + i, 0,
                      g * PART + 2 * DK + i);
            check_row(&l, &w[SB_ROLE_in_proj_z], g * PER * DV + i, 0,
                      g * PART + 2 * DK + PER * DV + i);
        }
        for (uint32_t i = 0; i < PER; i++) {
            check_row(&small, &w[SB_ROLE_in_proj_b], g * PER + i, 0, g * 2 * PER + i);
            check_row(&small, &w[SB_ROLE_in_proj_a], g * PER + i, 0, g * 2 * PER + PER + i);
        }
    }
    unbind(&b);
    quant_layer_free(&l);
    quant_layer_free(&small);
    test_folder_free(&f);
}

TEST(test_interleaved)
{
    static const quant_spec specs[][2] = {
        {{QKVZ, C(fp8_block), .bits = 8, .block = {128, 128}, .scale = SB_DTYPE_BF16,
          .scale_rank = 2},
         {BA, C(fp8_channel), .bits = 8, .block = {1, 128}, .scale = SB_DTYPE_F32,
          .scale_rank = 2}},
        {{QKVZ, C(nvfp4_ct), .bits = 4, .block = {1, 16}, .scale = SB_DTYPE_F8_E4M3,
          .scale_rank = 2, .factor = SB_DTYPE_F32, .factor_rank = 1},
         {BA, C(mxfp4), .bits = 4, .block = {1, 32}, .scale = SB_DTYPE_U8, .scale_rank = 2}},
        {{QKVZ, C(int_gptq), .bits = 4, .block = {1, 32}, .scale = SB_DTYPE_F16, .asymmetric = 1},
         {BA, C(int_gptq), .bits = 4, .block = {1, 128}, .scale = SB_DTYPE_F16, .asymmetric = 1}},
        {{QKVZ, C(int_awq), .bits = 4, .block = {1, 32}, .scale = SB_DTYPE_F16, .asymmetric = 1},
         {BA, C(int_awq), .bits = 4, .block = {1, 64}, .scale = SB_DTYPE_F16}},
        {{QKVZ, C(int4_modelopt), .bits = 4, .block = {1, 64}, .scale = SB_DTYPE_F32,
          .scale_rank = 2},
         {BA, C(int_ct), .bits = 8, .block = {1, 32}, .scale = SB_DTYPE_BF16, .scale_rank = 2,
          .asymmetric = 1}},
    };
    for (size_t i = 0; i < COUNT(specs); i++)
        check_interleaved(&specs[i][0], &specs[i][1]);
}

/* T1: 16 experts, I = 128, H = 128. */
#define GATE_UP                                                                                    \
    .name = "model.layers.2.mlp.experts.gate_up_proj", .experts = 16, .rows = 256, .cols = 128
#define DOWN .name = "model.layers.2.mlp.experts.down_proj", .experts = 16, .rows = 128, .cols = 128

TEST(test_halves)
{
    static const quant_spec specs[][2] = {
        {{GATE_UP, C(fp8_block), .bits = 8, .block = {128, 128}, .scale = SB_DTYPE_BF16,
          .scale_rank = 2, .names = NAMES_SHORT},
         {DOWN, C(fp8_tensor), .bits = 8, .block = {128, 128}, .scale = SB_DTYPE_F32,
          .scale_shared = 1, .names = NAMES_LOW}},
        {{GATE_UP, C(nvfp4_modelopt), .bits = 4, .block = {1, 16}, .scale = SB_DTYPE_F8_E4M3,
          .scale_rank = 2, .factor = SB_DTYPE_F32, .factor_rank = 1, .input = 1,
          .names = NAMES_LOW},
         {DOWN, C(fp8_channel), .bits = 8, .block = {1, 128}, .scale = SB_DTYPE_BF16,
          .scale_rank = 2, .names = NAMES_SHORT}},
        {{GATE_UP, C(int_ct), .bits = 4, .block = {1, 32}, .scale = SB_DTYPE_BF16, .scale_rank = 2,
          .asymmetric = 1},
         {DOWN, C(mxfp4), .bits = 4, .block = {1, 32}, .scale = SB_DTYPE_U8, .scale_rank = 2}},
    };
    for (size_t i = 0; i < COUNT(specs); i++) {
        test_folder f = preset("T1");
        quant_layer up = put(&f, &specs[i][0]), down = put(&f, &specs[i][1]);
        bound b = {0};
        sb_error err = {""};
        if (bind(&f, &b, &err))
            fail_msg("%s", err.text);
        assert_int_equal(b.weights->bound, f.count);
        assert_int_equal(b.weights->stored[specs[i][0].container].layers, 16);
        uint64_t bytes = 0;
        for (size_t t = 0; t < down.folder.count; t++)
            bytes += down.folder.tensors[t].size;
        assert_true(b.weights->stored[specs[i][1].container].bytes == bytes);
        for (uint32_t e = 0; e < 16; e++) {
            const sb_expert *x = &b.weights->layers[2].experts[e];
            assert_true(x->gate.rows == 128 && x->up.rows == 128 && x->down.rows == 128);
            for (uint32_t n = 0; n < 128; n += 5) {
                check_row(&up, &x->gate, n, e, n);
                check_row(&up, &x->up, n, e, 128 + n);
                check_row(&down, &x->down, n, e, n);
            }
            assert_int_equal(x->up.quant.factor.kind, up.factor[e].kind);
            assert_true(x->up.quant.factor.value == up.factor[e].value);
            assert_true(x->gate.quant.input.value == up.input[e].value);
        }
        unbind(&b);
        quant_layer_free(&up);
        quant_layer_free(&down);
        test_folder_free(&f);
    }
}

static const quant_spec o_proj = {.name = "model.layers.3.self_attn.o_proj",
                                  .rows = 128,
                                  .cols = 128,
                                  C(nvfp4_modelopt),
                                  .bits = 4,
                                  .block = {1, 16},
                                  .scale = SB_DTYPE_F8_E4M3,
                                  .scale_rank = 2,
                                  .factor = SB_DTYPE_F32,
                                  .input = 1};

/* One quantized layer in T4, and the names of the cache's scales. */
TEST(test_cache_scales)
{
    static const struct {
        const char *names[2];
        float k, v;
        const char *message; /* or NULL */
    } cases[] = {
        {{NULL, NULL}, 0, 0, NULL},
        {{"k_proj.k_scale", "v_proj.v_scale"}, 0.5f, 0.75f, NULL},
        {{"k_scale", "v_scale"}, 0.5f, 0.75f, NULL},
        {{"attn.k_scale", "attn.v_scale"}, 0.5f, 0.75f, NULL},
        {{"q_scale", NULL}, 0, 0, "q_scale"},
        {{"k_proj.output_scale", "v_proj.output_scale"}, 0.5f, 0.75f, NULL},
        {{"v_proj.v_scale", NULL}, 0, 0.5f, NULL},
        {{"kv_scale", NULL}, 0.5f, 0.5f, NULL},
        {{"kv_scale", "k_proj.k_scale"}, 0.75f, 0.5f, NULL},
        {{"k_proj.k_scale", "attn.k_scale"}, 0, 0, "attn.k_scale"},
        {{"q_proj.k_scale", NULL}, 0, 0, "q_proj.k_scale"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        test_folder f = preset("T4");
        quant_layer l = put(&f, &o_proj);
        for (unsigned j = 0; j < 2 && cases[i].names[j]; j++) {
            char name[256];
            snprintf(name, sizeof name, "model.layers.3.self_attn.%s", cases[i].names[j]);
            sb_store_u32(test_folder_add(&f, name, SB_DTYPE_F32, 0, NULL)->bytes,
                         j ? 0x3f400000 : 0x3f000000);
        }
        bound b = {0};
        sb_error err = {""};
        sb_status status = bind(&f, &b, &err);
        if (cases[i].message) {
            assert_int_equal(status, SB_ERR_INPUT);
            assert_non_null(strstr(err.text, cases[i].message));
        } else {
            if (status)
                fail_msg("%zu: %s", i, err.text);
            const sb_layer *layer = &b.weights->layers[3];
            assert_true(layer->k_scale == cases[i].k && layer->v_scale == cases[i].v);
            assert_true(b.weights->layers[1].k_scale == 0);
            assert_int_equal(b.weights->bound, f.count);
            for (uint32_t n = 0; n < 128; n++)
                check_row(&l, &layer->w[SB_ROLE_o_proj], n, 0, n);
        }
        unbind(&b);
        quant_layer_free(&l);
        test_folder_free(&f);
    }
}

/* GPTQ zero points: some words show their version themselves; for others the declaration decides
 * . A declaration of other codes counts as one more disagreement. */
TEST(test_declared_zeros)
{
    static const struct {
        int asymmetric, v2;
        const char *declared; /* checkpoint_format, or NULL */
        int bits, read_as_v2, group;
    } cases[] = {{1, 0, NULL, 4, 0, 32},      {1, 0, "gptq", 4, 0, 32},
                 {1, 1, "gptq_v2", 4, 1, 32}, {1, 0, "gptq_v2", 4, 1, 32},
                 {1, 1, "gptq", 4, 0, 32},    {0, 1, "gptq", 4, 1, 32},
                 {0, 0, "gptq_v2", 4, 0, 32}, {1, 1, "gptq_v2", 8, 1, 32},
                 {1, 0, "gptq", 4, 0, 64},    {1, 0, "gptq", 4, 0, 128}};
    size_t disagreements[COUNT(cases)];
    for (size_t i = 0; i < COUNT(cases); i++) {
        quant_spec s = {.name = "model.layers.3.self_attn.o_proj",
                        .rows = 128,
                        .cols = 128,
                        C(int_gptq),
                        .bits = 4,
                        .block = {1, 32},
                        .scale = SB_DTYPE_F16,
                        .asymmetric = cases[i].asymmetric,
                        .v2 = cases[i].v2};
        test_folder f = preset("T4");
        quant_layer l = put(&f, &s);
        char text[512];
        sb_declared *declared = NULL;
        sb_error err = {""};
        int n = snprintf(text, sizeof text,
                         "{\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":%d,"
                         "\"group_size\":%d,\"desc_act\":false,\"sym\":false,"
                         "\"checkpoint_format\":\"%s\"}}",
                         cases[i].bits, cases[i].group, cases[i].declared ? cases[i].declared : "");
        sb_declared_file config = {"config.json", text, (size_t)n}, none = {"none", NULL, 0};
        if (cases[i].declared && sb_declared_parse(&config, &none, &none, &declared, &err))
            fail_msg("%s", err.text);
        bound b = {.declared = declared};
        if (bind(&f, &b, &err))
            fail_msg("%s", err.text);
        const sb_matrix *m = &b.weights->layers[3].w[SB_ROLE_o_proj];
        assert_int_equal(m->quant.zeros, cases[i].read_as_v2 ? SB_ZEROS_gptq_v2 : SB_ZEROS_gptq_v1);
        for (uint32_t r = 0; r < 128 && cases[i].read_as_v2 == cases[i].v2; r++)
            check_row(&l, m, r, 0, r);
        disagreements[i] = b.weights->disagreements;
        unbind(&b);
        sb_declared_free(declared);
        quant_layer_free(&l);
        test_folder_free(&f);
    }
    assert_true(disagreements[0] > 0); /* nothing is declared, but this layer is quantized */
    assert_int_equal(disagreements[1], disagreements[2]);
    assert_int_equal(disagreements[7], disagreements[2] + 1);
    assert_int_equal(disagreements[8], disagreements[1] + 1);
    assert_int_equal(disagreements[9], disagreements[1] + 1);
}

/* "A layer whose tensors differ from its declaration" - by family and by size of blocks. A
 * small layer has less than one block. */
TEST(test_held)
{
#define MODELOPT(algo) "\"quant_method\":\"modelopt\",\"quant_algo\":\"" algo "\""
#define FP8(block) "\"quant_method\":\"fp8\",\"weight_block_size\":[" block "]"
#define BLOCKS(n, k, bn, bk)                                                                       \
    {                                                                                              \
        C(fp8_block), .rows = n, .cols = k, .bits = 8, .block = {bn, bk}, .scale = SB_DTYPE_BF16,  \
                      .scale_rank = 2                                                              \
    }
    static const struct {
        quant_spec spec;
        const char *declared;
        size_t disagreements;
    } cases[] = {
        {{C(mxfp8), .rows = 4, .cols = 64, .bits = 8, .block = {1, 32}, .scale = SB_DTYPE_U8,
          .scale_rank = 2},
         MODELOPT("MXFP8"),
         0},
        {{C(mxfp8), .rows = 4, .cols = 64, .bits = 8, .block = {1, 32}, .scale = SB_DTYPE_U8,
          .scale_rank = 2},
         MODELOPT("FP8"),
         1},
        {BLOCKS(130, 200, 128, 128), FP8("128,128"), 0},
        {BLOCKS(130, 200, 128, 128), FP8("100,100"), 1}, /* as many blocks of another size */
        {BLOCKS(130, 200, 64, 64), FP8("128,128"), 1},
        {BLOCKS(64, 40, 64, 40), FP8("128,128"), 0},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        quant_layer l = quant_layer_draw(&cases[i].spec, 11);
        sb_checkpoint *checkpoint = quant_open(&l.folder, "test_detect_bind");
        sb_weights *weights = calloc(1, sizeof *weights);
        sb_declared *declared = NULL;
        sb_error err = {""};
        sb_found found;
        char text[256];
        int n = snprintf(text, sizeof text, "{\"quantization_config\":{%s}}", cases[i].declared);
        sb_declared_file config = {"config.json", text, (size_t)n}, none = {"none", NULL, 0};
        if (sb_declared_parse(&config, &none, &none, &declared, &err) ||
            sb_detect(checkpoint, QUANT_NAME, 0, 0, 0, &found, &err) ||
            sb_hold_against(weights, declared, "model.layers.0.mlp.up_proj", &found, &err))
            fail_msg("%s", err.text);
        if (weights->disagreements != cases[i].disagreements)
            fail_msg("%zu: %s", i, weights->disagreement[0]);
        free(weights);
        sb_declared_free(declared);
        sb_checkpoint_close(checkpoint);
        quant_layer_free(&l);
    }
}

static sb_status take_zeros(void *zeros, const char *name, const sb_found *found, sb_error *err)
{
    (void)err;
    if (strcmp(name, QUANT_NAME) == 0)
        *(sb_zeros *)zeros = found->matrix.quant.zeros;
    return SB_OK;
}

/* Q-12 where layers are walked without a model: "the declaration decides; without a declaration
 * they are those of v1" - and words that are all of v1, or all of v2, need no declaration. */
TEST(test_walked_zeros)
{
    static const char v2[] = "{\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":4,"
                             "\"group_size\":32,\"checkpoint_format\":\"gptq_v2\"}}";
    static const struct {
        int asymmetric;
        const char *config; /* or NULL: no file */
        sb_status status;
        sb_zeros zeros;
    } cases[] = {{1, v2, SB_OK, SB_ZEROS_gptq_v2},      {1, "{}", SB_OK, SB_ZEROS_gptq_v1},
                 {1, NULL, SB_OK, SB_ZEROS_gptq_v1},    {0, v2, SB_OK, SB_ZEROS_gptq_v1},
                 {1, "{", SB_ERR_INPUT, SB_ZEROS_none}, {0, "{", SB_OK, SB_ZEROS_gptq_v1}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        quant_spec s = {C(int_gptq),
                        .rows = 8,
                        .cols = 64,
                        .bits = 4,
                        .block = {1, 32},
                        .scale = SB_DTYPE_F16,
                        .asymmetric = cases[i].asymmetric};
        quant_layer l = quant_layer_draw(&s, 11);
        sb_checkpoint *checkpoint = quant_open(&l.folder, "test_detect_bind");
        char path[512];
        sb_error err = {""};
        sb_zeros zeros = SB_ZEROS_none;
        snprintf(path, sizeof path, "%s/config.json", sb_checkpoint_folder(checkpoint));
        remove(path);
        if (cases[i].config) {
            FILE *file = fopen(path, "w");
            assert_non_null(file);
            fputs(cases[i].config, file);
            assert_int_equal(fclose(file), 0);
        }
        sb_status status = sb_each_layer(checkpoint, take_zeros, &zeros, &err);
        if (status != cases[i].status || zeros != cases[i].zeros)
            fail_msg("%zu: status %d, zeros %d: %s", i, (int)status, (int)zeros, err.text);
        remove(path);
        sb_checkpoint_close(checkpoint);
        quant_layer_free(&l);
    }
}

/* Scales of the cache must be finite and above 0. */
TEST(test_bad_cache_scales)
{
    static const struct {
        uint32_t bits;
        const char *message;
    } cases[] = {{0, "is 0"},
                 {0x7f800000, "inf"},
                 {0xbf800000, "-1"},
                 {0x7fc00000, "nan"},
                 {0x80000000, "is 0"}};
    static const char name[] = "model.layers.3.self_attn.v_proj.v_scale";
    for (size_t i = 0; i < COUNT(cases); i++) {
        test_folder f = preset("T4");
        sb_store_u32(test_folder_add(&f, name, SB_DTYPE_F32, 1, (uint64_t[]){1})->bytes,
                     cases[i].bits);
        bound b = {0};
        sb_error err = {""};
        assert_int_equal(bind(&f, &b, &err), SB_ERR_INPUT);
        if (!strstr(err.text, name) || !strstr(err.text, cases[i].message))
            fail_msg("%s", err.text);
        unbind(&b);
        test_folder_free(&f);
    }
}

/* A superfluous part is an error here, too, and so is a part of a layer without codes. */
TEST(test_parts)
{
    static const struct {
        const char *name, *message;
    } cases[] = {{"model.layers.3.self_attn.o_proj.g_idx", "does not belong"},
                 {"model.layers.3.self_attn.q_proj.weight_scale", "does not belong"},
                 {"model.layers.3.self_attn.q_norm.weight_scale", "does not belong to this model"},
                 {"model.embed_tokens.weight_scale", "does not belong to this model"}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        test_folder f = preset("T4");
        quant_layer l = put(&f, &o_proj);
        test_folder_add(&f, cases[i].name, SB_DTYPE_F32, 0, NULL);
        bound b = {0};
        sb_error err = {""};
        assert_int_equal(bind(&f, &b, &err), SB_ERR_INPUT);
        if (!strstr(err.text, cases[i].name) || !strstr(err.text, cases[i].message))
            fail_msg("%s", err.text);
        unbind(&b);
        quant_layer_free(&l);
        test_folder_free(&f);
    }
}

/* Each allocation fails once: the result is an error that says so, and nothing leaks. */
TEST(test_memory_runs_out)
{
    static const char *const presets[] = {"T5", "T1"};
    static const quant_spec specs[] = {{QKVZ, C(fp8_block), .bits = 8, .block = {128, 128},
                                        .scale = SB_DTYPE_BF16, .scale_rank = 2},
                                       {GATE_UP, C(nvfp4_modelopt), .bits = 4, .block = {1, 16},
                                        .scale = SB_DTYPE_F8_E4M3, .scale_rank = 2,
                                        .factor = SB_DTYPE_F32, .factor_rank = 1}};
    for (unsigned i = 0; i < COUNT(specs); i++) {
        test_folder f = preset(presets[i]);
        quant_layer l = put(&f, &specs[i]);
        bound b = {0};
        sb_error err = {""};
        if (bind(&f, &b, &err))
            fail_msg("%s", err.text);
        sb_weights_free(b.weights);
        unsigned long n = 1;
        for (sb_status status = SB_ERR_MEMORY; status; n++) {
            b.weights = NULL;
            sb_alloc_fail_at(n);
            status = sb_weights_bind(b.checkpoint, &b.config, NULL, &b.weights, &err);
            sb_alloc_fail_at(0);
            if (status) {
                assert_int_equal(status, SB_ERR_MEMORY);
                assert_non_null(strstr(err.text, "memory"));
                assert_null(b.weights);
            }
        }
        assert_true(n > 4); /* at least: weights, marks, layers, and experts or row maps */
        check_row(&l,
                  i ? &b.weights->layers[2].experts[3].up
                    : &b.weights->layers[0].w[SB_ROLE_in_proj_qkv],
                  0, i ? 3 : 0, i ? 128 : 0);
        unbind(&b);
        quant_layer_free(&l);
        test_folder_free(&f);
    }
}
