/* test_convert.c - conversion between the dialects and back: the same bytes, or a refusal without
 * loss. */
#include "tests/lib/suite.h"
#include "tests/unit/nvfp4_folder.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ref/base/bytes.h"
#include "ref/container/file.h"
#include "ref/container/writer.h"
#include "ref/model/declared.h"
#include "ref/model/layers.h"
#include "tools/check/convert/convert.h"
#include "tools/check/hash/manifest.h"

#define Q "model.layers.0.self_attn.q_proj"

static const char *path_of(const char *name)
{
    return test_path("test_convert", name);
}

static const char *save(test_folder *f, const char *name)
{
    const char *path = test_folder_save(f, "test_convert", name);
    test_folder_free(f);
    return path;
}

static sb_conversion convert(const char *from, const char *to, const char *dialect)
{
    sb_conversion c;
    sb_error err = {""};
    sb_convert_options o = {.source = from, .target = to, .to = dialect, .replace = 1};
    if (sb_convert(&o, &c, &err))
        fail_msg("%s", err.text);
    return c;
}

static void refuse(const char *from, const char *to, const char *dialect, int replace,
                   sb_status expected, const char *words)
{
    sb_conversion c;
    sb_error err = {""};
    sb_convert_options o = {.source = from, .target = to, .to = dialect, .replace = replace};
    char partial[1200];
    struct stat info;
    sb_status status = sb_convert(&o, &c, &err);
    if (status != expected || !strstr(err.text, words))
        fail_msg("status %d: %s\nexpected %d: %s", (int)status, err.text, (int)expected, words);
    snprintf(partial, sizeof partial, "%s.partial", to);
    assert_int_not_equal(lstat(partial, &info), 0);
}

static sb_manifest manifest_of(const char *path)
{
    sb_checkpoint *checkpoint = NULL;
    sb_manifest m = {0};
    sb_error err = {""};
    if (sb_checkpoint_open(path, &checkpoint, &err) ||
        sb_manifest_make(checkpoint, 1, NULL, &m, &err))
        fail_msg("%s", err.text);
    sb_checkpoint_close(checkpoint);
    return m;
}

/* by_values: the folders have the same meaning; else the same tensors, byte for byte. */
static void expect_same(const char *a, const char *b, int by_values)
{
    sb_manifest x = manifest_of(a), y = manifest_of(b);
    sb_differences d;
    assert_int_equal(sb_manifest_compare(&x, &y, by_values, &d, NULL), SB_OK);
    if (d.count)
        fail_msg("%s and %s: %zu, first %s: %s", a, b, d.count, d.rows[0].name, d.rows[0].what);
    if (by_values)
        assert_string_equal(x.meaning.hex, y.meaning.hex);
    else
        assert_string_equal(x.checkpoint.hex, y.checkpoint.hex);
    free(d.rows);
    sb_manifest_free(&x);
    sb_manifest_free(&y);
}

static int files_equal(const char *a, const char *b, const char *name)
{
    unsigned char *x = NULL, *y = NULL;
    size_t n = 0, m = 0;
    char *path = sb_path_join(a, name), *other = sb_path_join(b, name);
    assert_int_equal(sb_read_file(path, 1 << 24, &x, &n, NULL), SB_OK);
    assert_int_equal(sb_read_file(other, 1 << 24, &y, &m, NULL), SB_OK);
    int equal = n == m && memcmp(x, y, n) == 0;
    free(x);
    free(y);
    free(path);
    free(other);
    return equal;
}

static void put_file(const char *folder, const char *name, const char *text)
{
    char *path = sb_path_join(folder, name);
    assert_int_equal(sb_write_file(path, text, strlen(text), NULL), SB_OK);
    free(path);
}

static int has_file(const char *folder, const char *name)
{
    struct stat info;
    char *path = sb_path_join(folder, name);
    int there = lstat(path, &info) == 0;
    free(path);
    return there;
}

/* RN(1 / RN(1 / x)) differs from x for most of these, also after division by 2^24. */
static const float awkward[] = {7003.0f, 7009.0f, 7043.0f, 7392.0f, 0.1f};

