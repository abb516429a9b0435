/* test_make.c - synthetic checkpoints: what their bytes depend on (G-1) and how they are stored.
 * test_make_options.c tests options, test_make_recipes.c tests values. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/container/file.h"
#include "ref/formats/plain_row.h"
#include "tests/lib/checkpoint.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
static const char *const presets[] = {"T1",     "T2", "T3", "T4", "T5",
                                      "T5-raw", "T6", "T7", "T8", "T9"};

/* --- folders ---------------------------------------------------------------------------------- */

/* A folder of sb_make, opened as a model, so that its configuration is read back and every tensor
 * is bound. */
typedef struct made {
    const char *dir;
    sb_model *model;
} made;

static made make(const char *name, sb_make_options o)
{
    o.dir = name;
    made m = {.dir = test_checkpoint_with("make", &o)};
    m.model = test_model_open(m.dir);
    return m;
}

static sb_digest stored_digest(const made *m)
{
    sb_digest digest;
    assert_int_equal(sb_checkpoint_digest(m->model->checkpoint, &digest, NULL), SB_OK);
    return digest;
}

/* --- values, independent of the layout * ------------------------------------------------------ */

typedef void (*matrix_fn)(void *ctx, const sb_matrix *m);

/* Visits every matrix of the model in an order that does not depend on the layout. */
static void each_matrix(const sb_model *model, matrix_fn visit, void *ctx)
{
    const sb_weights *w = model->weights;
    visit(ctx, &w->embed_tokens);
    visit(ctx, &w->final_norm);
    visit(ctx, &w->lm_head);
    for (unsigned role = 0; role < SB_ROLE_COUNT; role++) {
        for (uint32_t i = 0; i < w->layer_count; i++)
            visit(ctx, &w->layers[i].w[role]);
        visit(ctx, &w->mtp[role]);
    }
    for (uint32_t i = 0; i < w->layer_count; i++)
        for (uint32_t e = 0; e < sb_config_layer_experts(&model->config, i); e++) {
            visit(ctx, &w->layers[i].experts[e].gate);
            visit(ctx, &w->layers[i].experts[e].up);
            visit(ctx, &w->layers[i].experts[e].down);
        }
}

static void hash_matrix(void *ctx, const sb_matrix *m)
{
    float row[2048];
    assert_true(m->cols <= COUNT(row));
    for (uint32_t i = 0; m->data && i < m->rows; i++) {
        sb_matrix_row(m, i, row);
        for (uint32_t j = 0; j < m->cols; j++)
            row[j] = sb_round_to(SB_FORMAT_bf16, row[j]);
        sb_hash_f32(ctx, row, m->cols);
    }
}

/* The digest of all values rounded to BF16, in the order of each_matrix. */
static sb_digest value_digest(const made *m)
{
    sb_hash *hash = sb_hash_new();
    each_matrix(m->model, hash_matrix, hash);
    sb_digest digest = sb_hash_end(hash);
    sb_hash_free(hash);
    return digest;
}

/* --- G-1: what the bytes depend on ------------------------------------------------------------ */

static void check_digest(const char *recipe, const char *expected)
{
    made m = make("recorded", (sb_make_options){.preset = "T1", .recipe = recipe});
    if (strcmp(stored_digest(&m).hex, expected) != 0)
        fail_msg("T1 %s is %s, expected %s", recipe, stored_digest(&m).hex, expected);
    sb_model_close(m.model);
}

/* Recorded once: a change of these digests changes every golden file. */
TEST(test_recorded_digests)
{
    check_digest("mistakes", "d06d198f3e458dbb81f67f54feebfb10");
    check_digest("predictable", "21d41daaff0ac7b6f82abc890daa09b2");
    check_digest("predictable-1", "e591eccdebf302432f1016b44bacd07c");
    check_digest("plain", "18bcdf43188afd1de0f4694b74999420");
}

static void read_whole(const char *dir, const char *name, unsigned char **bytes, size_t *n)
{
    char *path = sb_path_join(dir, name);
    sb_error err;
    if (!path || sb_read_file(path, (size_t)1 << 30, bytes, n, &err))
        fail_msg("%s", path ? err.text : "out of memory");
    free(path);
}

