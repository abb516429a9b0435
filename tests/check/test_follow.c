/* test_follow.c - explanations of the distance of a matrix to its original: clipping, scales of
 * other matrices, factors of columns with and without the norm that cancels them, zero columns,
 * single rows. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/formats/e2m1_forms.h"
#include "ref/formats/small_float.h"
#include "tests/check/folder.h"

#define BF16 "T3 bf16 recipe=plain"
#define UP "model.layers.1.mlp.experts.1.up_proj"

static void declare(folder *f, const char *modifier)
{
    char text[256];
    snprintf(text, sizeof text, "default_stage:\n  default_modifiers:\n    %s:\n      targets: x\n",
             modifier);
    folder_put(f, "recipe.yaml", text, strlen(text));
}

/* Weight `at` of a module of the original, in row-major order. */
static float weight_of(const folder *original, const char *module, uint64_t at)
{
    char name[256];
    int expert;
    const char *stack = strstr(module, ".experts.");
    if (!stack) {
        snprintf(name, sizeof name, "%s.weight", module);
        return folder_get(folder_find(original, name), at);
    }
    sscanf(stack, ".experts.%d", &expert);
    int down = strstr(module, "down_proj") != NULL, up = strstr(module, "up_proj") != NULL;
    snprintf(name, sizeof name, "%.*s.experts.%s", (int)(stack - module), module,
             down ? "down_proj" : "gate_up_proj");
    const folder_tensor *t = folder_find(original, name);
    uint64_t slice = t->shape[1] * t->shape[2];
    return folder_get(t, (uint64_t)expert * slice + (up && !down ? slice / 2 : 0) + at);
}

/* Quantizes the original times `column(k)` to FP8, with one scale per row, multiplied by `factor`.
 */
static void requantize(folder *f, const folder *original, const char *module,
                       float (*column)(uint64_t k), float factor)
{
    char name[256];
    snprintf(name, sizeof name, "%s.weight", module);
    folder_tensor *codes = folder_find(f, name);
    snprintf(name, sizeof name, "%s.weight_scale", module);
    folder_tensor *scales = folder_find(f, name);
    uint64_t cols = codes->shape[1];
    for (uint64_t i = 0; i < codes->shape[0]; i++) {
        float largest = 0;
        for (uint64_t k = 0; k < cols; k++) {
            float w = weight_of(original, module, i * cols + k) * column(k);
            largest = w > largest ? w : -w > largest ? -w : largest;
        }
        folder_set(scales, i, largest / 448 * factor);
        for (uint64_t k = 0; k < cols; k++)
            codes->bytes[i * cols + k] = sb_f32_to_e4m3(weight_of(original, module, i * cols + k) *
                                                        column(k) / folder_get(scales, i));
    }
}

static float one(uint64_t k)
{
    (void)k;
    return 1;
}

static float two_of_three(uint64_t k)
{
    return k % 3 == 0 ? 0.5f : k % 3 == 1 ? 1 : 2;
}

/* V-31: "Weights of the original beyond 1.1 times 448 S were clipped" - the scales are those of a
 * partner with a smaller largest weight. Every code is nearest. */
TEST(test_clipped)
{
    folder *f = folder_of("T3 fp8-channel recipe=plain"), *original = folder_of(BF16);
    requantize(f, original, UP, one, 1.0f);
    folder_result *r = folder_check(f, BF16, NULL);
    expect_none(r, 31);
    folder_result_free(r);
    requantize(f, original, UP, one, 0.8f);
    r = folder_check(f, BF16, NULL);
    const sb_finding *finding = folder_finding(r, 31, SB_LEVEL_error, UP);
    assert_non_null(finding);
    assert_non_null(strstr(finding->message, "were clipped"));
    folder_result_free(r);
    requantize(f, original, UP, one, 1.1f); /* too large a scale clips nothing */
    r = folder_check(f, BF16, NULL);
    expect_none(r, 31);
    folder_result_free(r);
    folder_free(f);
    folder_free(original);
}

/* --- a norm and what it feeds ----------------------------------------------------------------- */