static test_folder some_layers(nvfp4_dialect dialect)
{
    test_folder f = nvfp4_folder(dialect);
    const uint64_t norm = 32;
    for (unsigned i = 0; i < 5; i++) {
        char name[128];
        snprintf(name, sizeof name, "model.layers.0.mlp.experts.%u.up_proj", i);
        float x = dialect == NVFP4_CT ? awkward[i] : awkward[i] / 16777216;
        nvfp4_layer(&f, dialect, name, 4, 32, x, i % 2 ? x : 2 * x);
    }
    nvfp4_layer(&f, dialect, Q, 6, 64, dialect == NVFP4_CT ? 8192.0f : 1 / 8192.0f, 0);
    nvfp4_plain(&f, "lm_head", 8, 32);
    nvfp4_plain(&f, "mtp.fc", 4, 8);
    nvfp4_bytes(&f, "model.norm.weight", SB_DTYPE_BF16, 1, &norm, "norm", 0);
    return f;
}

static void both_ways(nvfp4_dialect dialect)
{
    const char *there = dialect == NVFP4_CT ? "nvfp4-modelopt" : "nvfp4-ct";
    const char *back = dialect == NVFP4_CT ? "nvfp4-ct" : "nvfp4-modelopt";
    test_folder f = some_layers(dialect);
    const char *a = save(&f, "a"), *b = path_of("b"), *c = path_of("c"), *d = path_of("d");
    put_file(a, "tokenizer.json", "{}");
    sb_conversion first = convert(a, b, there);
    assert_int_equal(first.layers, 6);
    assert_int_equal(first.copied, 3);
    assert_int_equal(first.files, 1);
    assert_int_equal(first.scalar_count, 3); /* two kinds of weights, one of inputs */
    assert_string_equal(first.scalars[0].kind, "mlp.experts.up_proj");
    assert_int_equal(first.scalars[0].of_inputs, 0);
    assert_int_equal(first.scalars[0].count, 5);
    assert_int_equal(first.scalars[0].restored, 0);
    assert_int_equal(first.scalars[0].exact, 0);
    assert_true(first.scalars[0].largest > 1e-9 && first.scalars[0].largest < 1.2e-7);
    assert_int_equal(first.scalars[2].exact, 1); /* 8192 */
    uint64_t lost = first.scalars[0].lost + first.scalars[1].lost;
    assert_true(lost >= 3); /* else the test would show nothing about origins */
    sb_conversion second = convert(b, c, back);
    assert_int_equal(second.scalars[0].restored, 5);
    assert_int_equal(second.scalars[0].lost, 0);
    expect_same(a, b, 1);
    expect_same(a, c, 0);
    assert_true(files_equal(a, c, "model.safetensors"));
    assert_true(has_file(b, "tokenizer.json") && has_file(c, "tokenizer.json"));
    assert_true(has_file(dialect == NVFP4_CT ? b : c, "hf_quant_config.json"));
    assert_false(has_file(dialect == NVFP4_CT ? c : b, "hf_quant_config.json"));
    sb_conversion third = convert(c, d, there); /* replaces an existing folder, too */
    assert_true(files_equal(b, d, "model.safetensors"));
    assert_true(files_equal(b, d, "config.json"));
    sb_conversion_free(&first);
    sb_conversion_free(&second);
    sb_conversion_free(&third);
}

TEST(test_there_and_back)
{
    both_ways(NVFP4_CT);
    both_ways(NVFP4_MODELOPT);
}

/* The converted numbers themselves, compared with reciprocals taken here. */
TEST(test_direction)
{
    test_folder f = some_layers(NVFP4_CT);
    const char *a = save(&f, "direction"), *b = path_of("direction-b");
    sb_conversion c = convert(a, b, "nvfp4-modelopt");
    f = test_folder_load(b);
    for (unsigned i = 0; i < 5; i++) {
        char name[128];
        snprintf(name, sizeof name, "model.layers.0.mlp.experts.%u.up_proj.weight_scale_2", i);
        assert_true(nvfp4_number_of(&f, name) == 1.0f / awkward[i]);
        assert_int_equal(test_folder_find(&f, name)->rank, 0);
    }
    const char *input = "model.layers.0.mlp.experts.0.up_proj.input_scale";
    assert_true(nvfp4_number_of(&f, input) == 1.0f / (2 * awkward[0]));
    test_folder_free(&f);
    sb_conversion_free(&c);
}

