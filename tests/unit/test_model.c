/* test_model.c - the tensors of a model, and how the tensors of a folder are bound: M-4 to M-9. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/formats/plain_row.h"
#include "ref/model/row_map.h"
#include "tests/lib/checkpoint.h"
#include "tests/lib/record.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static sb_config parse(const char *text)
{
    sb_config config;
    sb_error err;
    if (sb_config_parse(text, strlen(text), "config", &config, &err))
        fail_msg("%s", err.text);
    return config;
}

/* The published shapes where they differ from the defaults of their family. */
#define ROPE "\"rope_parameters\":{\"rope_theta\":1e7}"
static const char text_35b[] =
    "{\"model_type\":\"qwen3_5_moe\",\"mtp_num_hidden_layers\":1," ROPE "}";
static const char text_122b[] =
    "{\"model_type\":\"qwen3_5_moe\",\"text_config\":{\"hidden_size\":3072,\"num_hidden_layers\":"
    "48,"
    "\"num_attention_heads\":32,\"linear_num_value_heads\":64,\"moe_intermediate_size\":1024,"
    "\"shared_expert_intermediate_size\":1024,\"mtp_num_hidden_layers\":1," ROPE "}}";
static const char text_dense[] =
    "{\"model_type\":\"qwen3_5\",\"hidden_size\":5120,\"num_hidden_layers\":64,"
    "\"num_attention_heads\":24,\"linear_num_value_heads\":48,\"intermediate_size\":17408,"
    "\"mtp_num_hidden_layers\":1," ROPE "}";
static const char text_tied[] =
    "{\"model_type\":\"qwen3_5\",\"hidden_size\":1024,\"num_hidden_layers\":24,"
    "\"num_attention_heads\":8,\"num_key_value_heads\":2,\"linear_num_value_heads\":16,"
    "\"intermediate_size\":3584,\"tie_word_embeddings\":true,\"mtp_num_hidden_layers\":1," ROPE "}";
static const char text_next[] = "{\"model_type\":\"qwen3_next\"," ROPE "}";

/* The result of an enumeration. */
typedef struct tally {
    size_t tensors, outside;
    uint64_t parameters, embedding, head_and_norm, blocks, mtp;
    const char *prefix;
    size_t stop_at; /* 0: never */
} tally;

static sb_status count(void *ctx, const sb_expected *t, sb_error *err)
{
    tally *sum = ctx;
    uint64_t elements = 1;
    for (unsigned d = 0; d < t->rank; d++)
        elements *= t->shape[d];
    sum->tensors++;
    sum->parameters += elements;
    if (strncmp(t->name, "mtp.", 4) == 0)
        sum->mtp += elements;
    else if (t->role == SB_ROLE_embed_tokens)
        sum->embedding += elements;
    else if (t->role == SB_ROLE_lm_head || t->role == SB_ROLE_final_norm)
        sum->head_and_norm += elements;
    else
        sum->blocks += elements;
    if (strncmp(t->name, sum->prefix, strlen(sum->prefix)) != 0)
        sum->outside++;
    if (sum->tensors == sum->stop_at)
        return sb_fail(err, SB_ERR_DIFF, "stopped at %s", t->name);
    return SB_OK;
}

static tally enumerate(const char *text, sb_storage storage)
{
    sb_config config = parse(text);
    tally sum = {.prefix = storage.prefix};
    assert_int_equal(sb_each_tensor(&config, &storage, count, &sum, NULL), SB_OK);
    return sum;
}

/* The number of tensors of a text model: those outside the layers, and those of linear and full
 * layers. */
static size_t identity(size_t outside, size_t linear, size_t per_linear, size_t full,
                       size_t per_full)
{
    return outside + linear * per_linear + full * per_full;
}

