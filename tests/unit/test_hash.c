/* test_hash.c - manifests and value hashes: equal for equal meaning, different for every planted
 * fault. */
#include "tests/lib/suite.h"
#include "tests/unit/nvfp4_folder.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/rng.h"
#include "ref/container/file.h"
#include "ref/container/writer.h"
#include "ref/formats/format.h"
#include "ref/formats/small_float.h"
#include "ref/math/law.h"
#include "tools/check/hash/manifest.h"
#include "tools/check/hash/nvfp4_table.h"
#include "tools/check/hash/values.h"

static const float divisor = 7392.0f, other_divisor = 10007.0f;

static sb_manifest manifest_of(const char *path, int values)
{
    sb_checkpoint *checkpoint = NULL;
    sb_manifest m = {0};
    sb_error err = {""};
    if (sb_checkpoint_open(path, &checkpoint, &err) ||
        sb_manifest_make(checkpoint, values, NULL, &m, &err))
        fail_msg("%s", err.text);
    sb_checkpoint_close(checkpoint);
    return m;
}

static const sb_manifest_value *value_of(const sb_manifest *m, const char *name)
{
    for (size_t i = 0; i < m->value_count; i++)
        if (strcmp(m->values[i].name, name) == 0)
            return &m->values[i];
    fail_msg("no value line for %s", name);
    return NULL;
}

/* The number of rows that differ; *first is the first one. */
static size_t differences(const sb_manifest *now, const sb_manifest *then, int by_values,
                          char *first)
{
    sb_differences d;
    assert_int_equal(sb_manifest_compare(now, then, by_values, &d, NULL), SB_OK);
    size_t n = d.count;
    first[0] = '\0';
    if (n)
        sprintf(first, "%s %.300s: %s", sb_difference_name(&d.rows[0]), d.rows[0].name,
                d.rows[0].what);
    free(d.rows);
    return n;
}

static void expect_same(const char *a, const char *b, int by_values)
{
    char first[512];
    sb_manifest x = manifest_of(a, 1), y = manifest_of(b, 1);
    if (differences(&x, &y, by_values, first))
        fail_msg("%s and %s: %s", a, b, first);
    assert_string_equal(x.meaning.hex, y.meaning.hex);
    sb_manifest_free(&x);
    sb_manifest_free(&y);
}

static void expect_difference(const char *a, const char *b, int by_values, const char *expected)
{
    char first[512];
    sb_manifest x = manifest_of(a, 1), y = manifest_of(b, 1);
    assert_true(differences(&x, &y, by_values, first) > 0);
    assert_string_equal(first, expected);
    sb_manifest_free(&x);
    sb_manifest_free(&y);
}

/* Two quantized layers, and tensors outside of them. */
static test_folder two_layers(nvfp4_dialect dialect, float factor, float input)
{
    test_folder f = nvfp4_folder(dialect);
    const uint64_t norm = 32;
    nvfp4_layer(&f, dialect, "model.layers.0.self_attn.q_proj", 6, 64, factor, input);
    nvfp4_layer(&f, dialect, "model.layers.0.mlp.experts.0.up_proj", 4, 32, factor, 0);
    nvfp4_plain(&f, "lm_head", 8, 32);
    nvfp4_bytes(&f, "model.norm.weight", SB_DTYPE_BF16, 1, &norm, "norm", 0);
    return f;
}

static const char *save(test_folder *f, const char *name)
{
    const char *path = test_folder_save(f, "test_hash", name);
    test_folder_free(f);
    return path;
}