/* A reader of the result gets the original number, in both directions. */
TEST(test_detect_offers_the_origin)
{
    for (unsigned d = 0; d < 2; d++) {
        sb_checkpoint *checkpoint = NULL;
        sb_found found;
        test_folder f = nvfp4_folder(d ? NVFP4_MODELOPT : NVFP4_CT);
        nvfp4_layer(&f, d ? NVFP4_MODELOPT : NVFP4_CT, Q, 4, 32, d ? 0.0003f : 7003.0f, 0);
        const char *a = save(&f, "offer"), *b = path_of("offer-b");
        sb_conversion c = convert(a, b, d ? "nvfp4-ct" : "nvfp4-modelopt");
        sb_conversion_free(&c);
        assert_int_equal(sb_checkpoint_open(a, &checkpoint, NULL), SB_OK);
        assert_int_equal(sb_detect(checkpoint, Q, 0, 0, 0, &found, NULL), SB_OK);
        assert_true(found.matrix.quant.origin == 0);
        sb_checkpoint_close(checkpoint);
        assert_int_equal(sb_checkpoint_open(b, &checkpoint, NULL), SB_OK);
        assert_int_equal(sb_detect(checkpoint, Q, 0, 0, 0, &found, NULL), SB_OK);
        assert_true(found.matrix.quant.origin == (d ? 0.0003f : 7003.0f));
        assert_true(found.matrix.quant.factor.value == 1.0f / found.matrix.quant.origin);
        sb_checkpoint_close(checkpoint);
    }
}

/* A quantized MTP head: no rule of the engines covers it, but the conversion accepts it. */
TEST(test_quantized_mtp)
{
    test_folder f = some_layers(NVFP4_CT);
    nvfp4_layer(&f, NVFP4_CT, "mtp.layers.0.self_attn.q_proj", 4, 32, 7003.0f, 5.0f);
    const char *a = save(&f, "mtp"), *b = path_of("mtp-b"), *c = path_of("mtp-c");
    sb_conversion there = convert(a, b, "nvfp4-modelopt"), back = convert(b, c, "nvfp4-ct");
    assert_int_equal(there.layers, 7);
    expect_same(a, b, 1);
    expect_same(a, c, 0);
    sb_conversion_free(&there);
    sb_conversion_free(&back);
}

/* Storage that the rules alone would not restore: other shapes, BF16, a stack with its own
 * names. */
TEST(test_unusual_storage_comes_back)
{
    const float one = 0.25f, factors[3] = {0.0001f, 0.0003f, 0.007f};
    const uint64_t codes[3] = {3, 8, 16}, scales[3] = {3, 8, 2}, none = 1;
    test_folder f = nvfp4_folder(NVFP4_MODELOPT);
    nvfp4_layer(&f, NVFP4_MODELOPT, Q, 4, 32, 0.0001f, 0);
    test_folder_remove(&f, Q ".weight_scale_2");
    nvfp4_numbers(&f, Q ".weight_scale_2", 2, 1, &one); /* [1, 1] */
    nvfp4_layer(&f, NVFP4_MODELOPT, "model.layers.0.self_attn.o_proj", 4, 32, 1, 0);
    test_folder_remove(&f, "model.layers.0.self_attn.o_proj.weight_scale_2");
    test_tensor *t = test_folder_add(&f, "model.layers.0.self_attn.o_proj.weight_scale_2",
                                     SB_DTYPE_BF16, 1, &none);
    sb_store_u16(t->bytes, 0x390d);
    static const char stack[] = "model.layers.0.mlp.experts.gate_up_proj";
    char name[128];
    nvfp4_bytes(&f, stack, SB_DTYPE_U8, 3, codes, "stack", 0);
    snprintf(name, sizeof name, "%s_scale", stack);
    nvfp4_bytes(&f, name, SB_DTYPE_F8_E4M3, 3, scales, "stack scales", 0);
    snprintf(name, sizeof name, "%s_scale_2", stack);
    nvfp4_numbers(&f, name, 1, 3, factors);
    snprintf(name, sizeof name, "%s_input_scale", stack);
    nvfp4_numbers(&f, name, 0, 1, factors);
    const char *a = save(&f, "unusual"), *b = path_of("unusual-b"), *c = path_of("unusual-c");
    sb_conversion there = convert(a, b, "nvfp4-ct"), back = convert(b, c, "nvfp4-modelopt");
    expect_same(a, b, 1);
    expect_same(a, c, 0);
    assert_true(files_equal(a, c, "model.safetensors"));
    f = test_folder_load(b);
    snprintf(name, sizeof name, "%s_weight_global_scale", stack);
    assert_int_equal(test_folder_find(&f, name)->shape[0], 3);
    assert_int_equal(test_folder_find(&f, Q ".weight_global_scale")->rank, 1);
    test_folder_free(&f);
    sb_conversion_free(&there);
    sb_conversion_free(&back);
}

