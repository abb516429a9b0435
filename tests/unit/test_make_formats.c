/* test_make_formats.c - folders of every quantized format: their tensors match their row of
 * formats.def and are detected as such, and every code is a nearest one to the weight in the folder
 * of format bf16. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/formats/plain_row.h"
#include "ref/formats/small_float.h"
#include "ref/formats/wide.h"
#include "ref/math/law.h"
#include "ref/fast/dot/dot.h"
#include "ref/model/declared.h"
#include "tests/lib/checkpoint.h"
#include "tools/make/plan.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* The formats of each preset: all (NULL), or these. T1 has experts in every storage, T6 has the
 * edges of blocks and words, T9 has
 * the formats of Qwen3.8 and a head, T2 is large, and T5 differs from the others only in the names
 * of its projections. CHECK_ALL=1 adds slow formats whose parts other formats cover. */
static const struct {
    const char *preset, *formats, *added;
} presets[] = {{"T1", " nvfp4-modelopt int4-autoround int4-fp8-hybrid ",
                " nvfp4-ct fp8-block int4-gptq nvidia-mix "},
               {"T4", NULL, ""},
               {"T6",
                " fp8-block fp8-block-ue8m0 nvfp4-ct nvidia-mix mxfp4 int4-gptq int4-autoround "
                "int4-awq int4-ct int8-gptq ",
                ""},
               {"T9", " mxfp4-quark nvidia-max nvidia-max-conv int4-int8-head int8-ct ", ""},
               {"T2", " nvidia-mix ", " fp8-block nvfp4-ct "},
               {"T5", " fp8-tensor int4-awq ", ""}};

static int is_made(size_t preset, const char *format)
{
    char word[64];
    const char *cases = getenv("SAMEBIT_CASES"), *all = getenv("CHECK_ALL");
    int few = cases && strtoul(cases, NULL, 10) < 100000; /* the sanitizers need few cases */
    snprintf(word, sizeof word, " %s ", format);
    if (few &&
        (strcmp(presets[preset].preset, "T1") == 0 || strcmp(presets[preset].preset, "T2") == 0))
        return 0;
    if (all && strcmp(all, "1") == 0 && strstr(presets[preset].added, word))
        return 1;
    return !presets[preset].formats || strstr(presets[preset].formats, word);
}

static double magnitude(double x)
{
    return x < 0 ? -x : x;
}

/* --- one layer against its original ----------------------------------------------------------- */

/* The properties of a layer that the checks need. */
typedef struct layer {
    const sb_matrix *matrix;
    const sb_matrix *original;
    sb_container container;
    int signed_scales;
} layer;

/* The findings: elements whose code is not a nearest one, groups without a largest code, and the
 * sums of squares of errors and weights. */
typedef struct findings {
    size_t elements, wrong, groups, without_largest;
    double error, weight;
} findings;

/* The distance between t and the nearest number that a code can represent. */
static double least_distance(const layer *l, double t)
{
    double nearest = t, lowest = sb_format_bits(l->matrix->format) == 8 ? -128 : -8;
    switch (l->matrix->format) {
    case SB_FORMAT_e4m3:
        nearest = (double)sb_e4m3_to_f32(sb_f32_to_e4m3((float)t));
        break;
    case SB_FORMAT_e2m1:
        nearest = (double)sb_e2m1_to_f32(sb_f32_to_e2m1((float)t));
        break;
    default:
        nearest = (double)(int)(t < 0 ? t - 0.5 : t + 0.5);
        if (l->matrix->quant.zeros != SB_ZEROS_awq) { /* AWQ: each group has its own range */
            nearest = nearest < lowest ? lowest : nearest;
            nearest = nearest > -lowest - 1 ? -lowest - 1 : nearest;
        }
    }
    return magnitude(t - nearest);
}

/* 1 if `value` is the nearest one to some number within the slack of t. A quotient rounded to BF16
 * is off by up to 2^-9; with zero points the ends of a group may clip. */
static int is_nearest(const layer *l, double t, double value)
{
    double slack = magnitude(t) * 0x1p-8;
    if (l->matrix->quant.zeros == SB_ZEROS_awq)
        return magnitude(t - value) <= 1.0 + slack;
    return magnitude(t - value) <= least_distance(l, t) + 2 * slack + 1e-12;
}