/* D-5 written out by hand for a layer of 2 rows. */
TEST(test_definition)
{
    enum { ROWS = 2, COLS = 32 };
    unsigned char stream[5 + 16 + ROWS * (COLS / 2 + 8 * COLS / 16) + 4], *at = stream;
    test_folder f = nvfp4_folder(NVFP4_CT);
    nvfp4_layer(&f, NVFP4_CT, "a.b", ROWS, COLS, divisor, 0);
    const unsigned char *codes = test_folder_find(&f, "a.b.weight_packed")->bytes;
    const unsigned char *scales = test_folder_find(&f, "a.b.weight_scale")->bytes;
    memcpy(at, "e2m1", 5);
    sb_store_u64(at + 5, ROWS);
    sb_store_u64(at + 13, COLS);
    at += 21;
    for (unsigned row = 0; row < ROWS; row++) {
        memcpy(at, codes + row * COLS / 2, COLS / 2);
        at += COLS / 2;
        for (unsigned g = 0; g < COLS / 16; g++, at += 8) {
            sb_store_u32(at, 16 * g);
            sb_store_u32(at + 4, sb_bits_f32(sb_e4m3_to_f32(scales[row * (COLS / 16) + g])));
        }
    }
    sb_store_u32(at, sb_bits_f32(divisor));
    assert_int_equal(at + 4 - stream, sizeof stream);
    XXH128_canonical_t bytes;
    char hex[33];
    XXH128_canonicalFromHash(&bytes, XXH3_128bits(stream, sizeof stream));
    for (unsigned i = 0; i < 16; i++)
        sprintf(hex + 2 * i, "%02x", bytes.digest[i]);
    sb_manifest m = manifest_of(save(&f, "definition"), 1);
    assert_int_equal(m.value_count, 1);
    assert_string_equal(m.values[0].values.hex, hex);
    assert_string_equal(m.values[0].divisor, "45e70000");
    assert_string_equal(m.values[0].input, "-");
    sb_manifest_free(&m);
}

/* D-6 for an FP4 layer, whose values come from a table: row by row under law exact. */
TEST(test_exact_hash)
{
    enum { ROWS = 3, COLS = 48 };
    float values[ROWS * COLS];
    double wide[COLS];
    sb_checkpoint *checkpoint = NULL;
    sb_found found;
    test_folder f = nvfp4_folder(NVFP4_CT);
    nvfp4_layer(&f, NVFP4_CT, "a.b", ROWS, COLS, divisor, 0);
    const char *path = save(&f, "exact");
    assert_int_equal(sb_checkpoint_open(path, &checkpoint, NULL), SB_OK);
    assert_int_equal(sb_detect(checkpoint, "a.b", 0, 0, 0, &found, NULL), SB_OK);
    for (uint32_t row = 0; row < ROWS; row++)
        sb_law_row(&found.matrix, row, SB_LAW_exact, wide, values + row * COLS);
    sb_manifest m = manifest_of(path, 1);
    assert_string_equal(m.values[0].exact.hex, sb_digest_f32(values, ROWS * COLS).hex);
    sb_manifest_free(&m);
    sb_checkpoint_close(checkpoint);
}

/* ModelOpt's multiplier here is the reciprocal of a divisor, and exact. */
TEST(test_dialects_agree)
{
    test_folder ct = two_layers(NVFP4_CT, 8192, 256);
    test_folder modelopt = two_layers(NVFP4_MODELOPT, 1 / 8192.0f, 1 / 256.0f);
    const char *a = save(&ct, "ct"), *b = save(&modelopt, "modelopt");
    expect_same(a, b, 1);
    sb_manifest x = manifest_of(a, 1), y = manifest_of(b, 1);
    const char *layer = "model.layers.0.self_attn.q_proj";
    /* exact reciprocals give exactly the same values, too */
    assert_string_equal(value_of(&x, layer)->exact.hex, value_of(&y, layer)->exact.hex);
    assert_string_not_equal(x.checkpoint.hex, y.checkpoint.hex);
    sb_manifest_free(&x);
    sb_manifest_free(&y);
    /* inexact reciprocals do not: 1 / 10007 is rounded */
    ct = two_layers(NVFP4_CT,
                    sb_canonical_divisor((sb_factor){SB_MULTIPLIER, 1 / other_divisor}, 0), 256);
    modelopt = two_layers(NVFP4_MODELOPT, 1 / other_divisor, 1 / 256.0f);
    a = save(&ct, "ct-inexact");
    b = save(&modelopt, "modelopt-inexact");
    expect_same(a, b, 1);
    x = manifest_of(a, 1);
    y = manifest_of(b, 1);
    assert_string_not_equal(value_of(&x, layer)->exact.hex, value_of(&y, layer)->exact.hex);
    sb_manifest_free(&x);
    sb_manifest_free(&y);
}