TEST(test_counts)
{
    static const sb_storage fused = {.prefix = "model.", .fused_experts = 1};
    static const sb_storage both = {"model.", 1, 1, 1}, split_mtp = {"model.", 1, 0, 1};
    static const sb_storage split = {"model.", 0, 0, 0}, all_split = {"model.", 0, 0, 1};
    assert_int_equal(enumerate(text_35b, fused).tensors, 693);
    assert_int_equal(enumerate(text_35b, fused).tensors, identity(3, 30, 18, 10, 15));
    assert_int_equal(enumerate(text_35b, both).tensors, 693 + 19);
    assert_int_equal(enumerate(text_35b, split_mtp).tensors, 1811 - 333); /* with vision: 1811 */
    assert_int_equal(enumerate(text_35b, split).tensors, 693 + 40 * (3 * 256 - 2));
    assert_int_equal(enumerate(text_122b, both).tensors, identity(3, 36, 18, 12, 15) + 19);
    assert_int_equal(enumerate(text_dense, fused).tensors, identity(3, 48, 14, 16, 11));
    assert_int_equal(enumerate(text_dense, both).tensors, identity(3, 48, 14, 16, 11) + 15);
    assert_int_equal(enumerate(text_tied, both).tensors, identity(2, 18, 14, 6, 11) + 15);
    assert_int_equal(enumerate(text_next, fused).tensors, identity(3, 36, 16, 12, 15));
    assert_int_equal(enumerate(text_next, all_split).tensors,
                     identity(3, 36, 14 + 3 * 512, 12, 13 + 3 * 512) + 17 + 3 * 512);
}

/* The published numbers of parameters of 35B-A3B, which check the shapes. */
TEST(test_parameters)
{
    static const sb_storage layouts[] = {{"model.", 1, 1, 1}, {"model.", 0, 0, 1}};
    for (size_t i = 0; i < COUNT(layouts); i++) {
        tally sum = enumerate(text_35b, layouts[i]);
        assert_true(sum.embedding == 508559360);
        assert_true(sum.blocks == 33643489920);
        assert_true(sum.head_and_norm == 508561408);
        assert_true(sum.mtp == 844640768);
        assert_true(sum.parameters == 35951822704 - 446571248); /* without vision */
    }
}

TEST(test_prefixes)
{
    static const char *const prefixes[] = {"model.", "model.language_model.",
                                           "language_model.model."};
    for (size_t i = 0; i < COUNT(prefixes); i++) {
        tally sum = enumerate(text_35b, (sb_storage){prefixes[i], 1, 1, 1});
        assert_int_equal(sum.outside, 1 + 19); /* lm_head and mtp have no prefix */
        sum = enumerate(text_tied, (sb_storage){prefixes[i], 1, 1, 0});
        assert_int_equal(sum.outside, 0);
    }
}

TEST(test_enumeration_stops)
{
    sb_config config = parse(text_35b);
    sb_storage storage = {"model.", 1, 1, 1};
    for (size_t n = 1; n <= 693 + 19; n += 59) {
        tally sum = {.prefix = "", .stop_at = n};
        sb_error err;
        assert_int_equal(sb_each_tensor(&config, &storage, count, &sum, &err), SB_ERR_DIFF);
        assert_int_equal(sum.tensors, n);
    }
}

/* M-8 by hand: nK = 2, nV = 6, dk = 2, dv = 1: groups of q q k k v v v z z z, and of b b b a a a.
 */
TEST(test_row_maps)
{
    static const uint32_t qkv[14] = {0, 1, 10, 11, 2, 3, 12, 13, 4, 5, 6, 14, 15, 16};
    static const uint32_t z[6] = {7, 8, 9, 17, 18, 19}, b[6] = {0, 1, 2, 6, 7, 8};
    static const uint32_t a[6] = {3, 4, 5, 9, 10, 11};
    sb_config config = parse("{\"model_type\":\"qwen3_next\",\"linear_num_key_heads\":2,"
                             "\"linear_num_value_heads\":6,\"linear_key_head_dim\":2,"
                             "\"linear_value_head_dim\":1," ROPE "}");
    uint32_t *maps[4] = {NULL};
    assert_int_equal(sb_row_maps(&config, maps), SB_OK);
    assert_memory_equal(maps[0], qkv, sizeof qkv);
    assert_memory_equal(maps[1], z, sizeof z);
    assert_memory_equal(maps[2], b, sizeof b);
    assert_memory_equal(maps[3], a, sizeof a);
    for (size_t i = 0; i < 4; i++)
        free(maps[i]);
}

/* Copies rows of an interleaved tensor into a separate projection: from every group `width` rows
 * after the first `skip`. */