/* True if a group's codes reach the end of the container's range. */
static int reaches(const layer *l, double least, double most, double step)
{
    if (l->matrix->quant.scale_format == SB_FORMAT_f16 && magnitude(step) < 1.1e-5)
        return 1; /* G-17: "at least f16(1e-5) in magnitude" */
    double far = -least > most ? -least : most;
    switch (l->container) {
    case SB_CONTAINER_nvfp4_ct:
    case SB_CONTAINER_nvfp4_modelopt:
        return far == 6;
    case SB_CONTAINER_mxfp4:
        return far >= 4;
    case SB_CONTAINER_mxfp8:
        return far >= 224;
    case SB_CONTAINER_int_gptq:
        return l->signed_scales ? least == -8 : far >= (least < -8 || most > 8 ? 127 : 7);
    case SB_CONTAINER_int_ct:
        return far >= 7;
    case SB_CONTAINER_int8_channel:
        return far >= 127;
    case SB_CONTAINER_int_awq:
        return most - least >= 14;
    case SB_CONTAINER_fp8_channel:
        return far == 448;
    default:
        return 1; /* several rows share a scale */
    }
}

static void check_group(const layer *l, const float *codes, const float *weights, uint32_t n,
                        double step, findings *f)
{
    double least = 0, most = 0;
    int any = 0;
    for (uint32_t k = 0; k < n; k++) {
        double v = (double)codes[k], w = (double)weights[k];
        f->wrong += !is_nearest(l, w / step, v);
        f->error += (v * step - w) * (v * step - w);
        f->weight += w * w;
        least = v < least ? v : least;
        most = v > most ? v : most;
        any |= w != 0;
    }
    f->elements += n;
    f->groups += (size_t)any;
    f->without_largest += any && !reaches(l, least, most, step);
}

static double factor_of(const sb_quant *q)
{
    double value = (double)q->factor.value;
    return q->factor.kind == SB_DIVISOR ? 1 / value : q->factor.kind == SB_MULTIPLIER ? value : 1;
}

/* Checks every `stride`-th row. */
static findings check_layer(const layer *l, uint32_t stride)
{
    static float codes[4096], weights[4096];
    const sb_matrix *m = l->matrix;
    findings f = {0};
    assert_true(m->cols <= COUNT(codes));
    for (uint32_t row = 0; row < m->rows; row += stride) {
        sb_matrix_row(l->original, row, weights);
        sb_matrix_codes(m, row, 0, m->cols, codes);
        for (uint32_t k = 0, n; k < m->cols; k += n) {
            n = m->cols - k < m->quant.block_cols ? m->cols - k : m->quant.block_cols;
            double step = (double)sb_matrix_scale(m, row, k) * factor_of(&m->quant);
            check_group(l, codes + k, weights + k, n, step, &f);
        }
    }
    return f;
}

/* Limits of the relative error of a layer: a tenth for FP4, and so on. */
static double most_error(const layer *l)
{
    switch (l->matrix->format) {
    case SB_FORMAT_e4m3:
        return 0.04;
    case SB_FORMAT_uint8:
    case SB_FORMAT_int8:
        return 0.01;
    case SB_FORMAT_e2m1:
        return l->container == SB_CONTAINER_mxfp4 ? 0.15 : 0.12;
    default:
        return 0.16;
    }
}

/* --- a folder --------------------------------------------------------------------------------- */

typedef struct folder {
    const char *dir;
    sb_checkpoint *checkpoint;
    sb_make_plan plan;
} folder;

static folder make_folder(const char *name, sb_make_options o)
{
    sb_error err;
    folder f = {0};
    o.dir = name;
    f.dir = test_checkpoint_with("formats", &o);
    o.seed = o.seed ? o.seed : 42;
    if (sb_checkpoint_open(f.dir, &f.checkpoint, &err) || sb_make_plan_new(&o, &f.plan, &err))
        fail_msg("%s", err.text);
    assert_int_equal(sb_checkpoint_count(f.checkpoint), f.plan.count);
    return f;
}