TEST(test_faults_are_seen)
{
    static const struct {
        const char *tensor;
        unsigned byte;
        unsigned char flip;
        const char *storage, *meaning;
    } faults[] = {
        {"model.layers.0.self_attn.q_proj.weight_packed", 77, 0x10,
         "differs model.layers.0.self_attn.q_proj.weight_packed: bytes",
         "differs model.layers.0.self_attn.q_proj: values"},
        {"model.layers.0.self_attn.q_proj.weight_scale", 23, 0x01,
         "differs model.layers.0.self_attn.q_proj.weight_scale: bytes",
         "differs model.layers.0.self_attn.q_proj: values"},
        {"model.layers.0.self_attn.q_proj.weight_scale", 0, 0x80,
         "differs model.layers.0.self_attn.q_proj.weight_scale: bytes",
         "differs model.layers.0.self_attn.q_proj: values"},
        {"model.layers.0.mlp.experts.0.up_proj.weight_global_scale", 0, 0x01,
         "differs model.layers.0.mlp.experts.0.up_proj.weight_global_scale: bytes",
         "differs model.layers.0.mlp.experts.0.up_proj: divisor"},
        {"model.layers.0.self_attn.q_proj.input_global_scale", 1, 0x01,
         "differs model.layers.0.self_attn.q_proj.input_global_scale: bytes",
         "differs model.layers.0.self_attn.q_proj: divisor of the inputs"},
        {"lm_head.weight", 5, 0x40, "differs lm_head.weight: bytes", "differs lm_head: values"},
        {"model.norm.weight", 63, 0x02, "differs model.norm.weight: bytes",
         "differs model.norm.weight: bytes"},
    };
    test_folder f = two_layers(NVFP4_CT, divisor, 256);
    const char *sound = save(&f, "sound");
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        f = two_layers(NVFP4_CT, divisor, 256);
        test_folder_find(&f, faults[i].tensor)->bytes[faults[i].byte] ^= faults[i].flip;
        const char *path = save(&f, "fault");
        expect_difference(path, sound, 0, faults[i].storage);
        expect_difference(path, sound, 1, faults[i].meaning);
    }
    f = two_layers(NVFP4_CT, divisor, 256);
    test_folder_remove(&f, "model.norm.weight");
    const char *less = save(&f, "less");
    expect_difference(less, sound, 0, "missing model.norm.weight: tensor");
    expect_difference(sound, less, 0, "extra model.norm.weight: tensor");
    /* a multiplier where a divisor is expected, in both dialects */
    f = two_layers(NVFP4_CT, 1 / divisor, 256);
    expect_difference(save(&f, "swapped"), sound, 1,
                      "differs model.layers.0.mlp.experts.0.up_proj: divisor");
    f = two_layers(NVFP4_MODELOPT, divisor, 1 / 256.0f);
    expect_difference(save(&f, "swapped"), sound, 1,
                      "differs model.layers.0.mlp.experts.0.up_proj: divisor");
}

/* --- stacks ----------------------------------------------------------------------------------- */

enum { E = 3, I = 4, H = 32 };

static float factor_of(uint32_t e)
{
    return 0.0001f * (float)(e + 1);
}

/* The experts of one layer, one by one, or stacked under names with `joint` after the name of the
 * stack. */