static void take_rows(test_folder *f, const test_tensor *from, const char *name, size_t groups,
                      size_t parts, const size_t *skip, const size_t *width)
{
    uint64_t shape[2] = {0, from->shape[1]};
    size_t group = (size_t)from->shape[0] / groups, row = (size_t)(from->size / from->shape[0]),
           at = 0;
    for (size_t p = 0; p < parts; p++)
        shape[0] += groups * width[p];
    test_tensor source = *from; /* adding a tensor moves the others */
    test_tensor *to = test_folder_add(f, name, from->dtype, 2, shape);
    for (size_t p = 0; p < parts; p++)
        for (size_t g = 0; g < groups; g++) {
            memcpy(to->bytes + at, source.bytes + (g * group + skip[p]) * row, width[p] * row);
            at += width[p] * row;
        }
}

/* A T5 stored as Qwen3.5 stores it: nK = 2, r = 2, dk = dv = 64. */
static const char *separate(const char *interleaved)
{
    static const size_t skip[] = {0, 64, 128, 256}, width[] = {64, 64, 128, 128};
    static const size_t ba_skip[] = {0, 2}, ba_width[] = {2, 2};
    test_folder f = test_folder_load(interleaved);
    for (unsigned layer = 0; layer < 3; layer++) {
        char name[2][128];
        for (int i = 0; i < 2; i++)
            snprintf(name[i], sizeof name[i], "model.layers.%u.linear_attn.in_proj_%s.weight",
                     layer, i ? "ba" : "qkvz");
        char target[4][128];
        static const char *const kinds[4] = {"qkv", "z", "b", "a"};
        for (int i = 0; i < 4; i++)
            snprintf(target[i], sizeof target[i], "model.layers.%u.linear_attn.in_proj_%s.weight",
                     layer, kinds[i]);
        take_rows(&f, test_folder_find(&f, name[0]), target[0], 2, 3, skip, width);
        take_rows(&f, test_folder_find(&f, name[0]), target[1], 2, 1, skip + 3, width + 3);
        take_rows(&f, test_folder_find(&f, name[1]), target[2], 2, 1, ba_skip, ba_width);
        take_rows(&f, test_folder_find(&f, name[1]), target[3], 2, 1, ba_skip + 1, ba_width + 1);
        test_folder_remove(&f, name[0]);
        test_folder_remove(&f, name[1]);
    }
    test_folder_configure(&f, "Qwen3NextForCausalLM", "Qwen3_5MoeForCausalLM");
    test_folder_configure(&f, "qwen3_next", "qwen3_5_moe");
    const char *folder = test_folder_save(&f, "test_model", "separate");
    test_folder_free(&f);
    return folder;
}

/* Writes to column 0 of every row in the interleaved tensors of layer 0 the number of the row. */
static const char *number_rows(const char *folder)
{
    static const char *const names[] = {"model.layers.0.linear_attn.in_proj_qkvz.weight",
                                        "model.layers.0.linear_attn.in_proj_ba.weight"};
    test_folder f = test_folder_load(folder);
    for (size_t i = 0; i < COUNT(names); i++) {
        test_tensor *t = test_folder_find(&f, names[i]);
        for (size_t r = 0; r < t->shape[0]; r++)
            sb_store_u32(t->bytes + r * 4 * (size_t)t->shape[1], sb_bits_f32((float)r));
    }
    const char *numbered = test_folder_save(&f, "test_model", "numbered");
    test_folder_free(&f);
    return numbered;
}

/* The number of the stored row that a matrix reads as its row i. */
static size_t row_number(const sb_matrix *m, uint32_t i)
{
    float values[128];
    assert_int_equal(m->cols, 128);
    sb_matrix_row(m, i, values);
    return (size_t)values[0];
}

/* T5, r = 2: value head h belongs to group h / 2, and a group is 64 q, 64 k, 128 v, 128 z rows. */
TEST(test_interleaved_rows)
{
    const char *folder = test_checkpoint_with(
        "test_model",
        &(sb_make_options){.dir = "T5", .preset = "T5", .format = "f32", .no_mtp = 1});
    sb_model *model = test_model_open(number_rows(folder));
    const sb_layer *layer = &model->weights->layers[0];
    const sb_matrix *qkv = &layer->w[SB_ROLE_in_proj_qkv], *z = &layer->w[SB_ROLE_in_proj_z];
    assert_int_equal(qkv->rows, 512);
    assert_int_equal(z->rows, 256);
    for (uint32_t i = 0; i < 512; i++) {
        uint32_t head = i < 256 ? i / 64 % 2 : (i - 256) / 128; /* key head */
        uint32_t within = i < 128 ? i % 64 : i < 256 ? 64 + i % 64 : 128 + (i - 256) % 128;
        assert_int_equal(row_number(qkv, i), head * 384 + within);
    }
    for (uint32_t i = 0; i < 256; i++)
        assert_int_equal(row_number(z, i), i / 128 * 384 + 256 + i % 128);
    for (uint32_t h = 0; h < 4; h++) {
        assert_int_equal(row_number(&layer->w[SB_ROLE_in_proj_b], h), h / 2 * 4 + h % 2);
        assert_int_equal(row_number(&layer->w[SB_ROLE_in_proj_a], h), h / 2 * 4 + 2 + h % 2);
    }
    sb_model_close(model);
}