static void close_folder(folder *f)
{
    sb_checkpoint_close(f->checkpoint);
    sb_make_plan_free(&f->plan);
}

/* The originals: one tensor per expert, so that every layer has its name. */
static folder make_original(const char *preset)
{
    return make_folder("original",
                       (sb_make_options){.preset = preset,
                                         .layers = 4,
                                         .experts = strcmp(preset, "T4") == 0 ? NULL : "split"});
}

static uint32_t group_for(const char *preset, const char *format)
{
    int narrow = strcmp(preset, "T6") == 0 || strcmp(preset, "T9") == 0;
    return narrow && strncmp(format, "int", 3) == 0 && strcmp(format, "int8-ct") != 0 ? 32 : 0;
}

static sb_found detect(const folder *f, const char *module)
{
    sb_error err;
    sb_found found;
    if (sb_detect(f->checkpoint, module, 0, 0, 0, &found, &err))
        fail_msg("%s: %s", f->dir, err.text);
    return found;
}

/* All laws are within a few units of the exact value; law exact rounds once. */
static void check_law(const layer *l)
{
    static double wide[4096];
    static float values[4096], codes[4096];
    const sb_matrix *m = l->matrix;
    sb_law_row(m, m->rows - 1, SB_LAW_exact, wide, values);
    sb_matrix_codes(m, m->rows - 1, 0, m->cols, codes);
    for (uint32_t k = 0; k < m->cols; k++) {
        double step = (double)sb_matrix_scale(m, m->rows - 1, k) * factor_of(&m->quant);
        double exact = (double)codes[k] * step;
        assert_true(magnitude((double)values[k] - exact) <= magnitude(exact) * 0x1p-23);
    }
}

static void check_linear(const folder *f, const folder *original, const sb_make_linear *l,
                         uint32_t number)
{
    sb_found found = detect(f, l->module), source = detect(original, l->module);
    assert_int_equal(found.container, sb_scheme_at(l->scheme)->container);
    assert_int_equal(source.container, SB_CONTAINER_plain);
    assert_true(found.matrix.rows == l->rows && found.matrix.cols == l->cols);
    assert_int_equal(found.zeros_open, 0);
    layer x = {&found.matrix, &source.matrix, found.container,
               f->plan.rule == SB_SCALE_RULE_signed_max};
    findings r = check_layer(&x, l->expert != SB_NO_EXPERT && l->expert > 1 ? 13 : 1);
    check_law(&x);
    if (r.wrong || r.without_largest * 50 > r.groups)
        fail_msg("%s: %s: %zu of %zu codes are no nearest ones, %zu of %zu groups lack the largest",
                 f->dir, l->module, r.wrong, r.elements, r.without_largest, r.groups);
    double limit = most_error(&x);
    if (r.error > limit * limit * r.weight)
        fail_msg("%s: %s (layer %u): relative error %g squared", f->dir, l->module, number,
                 r.error / r.weight);
}

/* Tensors that are not quantized have the bytes of the original. */
static void check_plain(const folder *f, const folder *original)
{
    size_t same = 0;
    for (size_t i = 0; i < f->plan.count; i++) {
        const sb_make_tensor *t = &f->plan.tensors[i];
        const sb_tensor *a = sb_checkpoint_find(f->checkpoint, t->name);
        const sb_tensor *b = sb_checkpoint_find(original->checkpoint, t->name);
        assert_non_null(a);
        if (t->content != SB_CONTENT_plain || !b)
            continue;
        assert_int_equal(a->dtype, b->dtype);
        assert_int_equal(a->bytes, b->bytes);
        assert_memory_equal(a->data, b->data, (size_t)a->bytes);
        same++;
    }
    assert_true(same > 10);
}

/* --- declarations * --------------------------------------------------------------------------- */