static test_folder experts(int stacked, char joint)
{
    test_folder f = nvfp4_folder(NVFP4_MODELOPT);
    static const char base[] = "model.layers.1.mlp.experts";
    const float factors[E] = {factor_of(0), factor_of(1), factor_of(2)};
    char name[256];
    const uint64_t codes[3] = {E, 2 * I, H / 2}, scales[3] = {E, 2 * I, H / 16};
    if (stacked) {
        snprintf(name, sizeof name, joint == '.' ? "%s.gate_up_proj.weight" : "%s.gate_up_proj",
                 base);
        nvfp4_bytes(&f, name, SB_DTYPE_U8, 3, codes, "codes", 0);
        snprintf(name, sizeof name, "%s.gate_up_proj%cweight_scale", base, joint);
        nvfp4_bytes(&f, name, SB_DTYPE_F8_E4M3, 3, scales, "scales", 0);
        snprintf(name, sizeof name, "%s.gate_up_proj%cweight_scale_2", base, joint);
        nvfp4_numbers(&f, name, 1, E, factors);
        return f;
    }
    for (uint32_t e = 0; e < E; e++)
        for (uint32_t up = 0; up < 2; up++) {
            static const char *const parts[] = {"gate_proj", "up_proj"};
            uint64_t first = (2 * e + up) * I;
            const uint64_t c[2] = {I, H / 2}, s[2] = {I, H / 16};
            snprintf(name, sizeof name, "%s.%u.%s.weight", base, (unsigned)e, parts[up]);
            nvfp4_bytes(&f, name, SB_DTYPE_U8, 2, c, "codes", first * H / 2);
            snprintf(name, sizeof name, "%s.%u.%s.weight_scale", base, (unsigned)e, parts[up]);
            nvfp4_bytes(&f, name, SB_DTYPE_F8_E4M3, 2, s, "scales", first * H / 16);
            snprintf(name, sizeof name, "%s.%u.%s.weight_scale_2", base, (unsigned)e, parts[up]);
            nvfp4_numbers(&f, name, 0, 1, &factors[e]);
        }
    return f;
}

TEST(test_stacks_agree_with_experts)
{
    test_folder f = experts(0, '.');
    const char *split = save(&f, "split");
    f = experts(1, '_');
    expect_same(save(&f, "stacked"), split, 1);
    f = experts(1, '.');
    const char *dotted = save(&f, "stacked-dotted");
    expect_same(dotted, split, 1);
    sb_manifest m = manifest_of(dotted, 1);
    assert_int_equal(m.value_count, 2 * E);
    assert_string_equal(value_of(&m, "model.layers.1.mlp.experts.2.up_proj")->container,
                        "nvfp4-modelopt");
    sb_manifest_free(&m);
    /* gate and up swapped */
    f = experts(1, '_');
    unsigned char *codes = test_folder_find(&f, "model.layers.1.mlp.experts.gate_up_proj")->bytes;
    for (unsigned i = 0; i < I * H / 2; i++) {
        unsigned char c = codes[i];
        codes[i] = codes[I * H / 2 + i];
        codes[I * H / 2 + i] = c;
    }
    expect_difference(save(&f, "stacked"), split, 1,
                      "differs model.layers.1.mlp.experts.0.gate_proj: values");
}

/* --- integers --------------------------------------------------------------------------------- */

enum { N = 8, K = 32, GROUP = 16, G = K / GROUP };

static unsigned code_of(unsigned n, unsigned k)
{
    return (unsigned)sb_rng_below(sb_rng_key(1, "codes"), n * K + k, 16);
}

static unsigned zero_of(unsigned n, unsigned g)
{
    return 1 + (unsigned)sb_rng_below(sb_rng_key(1, "zeros"), n * G + g, 15);
}

static float scale_of(unsigned n, unsigned g)
{
    return (float)(1 + n + 8 * g) / 64; /* exact in F16, BF16 and F32 */
}

static void put_nibble(test_tensor *t, uint64_t word, unsigned nibble, unsigned value)
{
    uint32_t bits = sb_load_u32(t->bytes + 4 * word);
    sb_store_u32(t->bytes + 4 * word, bits | (uint32_t)value << 4 * nibble);
}

/* The same weights in one packing: 1 GPTQ v1, 2 GPTQ v2 with a trivial g_idx, 3 AWQ, 4
 * compressed-tensors. sym: all zero points are 8. */