static void divide_norm(folder *f, const char *norm)
{
    folder_tensor *t = folder_find(f, norm);
    for (uint64_t k = 0; k < folder_values(t); k++)
        folder_set(t, k, (1 + folder_get(t, k)) / two_of_three(k) - 1);
}

/* V-38: "the product is compared" */
TEST(test_smoothed)
{
    static const char *const fed[] = {"q_proj", "k_proj", "v_proj"};
    folder *f = folder_of("T3 fp8-channel recipe=plain"), *original = folder_of(BF16);
    char module[128];
    declare(f, "SmoothQuantModifier");
    divide_norm(f, "model.layers.3.input_layernorm.weight");
    folder_result *r = folder_check(f, BF16, NULL); /* the weights are as they were */

    for (unsigned i = 0; i < 3; i++) {
        snprintf(module, sizeof module, "model.layers.3.self_attn.%s", fed[i]);
        const sb_finding *finding = folder_finding(r, 31, SB_LEVEL_error, module);
        assert_non_null(finding);
        assert_non_null(strstr(finding->message, "columns"));
        requantize(f, original, module, two_of_three, 1);
    }
    folder_result_free(r);
    r = folder_check(f, BF16, NULL); /* norm and weights belong together */
    assert_null(folder_finding(r, 31, SB_LEVEL_error, NULL));
    assert_null(folder_finding(r, 14, SB_LEVEL_error, NULL));
    folder_result_free(r);
    folder_free(f);
    folder_free(original);
}

/* --- integers --------------------------------------------------------------------------------- */

static const char *message_of(const folder_result *r, sb_level level)
{
    const sb_finding *finding = folder_finding(r, 38, level, UP);
    return finding ? finding->message : "";
}

static folder_result *checked(folder *f)
{
    return folder_check(f, BF16, NULL);
}

/* V-38: "GPTQ zeroes the columns whose inputs were never other than zero" */
TEST(test_dead_columns)
{
    folder *f = folder_of("T3 int4-ct recipe=plain");
    folder_tensor *t = folder_find(f, UP ".weight_packed");
    uint64_t cols = t->shape[1] * 8;
    declare(f, "GPTQModifier");
    for (uint64_t i = 0; i < t->shape[0]; i++)
        for (uint64_t k = 0; k < cols; k += 4)
            folder_set_nibble(t, i * cols + k, 8);
    folder_result *r = checked(f);
    assert_non_null(strstr(message_of(r, SB_LEVEL_warn), "columns are zero"));
    assert_null(folder_finding(r, 38, SB_LEVEL_error, NULL));
    folder_result_free(r);
    folder_free(f);
}

/* V-38: "A row is off" - one row with the codes of another row, among tuned codes. */
TEST(test_row)
{
    folder *f = folder_of("T3 int4-ct recipe=plain");
    folder_tensor *t = folder_find(f, UP ".weight_packed");
    uint64_t row = t->shape[1] * 4;
    declare(f, "GPTQModifier");
    for (uint64_t i = 0; i < 8 * t->shape[1] * t->shape[0]; i += 5) { /* as tuning moves codes */
        unsigned code = folder_nibble(t, i);
        folder_set_nibble(t, i, code < 15 ? code + 1 : code - 1);
    }
    folder_result *r = checked(f);
    assert_null(folder_finding(r, 38, SB_LEVEL_error, NULL));
    folder_result_free(r);
    memcpy(t->bytes + 5 * row, t->bytes + 7 * row, row);
    r = checked(f);
    assert_non_null(strstr(message_of(r, SB_LEVEL_error), "row 5"));
    folder_result_free(r);
    folder_free(f);
}