static void compare_file(const char *a, const char *b, const char *name)
{
    unsigned char *bytes[2];
    size_t n[2];
    read_whole(a, name, &bytes[0], &n[0]);
    read_whole(b, name, &bytes[1], &n[1]);
    assert_int_equal(n[0], n[1]);
    assert_memory_equal(bytes[0], bytes[1], n[0]);
    free(bytes[0]);
    free(bytes[1]);
}

/* G-1: "a pure function of seed, preset, recipe, tensor name and element, and so is every byte of
 * the folder" */
TEST(test_same_bytes_again)
{
    made a = make("first", (sb_make_options){.preset = "T1"});
    made b = make("second", (sb_make_options){.preset = "T1"});
    const sb_checkpoint *c = a.model->checkpoint;
    assert_true(sb_checkpoint_shards(c) >= 2);
    assert_int_equal(sb_checkpoint_shards(b.model->checkpoint), sb_checkpoint_shards(c));
    for (size_t i = 0; i < sb_checkpoint_shards(c); i++)
        compare_file(a.dir, b.dir, sb_checkpoint_shard_name(c, (uint32_t)i));
    compare_file(a.dir, b.dir, "config.json");
    compare_file(a.dir, b.dir, "model.safetensors.index.json");
    sb_model_close(b.model);

    made other[] = {
        make("many", (sb_make_options){.preset = "T1", .shard_bytes = 1000000}),
        make("one", (sb_make_options){.preset = "T1", .shard_bytes = UINT64_C(1) << 40}),
        make("seed", (sb_make_options){.preset = "T1", .seed = 43})};
    assert_true(sb_checkpoint_shards(other[0].model->checkpoint) > sb_checkpoint_shards(c));
    assert_int_equal(sb_checkpoint_shards(other[1].model->checkpoint), 1);
    for (size_t i = 0; i < COUNT(other); i++) {
        int same = strcmp(stored_digest(&other[i]).hex, stored_digest(&a).hex) == 0;
        assert_int_equal(same, i < 2);
        sb_model_close(other[i].model);
    }
    sb_model_close(a.model);
}

/* The ways to store a preset. */
static const struct {
    const char *layout, *storage, *experts;
} ways[] = {{"text", "qwen3.6", NULL}, {"vl", "qwen3.6", NULL},      {"text", "qwen3.5", NULL},
            {"vl", "qwen3.5", NULL},   {"text", "qwen3.5", "fused"}, {"text", "qwen3.6", "split"},
            {"vl", "qwen3.6", "split"}};

static void check_storage(const made *m, size_t way)
{
    const sb_storage *s = &m->model->weights->storage;
    int vl = strcmp(ways[way].layout, "vl") == 0;
    int old = strcmp(ways[way].storage, "qwen3.5") == 0;
    int fused = m->model->config.family == SB_QWEN3_5_MOE;
    assert_string_equal(s->prefix, vl ? "model.language_model." : "model.");
    assert_int_equal(m->model->config.vl, vl);
    assert_int_equal(m->model->weights->ignored, vl ? 21 : 0); /* 12 of a vision block, and 9 */
    if (ways[way].experts)
        fused = strcmp(ways[way].experts, "fused") == 0;
    assert_int_equal(s->fused_experts, fused);
    assert_int_equal(s->has_mtp, !m->model->config.plain_norms);
    assert_int_equal(s->fused_mtp_experts, s->has_mtp && fused && !(old && !ways[way].experts));
    const sb_layer *layer = &m->model->weights->layers[0];
    if (m->model->config.plain_norms) /* no linear attention */
        return;
    assert_int_equal(layer->w[SB_ROLE_A_log].format, old ? SB_FORMAT_f32 : SB_FORMAT_bf16);
    assert_int_equal(layer->w[SB_ROLE_linear_norm].format, old ? SB_FORMAT_f32 : SB_FORMAT_bf16);
    assert_int_equal(layer->w[SB_ROLE_conv1d].format, SB_FORMAT_bf16);
}