static const char *packed(int packing, int sym, const char *name)
{
    static const unsigned place[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    test_folder f = nvfp4_folder(NVFP4_CT);
    const uint64_t gptq[2] = {K / 8, N}, awq[2] = {K, N / 8}, zeros[2] = {G, N / 8},
                   scales[2] = {G, N}, ct[2] = {N, K / 8}, ct_zeros[2] = {N / 8, G},
                   ct_scales[2] = {N, G}, two = 2, index = K;
    test_tensor *t =
        test_folder_add(&f, packing == 4 ? "a.weight_packed" : "a.qweight", SB_DTYPE_I32, 2,
                        packing == 4   ? ct
                        : packing == 3 ? awq
                                       : gptq);
    for (unsigned n = 0; n < N; n++)
        for (unsigned k = 0; k < K; k++)
            put_nibble(t,
                       packing == 4   ? n * (K / 8) + k / 8
                       : packing == 3 ? k * (N / 8) + n / 8
                                      : k / 8 * N + n,
                       packing == 3 ? place[n % 8] : k % 8, code_of(n, k));
    if (packing != 4 || !sym) {
        t = test_folder_add(&f, packing == 4 ? "a.weight_zero_point" : "a.qzeros", SB_DTYPE_I32, 2,
                            packing == 4 ? ct_zeros : zeros);
        for (unsigned n = 0; n < N; n++)
            for (unsigned g = 0; g < G; g++)
                put_nibble(t, packing == 4 ? n / 8 * G + g : g * (N / 8) + n / 8,
                           packing == 3 ? place[n % 8] : n % 8,
                           (sym ? 8 : zero_of(n, g)) - (packing == 1));
    }
    t = test_folder_add(&f, packing == 4 ? "a.weight_scale" : "a.scales",
                        packing == 4 ? SB_DTYPE_F32 : SB_DTYPE_F16, 2,
                        packing == 4 ? ct_scales : scales);
    for (unsigned n = 0; n < N; n++)
        for (unsigned g = 0; g < G; g++) {
            float s = scale_of(n, g);
            if (packing == 4)
                sb_store_u32(t->bytes + 4 * (n * G + g), sb_bits_f32(s));
            else
                sb_store_u16(t->bytes + 2 * (g * N + n), sb_f32_to_f16(s));
        }
    if (packing == 4) {
        t = test_folder_add(&f, "a.weight_shape", SB_DTYPE_I64, 1, &two);
        sb_store_u64(t->bytes, N);
        sb_store_u64(t->bytes + 8, K);
    }
    if (packing == 2) {
        t = test_folder_add(&f, "a.g_idx", SB_DTYPE_I32, 1, &index);
        for (uint32_t k = 0; k < K; k++)
            sb_store_u32(t->bytes + 4 * k, k / GROUP);
    }
    return save(&f, name);
}

/* Only with zero points of 8 does a GPTQ file show whether it is v1 or v2. So this case can compare
 * both conventions. */
TEST(test_integer_packings_agree)
{
    const char *v1 = packed(1, 1, "gptq-v1");
    expect_same(packed(2, 1, "gptq-v2"), v1, 1);
    expect_same(packed(3, 1, "awq"), v1, 1);
    expect_same(packed(4, 1, "int-ct"), v1, 1);
    const char *asym = packed(1, 0, "gptq-asym");
    expect_same(packed(3, 0, "awq-asym"), asym, 1);
    expect_same(packed(4, 0, "int-ct-asym"), asym, 1);
    expect_difference(asym, v1, 1, "differs a: values");
    sb_manifest m = manifest_of(v1, 1);
    assert_string_equal(m.values[0].container, "int-gptq");
    sb_manifest_free(&m);
}

/* --- exact values ----------------------------------------------------------------------------- */

static void compare_rows(const sb_matrix *m, const char *what)
{
    double wide[64];
    float quick[64], slow[64];
    assert_true(m->cols <= 64);
    for (uint32_t row = 0; row < m->rows; row++) {
        sb_exact_values(m, row, wide, quick);
        sb_law_row(m, row, SB_LAW_exact, wide, slow);
        for (uint32_t k = 0; k < m->cols; k++)
            if (sb_bits_f32(quick[k]) != sb_bits_f32(slow[k]))
                fail_msg("%s, row %u, column %u: 0x%08x, law exact has 0x%08x", what, row, k,
                         (unsigned)sb_bits_f32(quick[k]), (unsigned)sb_bits_f32(slow[k]));
    }
}

/* All 256 codes of E4M3 under scales that overflow, underflow or are NaN. */
TEST(test_exact_values_are_those_of_the_law)
{
    static const uint32_t scales[] = {0x3f800000u, 0x00000001u, 0x00800001u, 0x7f000000u,
                                      0x7f800000u, 0x7fc00000u, 0x80000000u, 0x3eaaaaabu};
    unsigned char codes[256], bytes[4];
    for (unsigned i = 0; i < 256; i++)
        codes[i] = (unsigned char)i;
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
        sb_store_u32(bytes, scales[i]);
        sb_matrix m = {.data = codes, .format = SB_FORMAT_e4m3, .rows = 4, .cols = 64};
        m.quant = (sb_quant){.scales = bytes,
                             .scale_format = SB_FORMAT_f32,
                             .block_rows = 4,
                             .block_cols = 64,
                             .groups = 1,
                             .stored_rows = 4};
        compare_rows(&m, "e4m3");
        m.format = SB_FORMAT_int8;
        compare_rows(&m, "int8");
    }
}