/* V-38: "a factor for each column" */
TEST(test_columns)
{
    folder *f = folder_of("T3 int4-ct recipe=plain");
    folder_tensor *t = folder_find(f, UP ".weight_packed");
    uint64_t cols = t->shape[1] * 8;
    declare(f, "GPTQModifier");
    for (uint64_t i = 0; i < t->shape[0]; i++)
        for (uint64_t k = 0; k < cols; k += 2)
            folder_set_nibble(t, i * cols + k, 8 + (folder_nibble(t, i * cols + k) + 8) / 2 - 8);
    folder_result *r = checked(f);
    assert_non_null(strstr(message_of(r, SB_LEVEL_error), "columns are those of the original"));
    folder_result_free(r);
    folder_free(f);
}

/* --- AutoRound -------------------------------------------------------------------------------- */

/* V-38: "in files of AutoRound a part is a decoder layer" - AutoRound kept its tuning in layer 1
 * only, so that no code of layer 1 is bound. A changed code in layer 0 is found, and so are changed
 * scales in layer 1. */
TEST(test_layer)
{
    folder *f = folder_of("T3 int8-gptq recipe=plain");
    folder_json(f, "config.json", "quantization_config.autoround_version", "\"0.16.1\"");
    folder_json(f, "config.json", "quantization_config.iters", "8");
    for (size_t i = 0; i < f->count; i++) {
        folder_tensor *t = f->tensors[i];
        for (uint64_t k = 0; strstr(t->name, "model.layers.1.") && k < t->size; k += 3)
            if (strstr(t->name, ".qweight")) /* a step toward 128 */
                t->bytes[k] = (unsigned char)(t->bytes[k] + (t->bytes[k] < 128 ? 1 : -1));
    }
    folder_result *r = checked(f);
    const sb_member *m = sb_member_plain(&r->check.self.units, &UP[6]);
    assert_true(m && m->seen->ints.far.count > 1000);
    expect_none(r, 38);
    folder_result_free(r);
    folder_tensor *t = folder_find(f, "model.layers.0.mlp.experts.1.up_proj.qweight");
    t->bytes[777] ^= 0x20;
    folder_tensor *s = folder_find(f, UP ".scales");
    for (uint64_t i = 0; i < folder_values(s); i++)
        folder_set(s, i, folder_get(s, i) * 1.1f);
    r = checked(f);
    expect_finding(r, 38, SB_LEVEL_error, "model.layers.0.mlp.experts.1.up_proj.qweight");
    expect_finding(r, 38, SB_LEVEL_error, UP ".qweight");
    folder_result_free(r);
    folder_free(f);
}

/* Requantizes every second block of an NVFP4 matrix, under its scale times `less`. */
static void requantize_blocks(folder *f, const folder *original, const char *module, float less)
{
    char name[256];
    snprintf(name, sizeof name, "%s.weight_packed", module);
    folder_tensor *codes = folder_find(f, name);
    snprintf(name, sizeof name, "%s.weight_scale", module);
    folder_tensor *scales = folder_find(f, name);
    snprintf(name, sizeof name, "%s.weight_global_scale", module);
    float global = folder_get(folder_find(f, name), 0);
    for (uint64_t b = 1; b < folder_values(scales); b += 2) {
        folder_set(scales, b, folder_get(scales, b) * less);
        for (uint64_t k = 16 * b; k < 16 * b + 16; k++)
            folder_set_nibble(
                codes, k,
                sb_e2m1_hardware(weight_of(original, module, k) * global / folder_get(scales, b)));
    }
}

/* V-24: "A weight beyond the last code is compared as that code" */
TEST(test_cut)
{
    folder *f = folder_of("T3 nvfp4-ct recipe=plain"), *original = folder_of(BF16);
    requantize_blocks(f, original, UP, 0.55f);
    folder_result *r = folder_check(f, BF16, NULL); /* no file says that scales were tuned */
    expect_finding(r, 24, SB_LEVEL_error, UP);
    folder_result_free(r);
    folder_json(f, "config.json", "quantization_config.provider", "\"auto-round\"");
    r = folder_check(f, BF16, NULL);
    assert_null(folder_finding(r, 24, SB_LEVEL_error, NULL));
    const sb_finding *finding = folder_finding(r, 24, SB_LEVEL_warn, UP);
    assert_non_null(finding);
    assert_non_null(strstr(finding->message, "far from its original"));
    assert_non_null(strstr(finding->message, "beyond the largest code"));
    folder_result_free(r);
    folder_tensor *global = folder_find(f, UP ".weight_global_scale");
    folder_set(global, 0, folder_get(global, 0) * 1.07f); /* a wrong global scale is still found */
    r = folder_check(f, BF16, NULL);
    expect_finding(r, 24, SB_LEVEL_error, UP);
    folder_result_free(r);
    folder_free(f);
    folder_free(original);
}