/* --- a mixed checkpoint ----------------------------------------------------------------------- */

static const char mixed_config[] =
    "{\"quantization_config\": {\"quant_method\": \"modelopt\", \"quant_algo\": "
    "\"MIXED_PRECISION\", \"kv_cache_scheme\": {\"num_bits\": 8, \"type\": \"float\", \"dynamic\": "
    "false}, \"quantized_layers\": {\"model.layers.0.mlp.experts\": {\"quant_algo\": "
    "\"W4A16_NVFP4\", \"group_size\": 16}, \"" Q "\": {\"quant_algo\": \"FP8\"}}}}";

static test_folder mixed(int input)
{
    test_folder f = nvfp4_folder(NVFP4_MODELOPT);
    const uint64_t shape[2] = {16, 32};
    const float scale = 0.0123f;
    free(f.config);
    f.config = strdup(mixed_config);
    nvfp4_bytes(&f, Q ".weight", SB_DTYPE_F8_E4M3, 2, shape, "fp8", 0);
    nvfp4_numbers(&f, Q ".weight_scale", 0, 1, &scale);
    if (input)
        nvfp4_numbers(&f, Q ".input_scale", 0, 1, &scale);
    nvfp4_layer(&f, NVFP4_MODELOPT, "model.layers.0.mlp.experts.0.up_proj", 4, 32, 0.0001f, 0.01f);
    nvfp4_layer(&f, NVFP4_MODELOPT, "model.layers.0.mlp.experts.1.up_proj", 4, 32, 0.0002f, 0.01f);
    nvfp4_plain(&f, "lm_head", 8, 32);
    return f;
}

TEST(test_mixed)
{
    test_folder f = mixed(1);
    const char *a = save(&f, "mixed"), *b = path_of("mixed-b"), *c = path_of("mixed-c");
    sb_conversion there = convert(a, b, "nvfp4-ct"), back = convert(b, c, "nvfp4-modelopt");
    assert_int_equal(there.layers, 2);
    assert_int_equal(there.fp8_layers, 1);
    expect_same(a, b, 1);
    expect_same(a, c, 0);
    f = test_folder_load(b);
    assert_int_equal(test_folder_find(&f, Q ".weight_scale")->rank, 1);
    assert_int_equal(test_folder_find(&f, Q ".input_scale")->rank, 1);
    test_folder_free(&f);
    sb_declared *declared = NULL;
    sb_declaration said;
    assert_int_equal(sb_declared_load(b, &declared, NULL), SB_OK);
    assert_int_equal(sb_declared_kv_cache(declared), SB_KV_FP8);
    assert_int_equal(sb_declared_for(declared, Q, &said, NULL), SB_OK);
    assert_int_equal(said.family, SB_FAMILY_FP8);
    assert_int_equal(said.activation, SB_ACTIVATION_STATIC_TENSOR);
    assert_int_equal(sb_declared_for(declared, "model.layers.0.mlp.experts.1.up_proj", &said, NULL),
                     SB_OK);
    assert_int_equal(said.family, SB_FAMILY_NVFP4);
    assert_int_equal(said.activation, SB_ACTIVATION_NONE); /* in spite of its input scale */
    assert_int_equal(sb_declared_for(declared, "lm_head", &said, NULL), SB_OK);
    assert_int_not_equal(said.answer, SB_DECLARED_YES);
    sb_declared_free(declared);
    sb_conversion_free(&there);
    sb_conversion_free(&back);
}