static void check_declared_linear(const folder *f, const sb_declared *declared,
                                  const sb_make_linear *l)
{
    sb_declaration said;
    sb_error err;
    sb_found found = detect(f, l->module);
    if (sb_declared_for(declared, l->module, &said, &err))
        fail_msg("%s", err.text);
    if (f->plan.format->dialect == SB_MAKE_DIALECT_auto_round &&
        l->scheme == f->plan.format->scheme[1]) { /* G-22: "by a free key and nowhere else" */
        assert_int_equal(said.answer, SB_DECLARED_NO);
        return;
    }
    if (said.answer != SB_DECLARED_YES)
        fail_msg("%s: %s is quantized, but %s", f->dir, l->module, said.rule);
    assert_int_equal(said.bits, sb_format_bits(found.matrix.format));
    if (said.strategy == SB_STRATEGY_GROUP || said.strategy == SB_STRATEGY_TENSOR_GROUP)
        assert_int_equal(said.group_size, found.matrix.quant.block_cols);
    if (said.strategy == SB_STRATEGY_BLOCK)
        assert_true(said.block_rows == 128 && said.block_cols == 128);
    int has_input = found.part[SB_PART_input_scale] || found.part[SB_PART_input_global_scale];
    if (strcmp(f->plan.format->name, "nvidia-mix") != 0)
        assert_int_equal(has_input, said.activation == SB_ACTIVATION_STATIC_TENSOR ||
                                        said.activation == SB_ACTIVATION_NVFP4_LOCAL);
    assert_int_equal(said.ue8m0,
                     l->scheme == SB_SCHEME_fp8_block_ue8m0 || l->scheme == SB_SCHEME_mxfp4 ||
                         l->scheme == SB_SCHEME_mxfp4_quark || l->scheme == SB_SCHEME_mxfp8);
}

/* G-25: "nvidia-max lists each convolution as FP8 and stores it in BF16" */
static int is_listed_only(const folder *f, const sb_make_tensor *t)
{
    return t->role == SB_ROLE_conv1d && strcmp(f->plan.format->name, "nvidia-max") == 0;
}

/* No unquantized layer is declared as quantized, except convolutions that are only listed. */
static void check_declared(const folder *f)
{
    sb_declared *declared = NULL;
    sb_error err;
    if (sb_declared_load(f->dir, &declared, &err))
        fail_msg("%s", err.text);
    assert_non_null(declared);
    for (size_t i = 0; i < f->plan.linear_count; i++)
        check_declared_linear(f, declared, &f->plan.linears[i]);
    for (size_t i = 0; i < f->plan.count; i++) {
        const sb_make_tensor *t = &f->plan.tensors[i];
        char module[320];
        sb_declaration said;
        if (t->content != SB_CONTENT_plain || !sb_layer_of(t->name, module, sizeof module))
            continue;
        assert_int_equal(sb_declared_for(declared, module, &said, NULL), SB_OK);
        if ((said.answer == SB_DECLARED_YES) != is_listed_only(f, t))
            fail_msg("%s: %s is not quantized, but %s", f->dir, module, said.rule);
    }
    sb_declared_free(declared);
}

/* --- the tests -------------------------------------------------------------------------------- */

TEST(test_every_format)
{
    for (size_t p = 0; p < COUNT(presets); p++) {
        folder original = make_original(presets[p].preset);
        for (size_t i = 0; i < sb_make_format_count(); i++) {
            const sb_make_format *format = sb_make_format_at(i);
            if (format->scheme[0] == SB_SCHEME_plain || !is_made(p, format->name))
                continue;
            folder f = make_folder(
                "quantized",
                (sb_make_options){.preset = presets[p].preset,
                                  .layers = 4,
                                  .format = format->name,
                                  .group_size = group_for(presets[p].preset, format->name)});
            assert_true(f.plan.linear_count > 0);
            for (size_t l = 0; l < f.plan.linear_count; l++)
                check_linear(&f, &original, &f.plan.linears[l], (uint32_t)l);
            check_plain(&f, &original);
            check_declared(&f);
            close_folder(&f);
        }
        close_folder(&original);
    }
}