/* T2 is a larger T1 and runs only with CHECK_ALL. */
TEST(test_layouts_have_the_same_values)
{
    const char *all = getenv("CHECK_ALL");
    for (size_t p = 0; p < COUNT(presets); p++) {
        if (strcmp(presets[p], "T2") == 0 && !(all && strcmp(all, "1") == 0))
            continue;
        sb_digest first = {{0}};
        for (size_t way = 0; way < COUNT(ways); way++) {
            int dense = strcmp(presets[p], "T4") == 0 || strcmp(presets[p], "T8") == 0;
            int flat = strncmp(presets[p], "T5", 2) == 0 || strcmp(presets[p], "T7") == 0 ||
                       strcmp(presets[p], "T8") == 0;
            if ((dense && ways[way].experts) || (flat && strcmp(ways[way].layout, "vl") == 0))
                continue;
            made m = make("layout", (sb_make_options){.preset = presets[p],
                                                      .layers = 4,
                                                      .layout = ways[way].layout,
                                                      .storage = ways[way].storage,
                                                      .experts = ways[way].experts});
            check_storage(&m, way);
            sb_digest digest = value_digest(&m);
            if (way == 0)
                first = digest;
            assert_string_equal(digest.hex, first.hex);
            sb_model_close(m.model);
        }
    }
}

/* M-8: "they are read as the separate projections of Qwen3.5": T5 has the widths and names of T1.
 * With as many layers its separate projections equal those of T1. */
TEST(test_interleaved)
{
    static const sb_role roles[] = {SB_ROLE_in_proj_qkv, SB_ROLE_in_proj_z, SB_ROLE_in_proj_b,
                                    SB_ROLE_in_proj_a};
    made plain = make("T1-4", (sb_make_options){.preset = "T1", .layers = 4});
    made next = make("T5", (sb_make_options){.preset = "T5"});
    for (uint32_t i = 0; i < 3; i++)
        for (size_t r = 0; r < COUNT(roles); r++) {
            const sb_matrix *a = &plain.model->weights->layers[i].w[roles[r]];
            const sb_matrix *b = &next.model->weights->layers[i].w[roles[r]];
            assert_true(a->rows > 0 && a->rows == b->rows && !a->row_map && b->row_map);
            for (uint32_t row = 0; row < a->rows; row++)
                assert_memory_equal(sb_matrix_row_bytes(a, row), sb_matrix_row_bytes(b, row),
                                    a->cols * sb_format_bytes(a->format));
        }
    sb_model_close(plain.model);
    sb_model_close(next.model);
}

static void count_wide(void *ctx, const sb_matrix *m)
{
    float row[2048];
    for (uint32_t i = 0; m->data && i < m->rows; i++) {
        sb_matrix_row(m, i, row);
        for (uint32_t j = 0; j < m->cols; j++)
            *(size_t *)ctx +=
                sb_bits_f32(row[j]) != sb_bits_f32(sb_round_to(SB_FORMAT_bf16, row[j]));
    }
}

/* F32 holds the values that the other formats round: some must have more digits than BF16. */
TEST(test_formats_differ_by_rounding)
{
    made bf16 = make("bf16", (sb_make_options){.preset = "T5"});
    made f16 = make("f16", (sb_make_options){.preset = "T5", .format = "f16"});
    made f32 = make("f32", (sb_make_options){.preset = "T5", .format = "f32"});
    size_t wide = 0;
    each_matrix(f32.model, count_wide, &wide);
    assert_true(wide > 100000);
    assert_string_equal(value_digest(&bf16).hex, value_digest(&f32).hex);
    for (uint32_t i = 0; i < 384; i++) {
        float a[128], b[128];
        sb_matrix_row(&f32.model->weights->lm_head, i, a);
        sb_matrix_row(&f16.model->weights->lm_head, i, b);
        for (size_t j = 0; j < 128; j++)
            assert_int_equal(sb_bits_f32(sb_round_to(SB_FORMAT_f16, a[j])), sb_bits_f32(b[j]));
    }
    assert_string_equal(bf16.model->config.dtype, "bfloat16");
    assert_string_equal(f16.model->config.dtype, "float16");
    assert_string_equal(f32.model->config.dtype, "float32");
    sb_model_close(bf16.model);
    sb_model_close(f16.model);
    sb_model_close(f32.model);
}