/* --- shards and metadata ---------------------------------------------------------------------- */

static sb_status fill(void *ctx, const sb_tensor *tensor, uint64_t first_byte, unsigned char *bytes,
                      size_t count, sb_error *err)
{
    (void)err;
    memcpy(bytes, test_folder_find(ctx, tensor->name)->bytes + first_byte, count);
    return SB_OK;
}

/* Writes a folder in shards of a few tensors, with metadata in the second shard. */
static const char *save_sharded(test_folder *f, const char *name)
{
    const char *path = path_of(name);
    sb_writer *w = NULL;
    assert_int_equal(sb_writer_new(path, 0, SB_WRITER_REPLACE, &w, NULL), SB_OK);
    for (size_t i = 0; i < f->count; i++) {
        test_tensor *t = &f->tensors[i];
        if (i % 7 == 0)
            assert_int_equal(sb_writer_cut(w, NULL), SB_OK);
        assert_int_equal(sb_writer_add(w, t->name, t->dtype, t->rank, t->shape, NULL), SB_OK);
    }
    assert_int_equal(
        sb_writer_metadata(w, f->tensors[8].name, "note", "a \"note\"\n\xc3\xa4", NULL), SB_OK);
    assert_int_equal(sb_writer_metadata(w, f->tensors[9].name, "author", "", NULL), SB_OK);
    assert_int_equal(sb_writer_run(w, fill, f, NULL), SB_OK);
    sb_writer_free(w);
    put_file(path, "config.json", f->config);
    test_folder_free(f);
    return path;
}

TEST(test_shards_and_metadata_stay)
{
    test_folder f = some_layers(NVFP4_CT);
    size_t shards = (f.count + 6) / 7;
    const char *a = save_sharded(&f, "shards"), *b = path_of("shards-b"), *c = path_of("shards-c");
    sb_conversion there = convert(a, b, "nvfp4-modelopt"), back = convert(b, c, "nvfp4-ct");
    sb_checkpoint *result = NULL;
    assert_int_equal(sb_checkpoint_open(b, &result, NULL), SB_OK);
    assert_int_equal(sb_checkpoint_shards(result), shards);
    assert_string_equal(sb_checkpoint_metadata(result, 1, "note"), "a \"note\"\n\xc3\xa4");
    assert_string_equal(sb_checkpoint_metadata(result, 1, "author"), "");
    assert_string_equal(sb_checkpoint_metadata(result, 0, "format"), "pt");
    assert_null(sb_checkpoint_metadata(result, 0, "note"));
    assert_null(sb_checkpoint_metadata(result, 1, "notes"));
    const sb_tensor *t = sb_checkpoint_find(result, Q ".weight_scale_2");
    assert_string_equal(
        sb_checkpoint_metadata(result, t->shard, "samebit.origin." Q ".weight_scale_2"),
        "46000000"); /* 8192 */
    for (size_t i = 1; i < sb_checkpoint_metadata_count(result, 1); i++)
        assert_true(strcmp(sb_checkpoint_metadata_at(result, 1, i - 1)->key,
                           sb_checkpoint_metadata_at(result, 1, i)->key) < 0);
    sb_checkpoint_close(result);
    expect_same(a, b, 1);
    for (size_t i = 1; i <= shards; i++) {
        char name[64];
        snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", i, shards);
        assert_true(files_equal(a, c, name));
    }
    assert_true(files_equal(a, c, "model.safetensors.index.json"));
    sb_conversion_free(&there);
    sb_conversion_free(&back);
}