/* Requantizes an NVFP4 matrix: the original times `column`, with new block scales and half the
 * global divisor. */
static void requantize_nvfp4(folder *f, const folder *original, const char *module,
                             float (*column)(uint64_t k))
{
    char name[256];
    snprintf(name, sizeof name, "%s.weight_packed", module);
    folder_tensor *codes = folder_find(f, name);
    snprintf(name, sizeof name, "%s.weight_scale", module);
    folder_tensor *scales = folder_find(f, name);
    snprintf(name, sizeof name, "%s.weight_global_scale", module);
    folder_tensor *global = folder_find(f, name);
    uint64_t cols = codes->shape[1] * 2;
    folder_set(global, 0, folder_get(global, 0) / 2);
    for (uint64_t b = 0; b < folder_values(scales); b++) {
        float largest = 0;
        for (uint64_t k = 16 * b; k < 16 * b + 16; k++) {
            float w = weight_of(original, module, k) * column(k % cols);
            largest = w > largest ? w : -w > largest ? -w : largest;
        }
        folder_set(scales, b, largest / 6 * folder_get(global, 0));
        for (uint64_t k = 16 * b; k < 16 * b + 16; k++)
            folder_set_nibble(codes, k,
                              sb_e2m1_hardware(weight_of(original, module, k) * column(k % cols) *
                                               folder_get(global, 0) / folder_get(scales, b)));
    }
}

/* V-24: "Where the norm before a layer was scaled" - the weights were not scaled with it. */
TEST(test_smoothed_nvfp4)
{
    folder *f = folder_of("T3 nvfp4-ct recipe=plain"), *original = folder_of(BF16);
    declare(f, "SmoothQuantModifier");
    divide_norm(f, "model.layers.1.post_attention_layernorm.weight");
    folder_result *r = folder_check(f, BF16, NULL);
    const sb_finding *finding = folder_finding(r, 24, SB_LEVEL_error, UP);
    assert_non_null(finding);
    assert_non_null(strstr(finding->message, "the norm before this layer was scaled"));
    assert_null(folder_finding(r, 24, SB_LEVEL_error, "layers.2."));
    folder_result_free(r);
    requantize_nvfp4(f, original, UP, two_of_three);
    r = folder_check(f, BF16, NULL);
    assert_null(folder_finding(r, 24, SB_LEVEL_error, UP));
    assert_null(folder_finding(r, 23, SB_LEVEL_error, UP));
    folder_result_free(r);
    folder_free(f);
    folder_free(original);
}

/* Quantizes the original times `column(k)` to 8 bits in the layout of GPTQ, groups of 32, zero 128.
 */
static void requantize_int8(folder *f, const folder *original, const char *module,
                            float (*column)(uint64_t k))
{
    char name[256];
    snprintf(name, sizeof name, "%s.qweight", module);
    folder_tensor *words = folder_find(f, name);
    snprintf(name, sizeof name, "%s.scales", module);
    folder_tensor *scales = folder_find(f, name);
    const uint64_t rows = words->shape[1], cols = 4 * words->shape[0];
    for (uint64_t i = 0; i < rows; i++)
        for (uint64_t group = 0; group < cols / 32; group++) {
            float largest = 0;
            for (uint64_t k = 32 * group; k < 32 * group + 32; k++) {
                const float w = weight_of(original, module, i * cols + k) * column(k);
                largest = w > largest ? w : -w > largest ? -w : largest;
            }
            folder_set(scales, group * rows + i, largest / 127);
            const float scale = folder_get(scales, group * rows + i);
            for (uint64_t k = 32 * group; k < 32 * group + 32; k++) {
                const float steps = weight_of(original, module, i * cols + k) * column(k) / scale;
                const int code = (int)(steps + 128.5f);
                words->bytes[(k / 4 * rows + i) * 4 + k % 4] =
                    (unsigned char)(code > 255 ? 255 : code);
            }
        }
}