TEST(test_tables_are_those_of_the_law)
{
    unsigned char codes[3][16], scales[3][2];
    for (unsigned i = 0; i < sizeof codes; i++)
        codes[i / 16][i % 16] = (unsigned char)sb_rng_u64(sb_rng_key(3, "codes"), i);
    for (unsigned i = 0; i < sizeof scales; i++)
        scales[i / 2][i % 2] = (unsigned char)sb_rng_u64(sb_rng_key(3, "scales"), i);
    scales[1][1] = 0x7f;
    sb_matrix m = {.data = codes[0], .format = SB_FORMAT_e2m1, .rows = 3, .cols = 32};
    m.quant = (sb_quant){.scales = scales[0],
                         .scale_format = SB_FORMAT_e4m3,
                         .block_rows = 1,
                         .block_cols = 16,
                         .scale_row = 2,
                         .scale_col = 1,
                         .groups = 2,
                         .stored_rows = 3,
                         .factor = {SB_DIVISOR, divisor}};
    assert_true(sb_fp4_table_fits(&m));
    for (unsigned law = 0; law < SB_LAW_COUNT; law++) {
        static sb_fp4_table table;
        sb_fp4_table_make(&m, (sb_law)law, &table);
        for (uint32_t row = 0; row < 3; row++) {
            double wide[32];
            float values[32];
            sb_law_row(&m, row, (sb_law)law, wide, values);
            for (uint32_t k = 0; k < 32; k++) {
                unsigned code = codes[row][k / 2] >> 4 * (k % 2) & 15;
                assert_int_equal(sb_bits_f32(table.value[scales[row][k / 16]][code]),
                                 sb_bits_f32(values[k]));
            }
        }
    }
}

/* --- manifests -------------------------------------------------------------------------------- */

static void write_file(const char *path, const char *text)
{
    assert_int_equal(sb_write_file(path, text, strlen(text), NULL), SB_OK);
}

static char *text_of(const sb_manifest *m)
{
    char *text = NULL;
    size_t n;
    FILE *out = open_memstream(&text, &n);
    assert_non_null(out);
    sb_manifest_print(m, out);
    fclose(out);
    return text;
}

static void expect_refused(const char *path, const char *text, const char *words)
{
    sb_manifest m = {0};
    sb_error err = {""};
    write_file(path, text);
    assert_int_equal(sb_manifest_load(path, &m, &err), SB_ERR_INPUT);
    if (!strstr(err.text, words))
        fail_msg("%s\nlacks: %s", err.text, words);
}