TEST(test_writer_refuses_metadata)
{
    static const char *const wrong[][3] = {
        {"a", "format", "twice"}, {"b", "k", "not declared"}, {"a", "k", "twice"}};
    for (size_t i = 0; i < 3; i++) {
        sb_writer *w = NULL;
        sb_error err = {""};
        const uint64_t shape = 4;
        test_folder f = {0};
        test_folder_add(&f, "a", SB_DTYPE_U8, 1, &shape);
        assert_int_equal(sb_writer_new(path_of("refused"), 0, 0, &w, NULL), SB_OK);
        assert_int_equal(sb_writer_add(w, "a", SB_DTYPE_U8, 1, &shape, NULL), SB_OK);
        assert_int_equal(sb_writer_metadata(w, wrong[i][0], wrong[i][1], "v", NULL), SB_OK);
        if (i == 2)
            assert_int_equal(sb_writer_metadata(w, "a", "k", "other", NULL), SB_OK);
        assert_int_equal(sb_writer_run(w, fill, &f, &err), SB_ERR_USAGE);
        assert_non_null(strstr(err.text, wrong[i][2]));
        sb_writer_free(w);
        test_folder_free(&f);
    }
}

/* --- configuration ---------------------------------------------------------------------------- */

static char *config_of(const char *folder)
{
    unsigned char *text = NULL;
    size_t n;
    char *path = sb_path_join(folder, "config.json");
    assert_int_equal(sb_read_file(path, 1 << 24, &text, &n, NULL), SB_OK);
    free(path);
    return (char *)text;
}

/* Only the one value changes. "1e-06", a text that looks like a key, and all blanks stay. */
TEST(test_config_keeps_its_bytes)
{
    test_folder f = some_layers(NVFP4_MODELOPT);
    const char *a = save(&f, "config"), *b = path_of("config-b");
    sb_conversion c = convert(a, b, "nvfp4-ct");
    sb_conversion_free(&c);
    char *old = config_of(a), *new = config_of(b);
    char *head = strstr(old, "\"quantization_config\": {\"quant_method\""),
         *tail = strstr(old, ",\n  \"last\"");
    size_t n = (size_t)(head - old);
    assert_non_null(tail);
    assert_memory_equal(old, new, n + strlen("\"quantization_config\": {"));
    assert_non_null(strstr(new, "\"eps\": 1e-06"));
    assert_string_equal(new + strlen(new) - strlen(tail), tail);
    assert_null(strstr(new, "modelopt"));
    free(old);
    free(new);
    /* no declaration in config.json, only in ModelOpt's own file: then it becomes the first key */
    f = some_layers(NVFP4_MODELOPT);
    free(f.config);
    f.config = strdup("{\n  \"a\": 1\n}\n");
    a = save(&f, "config");
    put_file(a, "hf_quant_config.json",
             "{\"producer\": {\"name\": \"modelopt\"}, \"quantization\": {\"quant_algo\": "
             "\"NVFP4\", \"exclude_modules\": [\"lm_head\"]}}");
    c = convert(a, b, "nvfp4-ct");
    sb_conversion_free(&c);
    new = config_of(b);
    assert_non_null(strstr(new, "\"quant_method\": \"compressed-tensors\""));
    assert_non_null(strstr(new, "},\n  \"a\": 1\n}\n"));
    free(new);
    (void)remove(path_of("config/hf_quant_config.json"));
}

/* --- refusals --------------------------------------------------------------------------------- */