/* The other prefix, and a vision tower, which no dialect may declare quantized. */
TEST(test_vision_layout)
{
    static const char *const formats[] = {"nvfp4-ct",  "fp8-block",      "fp8-tensor", "nvidia-mix",
                                          "int4-gptq", "int4-autoround", "int4-awq"};
    sb_make_options o = {.preset = "T4", .layers = 4, .layout = "vl"};
    folder original = make_folder("original-vl", o);
    for (size_t i = 0; i < COUNT(formats); i++) {
        o.format = formats[i];
        folder f = make_folder("vl", o);
        size_t vision = 0;
        for (size_t t = 0; t < f.plan.count; t++)
            vision += f.plan.tensors[t].role == SB_ROLE_COUNT;
        assert_int_equal(vision, 21);
        for (size_t l = 0; l < f.plan.linear_count; l++)
            check_linear(&f, &original, &f.plan.linears[l], (uint32_t)l);
        check_plain(&f, &original);
        check_declared(&f);
        close_folder(&f);
    }
    close_folder(&original);
}

/* The other scale rules of a format make nearest codes, too. */
TEST(test_other_rules)
{
    static const char *const ways[][2] = {{"fp8-block", "reciprocal"},
                                          {"nvfp4-modelopt", "four-over-six"},
                                          {"nvidia-mix", "four-over-six"},
                                          {"int4-gptq", "signed-max"}};
    folder original = make_original("T4");
    for (size_t i = 0; i < COUNT(ways); i++) {
        folder f = make_folder("rule", (sb_make_options){.preset = "T4",
                                                         .layers = 4,
                                                         .format = ways[i][0],
                                                         .scale_rule = ways[i][1]});
        for (size_t l = 0; l < f.plan.linear_count; l++) {
            sb_found found = detect(&f, f.plan.linears[l].module);
            sb_found source = detect(&original, f.plan.linears[l].module);
            layer x = {&found.matrix, &source.matrix, SB_CONTAINER_plain, 0};
            findings r = check_layer(&x, 1);
            assert_int_equal(r.wrong, 0);
            assert_true(r.error < most_error(&x) * most_error(&x) * r.weight);
        }
        check_declared(&f);
        close_folder(&f);
    }
    close_folder(&original);
}

/* The findings for a copy of a layer with one byte changed; -1: none. */
static findings check_copy(const layer *l, long code_byte, unsigned code_flip, long scale_byte,
                           unsigned scale_flip)
{
    layer x = *l;
    sb_matrix copy = *l->matrix;
    size_t codes = (size_t)copy.rows * copy.cols * sb_format_bits(copy.format) / 8;
    size_t scales = (size_t)copy.rows * copy.quant.groups;
    unsigned char *bytes = malloc(codes + scales);
    assert_non_null(bytes);
    memcpy(bytes, copy.data, codes);
    memcpy(bytes + codes, copy.quant.scales, scales);
    if (code_byte >= 0)
        bytes[code_byte] ^= (unsigned char)code_flip;
    if (scale_byte >= 0)
        bytes[codes + (size_t)scale_byte] ^= (unsigned char)scale_flip;
    copy.data = bytes;
    copy.quant.scales = bytes + codes;
    x.matrix = &copy;
    findings f = check_layer(&x, 1);
    free(bytes);
    return f;
}

/* Damage that these checks must find, and changes that are no damage. */
TEST(test_planted)
{
    folder original = make_original("T4");
    folder f = make_folder("planted",
                           (sb_make_options){.preset = "T4", .layers = 4, .format = "nvfp4-ct"});
    sb_found found = detect(&f, "model.layers.3.self_attn.q_proj");
    sb_found source = detect(&original, "model.layers.3.self_attn.q_proj");
    layer l = {&found.matrix, &source.matrix, found.container, 0};
    found.matrix.rows = 8; /* the rows that are damaged */
    assert_int_equal(check_copy(&l, -1, 0, -1, 0).wrong, 0);
    unsigned seen = 0, planted = 0, zeros = 0;
    for (long byte = 0; byte < 400; byte++)
        for (unsigned bit = 0; bit < 8; bit++) {
            unsigned code = found.matrix.data[byte] >> (bit / 4 * 4) & 15;
            findings r = check_copy(&l, byte, 1u << bit, -1, 0);
            if (bit % 4 == 3 && (code & 7) == 0) { /* -0 instead of +0 is not damage */
                assert_int_equal(r.wrong, 0);
                zeros++;
                continue;
            }
            planted++;
            seen += r.wrong > 0;
        }
    assert_true(zeros > 10);
    assert_true(seen * 100 >= planted * 98);
    for (long scale = 0; scale < 64; scale++)
        assert_true(check_copy(&l, -1, 0, scale, 8).wrong > 0);
    sb_matrix shifted = source.matrix;
    layer other = {&found.matrix, &shifted, found.container, 0};
    shifted.data += 2 * shifted.cols; /* the row below */
    findings r = check_layer(&other, 1);
    assert_true(r.wrong * 2 > r.elements && r.error > r.weight);
    close_folder(&f);
    close_folder(&original);
}