TEST(test_manifest_comes_back)
{
    char first[512];
    test_folder f = two_layers(NVFP4_CT, divisor, 256);
    nvfp4_plain(&f, "a \\ b", 2, 2);
    sb_manifest m = manifest_of(save(&f, "manifest"), 1), back;
    const char *path = test_path("test_hash", "manifest.txt");
    char *text = text_of(&m);
    write_file(path, text);
    assert_int_equal(sb_manifest_load(path, &back, NULL), SB_OK);
    assert_int_equal(differences(&m, &back, 0, first), 0);
    assert_int_equal(differences(&m, &back, 1, first), 0);
    assert_string_equal(m.checkpoint.hex, back.checkpoint.hex);
    sb_manifest_free(&back);
    json_t *document = sb_manifest_json(&m, json_object());
    char *json = json_dumps(document, 0);
    json_decref(document);
    write_file(path, json);
    assert_int_equal(sb_manifest_load(path, &back, NULL), SB_OK);
    assert_int_equal(differences(&m, &back, 0, first) + differences(&m, &back, 1, first), 0);
    sb_manifest_free(&back);
    /* a digit of a digest, a missing line, a missing end, a missing newline, no manifest */
    char *bad = strdup(text), *digit = strstr(bad, "tensor ") + 9;
    *digit = *digit == '0' ? '1' : '0';
    expect_refused(path, bad, "the file was changed");
    expect_refused(path, bad, "the digest of its tensors");
    strcpy(bad, text);
    digit = strstr(bad, "\nvalue ") + 9;
    *digit = *digit == '0' ? '1' : '0';
    expect_refused(path, bad, "the digest of its values");
    strcpy(bad, text);
    char *line = strstr(bad, "\ntensor "), *next = strchr(line + 1, '\n');
    memmove(line, next, strlen(next) + 1);
    expect_refused(path, bad, "the file was changed");
    strcpy(bad, text);
    *strstr(bad, "checkpoint ") = '\0';
    expect_refused(path, bad, "truncated");
    strcpy(bad, text);
    bad[strlen(bad) - 1] = '\0';
    expect_refused(path, bad, "truncated");
    digit = strstr(json, "\"digest\": \"") + 12;
    *digit = *digit == '0' ? '1' : '0';
    expect_refused(path, json, "the file was changed");
    strstr(json, "\"exact\": \"")[12] = 'x';
    expect_refused(path, json, "exact is \"");
    expect_refused(path, "", "truncated");
    expect_refused(path, "hello\n", "samebit-manifest 1");
    expect_refused(path, "{\"tensors\": 1}", "tensors");
    expect_refused(path, "samebit-manifest 1\ntensor 00 BF16 [1] a\n", "of a tensor");
    (void)remove(path);
    free(bad);
    free(json);
    free(text);
    sb_manifest_free(&m);
}

/* The digest of the manifest equals that of golden files, and does not depend on shards. */
TEST(test_shards_do_not_matter)
{
    const char *one = test_checkpoint_with(
        "test_hash", &(sb_make_options){.dir = "one", .preset = "T4", .shard_bytes = 1u << 30});
    const char *many = test_checkpoint_with(
        "test_hash", &(sb_make_options){.dir = "many", .preset = "T4", .shard_bytes = 50000});
    sb_checkpoint *checkpoint = NULL;
    sb_digest digest;
    sb_manifest a = manifest_of(one, 0), b = manifest_of(many, 0);
    char first[512];
    assert_int_equal(differences(&a, &b, 0, first), 0);
    assert_int_equal(sb_checkpoint_open(many, &checkpoint, NULL), SB_OK);
    assert_true(sb_checkpoint_shards(checkpoint) > 2);
    assert_int_equal(sb_checkpoint_digest(checkpoint, &digest, NULL), SB_OK);
    assert_string_equal(digest.hex, a.checkpoint.hex);
    assert_string_equal(digest.hex, b.checkpoint.hex);
    sb_checkpoint_close(checkpoint);
    sb_manifest_free(&a);
    sb_manifest_free(&b);
    test_folder f = test_folder_load(one);
    test_folder_find(&f, "model.norm.weight")->bytes[0] ^= 1;
    const char *changed = save(&f, "changed");
    expect_difference(changed, many, 0, "differs model.norm.weight: bytes");
}