TEST(test_targets_are_not_lost)
{
    test_folder f = some_layers(NVFP4_CT);
    const char *a = save(&f, "safe"), *b = path_of("safe-b"), *odd = path_of("safe-odd");
    char link[1200];
    refuse(a, a, "nvfp4-modelopt", 1, SB_ERR_USAGE, "is the source");
    snprintf(link, sizeof link, "%s/.", a);
    refuse(a, link, "nvfp4-modelopt", 1, SB_ERR_USAGE, "is the source");
    refuse(a, b, "nvfp4", 0, SB_ERR_USAGE, "nvfp4-modelopt");
    refuse(a, b, NULL, 0, SB_ERR_USAGE, "absent");
    sb_conversion c = convert(a, b, "nvfp4-modelopt");
    sb_conversion_free(&c);
    char *before = config_of(b);
    refuse(a, b, "nvfp4-modelopt", 0, SB_ERR_USAGE, "exists");
    refuse(a, b, "nvfp4-ct", 1, SB_ERR_UNSUPPORTED, "no NVFP4 layer in the dialect nvfp4-modelopt");
    char *after = config_of(b);
    assert_string_equal(before, after);
    expect_same(a, b, 1);
    free(before);
    free(after);
    /* a folder that is not a checkpoint, or contains folders, must not be removed */
    assert_int_equal(mkdir(odd, 0700), 0);
    put_file(odd, "precious", "x");
    refuse(a, odd, "nvfp4-modelopt", 1, SB_ERR_USAGE, "holds no checkpoint");
    snprintf(link, sizeof link, "%s/inner", odd);
    assert_int_equal(mkdir(link, 0700), 0);
    refuse(a, odd, "nvfp4-modelopt", 1, SB_ERR_USAGE, "is not a file");
    assert_true(has_file(odd, "precious"));
    assert_int_equal(rmdir(link), 0);
    snprintf(link, sizeof link, "%s/model.safetensors", a);
    refuse(link, b, "nvfp4-modelopt", 1, SB_ERR_USAGE, "is not a folder");
    refuse(a, "/nonexistent/x", "nvfp4-modelopt", 0, SB_ERR_IO, "/nonexistent/x");
}

static const char *arrives; /* a folder that another program makes during a conversion */

static void make_folder_meanwhile(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    (void)ctx;
    (void)what;
    (void)done;
    (void)total;
    if (mkdir(arrives, 0700) == 0)
        put_file(arrives, "config.json", "precious");
}

TEST(test_a_target_that_arrives_meanwhile)
{
    test_folder f = some_layers(NVFP4_CT);
    const char *a = save(&f, "late");
    sb_conversion c;
    sb_error err = {""};
    arrives = path_of("late-b");
    sb_convert_options o = {
        .source = a, .target = arrives, .to = "nvfp4-modelopt", .progress = make_folder_meanwhile};
    assert_int_equal(sb_convert(&o, &c, &err), SB_ERR_USAGE);
    assert_non_null(strstr(err.text, "was created meanwhile"));
    char *text = config_of(arrives);
    assert_string_equal(text, "precious");
    free(text);
    assert_false(has_file(path_of("late-b.partial"), "config.json"));
    o.replace = 1; /* the same folder, now there from the start and to be replaced */
    assert_int_equal(sb_convert(&o, &c, &err), SB_OK);
    sb_conversion_free(&c);
}

TEST(test_what_no_dialect_can_say)
{
    const char *to = path_of("refused-b");
    const uint64_t shape[2] = {16, 32}, scale[2] = {16, 1};
    test_folder f = nvfp4_folder(NVFP4_MODELOPT);
    nvfp4_layer(&f, NVFP4_MODELOPT, Q, 4, 32, 0, 0);
    refuse(save(&f, "refused"), to, "nvfp4-ct", 0, SB_ERR_UNSUPPORTED,
           Q ".weight_scale_2, element 0, is 0");
    f = nvfp4_folder(NVFP4_MODELOPT);
    nvfp4_layer(&f, NVFP4_MODELOPT, Q, 4, 32, 1e-39f, 0);
    refuse(save(&f, "refused"), to, "nvfp4-ct", 0, SB_ERR_UNSUPPORTED, "reciprocal");
    f = some_layers(NVFP4_CT);
    nvfp4_bytes(&f, "z.weight", SB_DTYPE_F8_E4M3, 2, shape, "z", 0);
    nvfp4_bytes(&f, "z.weight_scale", SB_DTYPE_BF16, 2, scale, "zs", 0);
    refuse(save(&f, "refused"), to, "nvfp4-modelopt", 0, SB_ERR_UNSUPPORTED, "fp8-channel");
    f = some_layers(NVFP4_CT);
    test_folder_remove(&f, Q ".weight_global_scale");
    refuse(save(&f, "refused"), to, "nvfp4-modelopt", 0, SB_ERR_INPUT, "weight_global_scale");
    f = mixed(0);
    const char *a = save(&f, "refused-mixed"), *b = path_of("mixed-ct");
    sb_conversion c = convert(a, b, "nvfp4-ct"); /* weights only: can be declared */
    sb_conversion_free(&c);
    refuse(b, to, "nvfp4-modelopt", 0, SB_ERR_UNSUPPORTED, "FP8 layers without input_scale");
    struct stat info;
    assert_int_not_equal(lstat(to, &info), 0);
}