/* Factors from 3 to 6, as SmoothQuant finds. */
static float three_to_six(uint64_t k)
{
    return 3 + (float)(k * 37 % 100) / 33;
}

static float three_to_six_apart(uint64_t k)
{
    return three_to_six(k) * (k % 2 ? 1.03f : 0.97f);
}

/* V-38: "A norm is stored less 1, and rounded" - divided by factors of 3 to 6 it is near -0.8,
 * where a step of BF16 is 2 % of 1 + n. */
TEST(test_smoothed_int8)
{
    static const char *const norm = "model.layers.1.post_attention_layernorm.weight";
    folder *f = folder_of("T3 int8-gptq recipe=plain"), *original = folder_of(BF16);
    declare(f, "SmoothQuantModifier");
    folder_tensor *t = folder_find(f, norm);
    for (uint64_t k = 0; k < folder_values(t); k++)
        folder_set(t, k, (1 + folder_get(t, k)) / three_to_six(k) - 1);
    requantize_int8(f, original, UP, three_to_six);
    folder_result *r = checked(f);
    assert_null(folder_finding(r, 38, SB_LEVEL_error, UP));
    folder_result_free(r);
    requantize_int8(f, original, UP, three_to_six_apart); /* more than the rounding of the norm */
    r = checked(f);
    assert_non_null(strstr(message_of(r, SB_LEVEL_error), "columns"));
    folder_result_free(r);
    folder_free(f);
    folder_free(original);
}

/* --- check 18 --------------------------------------------------------------------------------- */

/* V-18: "The largest block scale over the fused layers" - in every expert only the gate has the
 * full scale, and up has a block without a code of 7. These are searched scales, not four-over-six.
 */
TEST(test_partner)
{
    folder *f = folder_of("T3 nvfp4-ct recipe=plain");
    declare(f, "GPTQModifier");
    for (size_t i = 0; i < f->count; i++) {
        folder_tensor *t = f->tensors[i];
        if (!strstr(t->name, ".experts.") || !strstr(t->name, "up_proj.weight_scale"))
            continue;
        char codes[256], gate[256];
        snprintf(codes, sizeof codes, "%.*spacked", (int)(strlen(t->name) - 5), t->name);
        for (uint64_t b = 0; b < t->size; b++)
            t->bytes[b] = t->bytes[b] > 0x7b ? 0x7b : t->bytes[b];
        for (uint64_t k = 0; k < 16; k++) {
            unsigned code = folder_nibble(folder_find(f, codes), k);
            folder_set_nibble(folder_find(f, codes), k, (code & 7) == 7 ? code - 1 : code);
        }
        snprintf(gate, sizeof gate, "%.*sgate_proj.weight_scale",
                 (int)(strstr(t->name, "up_proj") - t->name), t->name);
        folder_find(f, gate)->bytes[3] = 0x7e;
    }
    folder_result *r = folder_check(f, NULL, NULL);
    expect_none(r, 18);
    folder_result_free(r);
    folder_tensor *scales[] = {
        folder_find(f, UP ".weight_scale"),
        folder_find(f, "model.layers.1.mlp.experts.1.gate_proj.weight_scale")};
    for (unsigned i = 0; i < 2; i++) /* half of the scale that the global scale is made for */
        for (uint64_t b = 0; b < scales[i]->size; b++)
            scales[i]->bytes[b] -= 8;
    r = folder_check(f, NULL, NULL);
    const sb_finding *finding = folder_finding(r, 18, SB_LEVEL_warn, NULL);
    assert_non_null(finding ? finding : folder_finding(r, 18, SB_LEVEL_error, NULL));
    folder_result_free(r);
    folder_free(f);
}