TEST(test_interleaved_is_separate)
{
    enum { N = 9 };
    uint32_t ids[N];
    const char *folders[2];
    folders[0] = test_checkpoint_with(
        "test_model",
        &(sb_make_options){.dir = "T5", .preset = "T5", .format = "f32", .no_mtp = 1});
    folders[1] = separate(folders[0]);
    float hidden[2][N * 128];
    test_draw_ids("interleaved", 384, ids, N);
    for (int i = 0; i < 2; i++) {
        sb_model *model = test_model_open(folders[i]);
        assert_int_equal(model->config.family, i ? SB_QWEN3_5_MOE : SB_QWEN3_NEXT);
        sb_session *session = test_session(model, NULL, NULL);
        test_feed(session, ids, N);
        memcpy(hidden[i], sb_session_hidden(session), sizeof hidden[i]);
        sb_session_free(session);
        sb_model_close(model);
    }
    assert_memory_equal(hidden[0], hidden[1], sizeof hidden[0]);
}

static void same_matrix(const sb_matrix *a, const sb_matrix *b)
{
    assert_int_equal(a->rows, b->rows);
    assert_int_equal(a->cols, b->cols);
    assert_int_equal(a->format, b->format);
    assert_memory_equal(sb_matrix_row_bytes(a, 0), sb_matrix_row_bytes(b, 0),
                        a->rows * (size_t)a->cols * sb_format_bytes(a->format));
}

/* M-7: gate before up in every expert of the trunk and of MTP, fused or not. */
TEST(test_fused_is_split)
{
    sb_model *model[2];
    for (int i = 0; i < 2; i++) {
        const char *kind = i ? "split" : "fused";
        model[i] = test_model_open(test_checkpoint_with(
            "test_model",
            &(sb_make_options){.dir = kind, .preset = "T3", .experts = kind, .layers = 1}));
        assert_int_equal(model[i]->weights->storage.fused_experts, !i);
        assert_int_equal(model[i]->weights->storage.fused_mtp_experts, !i);
        assert_int_equal(model[i]->weights->layer_count, 2);
    }
    for (size_t layer = 0; layer < 2; layer++)
        for (size_t e = 0; e < 8; e++) {
            const sb_expert *a = &model[0]->weights->layers[layer].experts[e];
            const sb_expert *b = &model[1]->weights->layers[layer].experts[e];
            same_matrix(&a->gate, &b->gate);
            same_matrix(&a->up, &b->up);
            same_matrix(&a->down, &b->down);
        }
    for (int i = 0; i < 2; i++)
        sb_model_close(model[i]);
}

TEST(test_tied_head)
{
    sb_model *model = test_model_open(test_checkpoint("test_model", "T4", NULL, NULL, "text"));
    const sb_weights *w = model->weights;
    assert_ptr_equal(w->lm_head.data, w->embed_tokens.data);
    assert_int_equal(w->lm_head.rows, 384);
    assert_null(w->layers[0].experts);
    assert_null(w->layers[0].w[SB_ROLE_q_proj].data);
    assert_null(w->layers[3].w[SB_ROLE_conv1d].data);
    assert_non_null(w->layers[4].w[SB_ROLE_q_proj].data); /* MTP layers come after the trunk */
    assert_int_equal(w->bound, identity(2, 3, 14, 1, 11) + 15);
    assert_int_equal(w->bound, sb_checkpoint_count(model->checkpoint));
    assert_true(w->bound_bytes == sb_checkpoint_bytes(model->checkpoint));
    sb_model_close(model);
}