static float number(const folder *f, const char *name)
{
    const sb_tensor *t = sb_checkpoint_find(f->checkpoint, name);
    if (!t)
        fail_msg("%s: no %s", f->dir, name);
    assert_int_equal(t->dtype, SB_DTYPE_F32);
    assert_int_equal(t->bytes, 4);
    return sb_f32_from_bits(sb_load_u32(t->data));
}

static int is_bf16(float x)
{
    return x == sb_round_to(SB_FORMAT_bf16, x);
}

/* Scales of inputs: layers with the same input share one, so do all experts, and for ModelOpt 2688
 * times the scale is a BF16 number. */
TEST(test_input_scales)
{
    static const char *const same[][2] = {
        {"model.layers.3.self_attn.q_proj", "model.layers.3.self_attn.v_proj"},
        {"model.layers.0.mlp.experts.0.gate_proj", "model.layers.0.mlp.experts.0.up_proj"},
        {"model.layers.0.mlp.experts.0.down_proj", "model.layers.0.mlp.experts.7.down_proj"}};
    static const char *const formats[] = {"nvfp4-ct", "nvidia-mix"};
    for (size_t i = 0; i < COUNT(formats); i++) {
        char a[256], b[256];
        const char *suffix = i ? "input_scale" : "input_global_scale";
        folder f = make_folder(
            "inputs",
            (sb_make_options){.preset = "T1", .layers = 4, .format = formats[i], .kv_scales = 1});
        for (size_t pair = 0; pair < COUNT(same); pair++) {
            snprintf(a, sizeof a, "%s.%s", same[pair][0], suffix);
            snprintf(b, sizeof b, "%s.%s", same[pair][1], suffix);
            assert_true(number(&f, a) == number(&f, b));
            float amax = number(&f, a) * (!i ? 1.0f : pair ? 2688.0f : 448.0f);
            assert_true(is_bf16(amax) || is_bf16(sb_f32_from_bits(sb_bits_f32(amax) + 1)) ||
                        is_bf16(sb_f32_from_bits(sb_bits_f32(amax) - 1)));
        }
        snprintf(b, sizeof b, "%s.%s", same[1][0], suffix);
        assert_true(number(&f, a) != number(&f, b));
        float key = number(&f, "model.layers.3.self_attn.k_proj.k_scale");
        float value = number(&f, "model.layers.3.self_attn.v_proj.v_scale");
        assert_true(key > 4.0f / 449 && key < 64.0f / 447 && value > 4.0f / 449 && value != key);
        assert_null(sb_checkpoint_find(f.checkpoint, "mtp.layers.0.self_attn.k_proj.k_scale"));
        assert_null(sb_checkpoint_find(f.checkpoint, "model.layers.0.linear_attn.k_scale"));
        sb_declared *declared = NULL;
        assert_int_equal(sb_declared_load(f.dir, &declared, NULL), SB_OK);
        assert_int_equal(sb_declared_kv_cache(declared), SB_KV_FP8);
        sb_declared_free(declared);
        close_folder(&f);
    }
}