/* --- damaged origins -------------------------------------------------------------------------- */

/* A folder with the tensors of `from` and one pair of metadata. */
static const char *with_metadata(const char *from, const char *tensor, const char *key,
                                 const char *value, const char *name)
{
    test_folder f = test_folder_load(from);
    const char *path = path_of(name);
    sb_writer *w = NULL;
    sb_error err = {""};
    assert_int_equal(sb_writer_new(path, 0, SB_WRITER_REPLACE, &w, NULL), SB_OK);
    for (size_t i = 0; i < f.count; i++)
        assert_int_equal(sb_writer_add(w, f.tensors[i].name, f.tensors[i].dtype, f.tensors[i].rank,
                                       f.tensors[i].shape, NULL),
                         SB_OK);
    if (key)
        assert_int_equal(sb_writer_metadata(w, tensor, key, value, NULL), SB_OK);
    if (sb_writer_run(w, fill, &f, &err))
        fail_msg("%s", err.text);
    sb_writer_free(w);
    put_file(path, "config.json", f.config);
    test_folder_free(&f);
    return path;
}

TEST(test_origins)
{
    static const char tensor[] = "model.layers.0.mlp.experts.2.up_proj.weight_scale_2";
    static const char key[] = "samebit.origin.model.layers.0.mlp.experts.2.up_proj.weight_scale_2";
    static const char stored[] =
        "samebit.stored.model.layers.0.mlp.experts.2.up_proj.weight_scale_2";
    test_folder f = nvfp4_folder(NVFP4_CT);
    nvfp4_layer(&f, NVFP4_CT, "model.layers.0.mlp.experts.2.up_proj", 4, 32, 10007.0f, 0);
    /* RN(1/RN(1/x)) differs from this x, so that a lost origin shows */
    float again = 1.0f / (1.0f / 3145741.0f);
    assert_true(again != 3145741.0f);
    sb_store_u32(
        test_folder_find(&f, "model.layers.0.mlp.experts.2.up_proj.weight_global_scale")->bytes,
        sb_bits_f32(3145741.0f));
    const char *a = save(&f, "origin"), *b = path_of("origin-b"), *to = path_of("origin-to");
    sb_conversion c = convert(a, b, "nvfp4-modelopt");
    sb_conversion_free(&c);
    sb_manifest before = manifest_of(a), lost;
    /* the correct origin, written by hand: 3145741 is 0x4a400034 */
    const char *sound = with_metadata(b, tensor, key, "4a400034", "origin-bad");
    expect_same(sound, a, 1);
    lost = manifest_of(with_metadata(b, tensor, NULL, NULL, "origin-bad"));
    sb_differences d;
    assert_int_equal(sb_manifest_compare(&lost, &before, 1, &d, NULL), SB_OK);
    assert_int_equal(d.count, 1);
    assert_string_equal(d.rows[0].what, "divisor");
    free(d.rows);
    sb_manifest_free(&lost);
    sb_manifest_free(&before);
    static const char *const bad[] = {"4a400038", "4A400034", "4a40003",  "4a4000344a400034",
                                      "zzzzzzzz", "",         "7f800000", "ca400034"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refuse(with_metadata(b, tensor, key, bad[i], "origin-bad"), to, "nvfp4-ct", 0, SB_ERR_INPUT,
               tensor);
    static const char *const wrong[] = {"F32",      "F32 [2] a", "F32 [1,] a",
                                        "U8 [4] a", "F99 [1] a", "I32 [1] a"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        refuse(with_metadata(b, tensor, stored, wrong[i], "origin-bad"), to, "nvfp4-ct", 0,
               SB_ERR_INPUT, tensor);
    /* a name that belongs to another tensor */
    refuse(with_metadata(b, tensor, stored, "F32 [1] model.layers.0.mlp.experts.2.up_proj.weight",
                         "origin-bad"),
           to, "nvfp4-ct", 0, SB_ERR_INPUT, "lacks tensor weight_global_scale");
}