/* Where engines fuse q, k and v, or gate and up, these have one factor. */
TEST(test_fused_factors)
{
    folder ct =
        make_folder("ct", (sb_make_options){.preset = "T1", .layers = 4, .format = "nvfp4-ct"});
    float q = number(&ct, "model.layers.3.self_attn.q_proj.weight_global_scale");
    assert_true(q == number(&ct, "model.layers.3.self_attn.k_proj.weight_global_scale"));
    assert_true(q == number(&ct, "model.layers.3.self_attn.v_proj.weight_global_scale"));
    assert_true(q != number(&ct, "model.layers.3.self_attn.o_proj.weight_global_scale"));
    assert_true(number(&ct, "model.layers.1.mlp.experts.3.gate_proj.weight_global_scale") ==
                number(&ct, "model.layers.1.mlp.experts.3.up_proj.weight_global_scale"));
    assert_true(number(&ct, "model.layers.1.mlp.experts.3.gate_proj.weight_global_scale") !=
                number(&ct, "model.layers.1.mlp.experts.4.gate_proj.weight_global_scale"));
    assert_true(is_bf16(q));
    close_folder(&ct);
    folder mo =
        make_folder("mo", (sb_make_options){.preset = "T1", .layers = 4, .format = "fp8-tensor"});
    assert_true(number(&mo, "model.layers.3.self_attn.q_proj.weight_scale") !=
                number(&mo, "model.layers.3.self_attn.k_proj.weight_scale"));
    assert_true(number(&mo, "model.layers.1.mlp.experts.3.gate_proj.weight_scale") ==
                number(&mo, "model.layers.1.mlp.experts.3.up_proj.weight_scale"));
    assert_true(number(&mo, "model.layers.1.mlp.shared_expert.gate_proj.weight_scale") !=
                number(&mo, "model.layers.1.mlp.shared_expert.up_proj.weight_scale"));
    close_folder(&mo);
}

/* The numbers of tensors in published folders of these formats, without the vision tower. */
TEST(test_published_counts)
{
    static const struct {
        const char *preset, *format;
        size_t tensors;
    } known[] = {{"35b-a3b", "fp8-block", 64196 - 333},
                 {"35b-a3b", "nvidia-mix", 124468 - 333},
                 {"35b-a3b", "int4-autoround", 95815 - 333},
                 {"35b-a3b", "nvfp4-ct", 124325 - 333},
                 {"35b-a3b", "bf16", 1045 - 333},
                 {"122b-a10b", "fp8-block", 76656 - 333},
                 {"397b-a17b", "fp8-block", 189042 - 333}};
    for (size_t i = 0; i < COUNT(known); i++) {
        sb_make_options o = {.preset = known[i].preset, .format = known[i].format};
        sb_make_plan plan;
        sb_error err;
        if (sb_make_plan_new(&o, &plan, &err))
            fail_msg("%s: %s", o.format, err.text);
        if (plan.count != known[i].tensors)
            fail_msg("%s %s: %zu tensors, expected %zu", o.preset, o.format, plan.count,
                     known[i].tensors);
        sb_make_plan_free(&plan);
    }
}

TEST(test_refusals)
{
    static const struct {
        sb_make_options options;
        const char *fragment;
    } cases[] = {
        {{.preset = "T6", .format = "int4-ct"}, "in_proj_qkv.weight has 320 columns"},
        {{.preset = "T6", .format = "int4-gptq"}, "gate_proj.weight has 320 columns"},
        {{.preset = "T1", .format = "int4-ct", .group_size = 12}, "the group size is 12"},
        {{.preset = "T1", .format = "nvfp4-ct", .group_size = 32}, "no choice of group size"},
        {{.preset = "T1", .format = "nvfp4-ct", .scale_rule = "rtn"}, "no scale rule \"rtn\""},
        {{.preset = "T1", .format = "bf16", .scale_rule = "amax"}, "no scale rule \"amax\""},
        {{.preset = "T1", .format = "bf16", .kv_scales = 1}, "no scales of keys and values"},
        {{.preset = "T1", .format = "nvfp4-ct", .experts = "fused"}, "one tensor per expert"},
    };
    const char *dir = test_path("formats", "refused");
    for (size_t i = 0; i < COUNT(cases); i++) {
        sb_make_options o = cases[i].options;
        sb_error err = {{0}};
        o.dir = dir;
        if (sb_make(&o, &err) != SB_ERR_USAGE || !strstr(err.text, cases[i].fragment))
            fail_msg("\"%s\", expected \"%s\"", err.text, cases[i].fragment);
    }
}

TEST_FIXTURE(start)
{
    sb_error err;
    return sb_math_start(NULL, &err) != SB_OK;
}

TEST_GROUP(start, NULL)
