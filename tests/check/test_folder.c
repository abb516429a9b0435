/* test_folder.c - the functions of folder.h: a folder is copied, changed, written and checked. */
#include "tests/lib/suite.h"

#include <string.h>
#include <unistd.h>

#include "ref/container/checkpoint.h"
#include "tests/check/folder.h"

#define VEHICLE "T4 nvfp4-ct recipe=plain"

/* A folder that is written without changes has the tensors that were read. */
static void same_bytes(const char *vehicle)
{
    folder *f = folder_of(vehicle);
    const char *path = folder_write(f);
    sb_checkpoint *a = NULL, *b = NULL;
    sb_error err;
    if (sb_checkpoint_open(path, &a, &err))
        fail_msg("%s", err.text);
    assert_int_equal(sb_checkpoint_open(folder_path(vehicle), &b, NULL), SB_OK);
    assert_int_equal(sb_checkpoint_count(a), sb_checkpoint_count(b));
    assert_int_equal(sb_checkpoint_shards(a), sb_checkpoint_shards(b));
    for (size_t i = 0; i < sb_checkpoint_count(a); i++) {
        const sb_tensor *x = sb_checkpoint_at(a, i), *y = sb_checkpoint_at(b, i);
        assert_string_equal(x->name, y->name);
        assert_int_equal(x->dtype, y->dtype);
        assert_int_equal(x->shard, y->shard);
        assert_int_equal(x->bytes, y->bytes);
        assert_memory_equal(x->shape, y->shape, sizeof x->shape);
        assert_memory_equal(x->data, y->data, (size_t)x->bytes);
    }
    sb_checkpoint_close(a);
    sb_checkpoint_close(b);
    folder_free(f);
}

TEST(test_same)
{
    same_bytes(VEHICLE);
    same_bytes("T4 bf16 recipe=plain shards=one");
    same_bytes("golden/quant/autoround-gptq-mtp");
}

/* Edits of names, shapes and the index, as a check of the written files sees them. */
TEST(test_edits)
{
    folder *f = folder_of(VEHICLE), *g = folder_copy(f);
    const char *first = g->tensors[0]->file, *last = g->tensors[g->count - 1]->file;
    size_t count = g->count;
    folder_drop(g, "mtp.fc.weight");
    folder_rename(g, "layers.0.mlp.up_proj.weight_packed", "model.nowhere.weight");
    folder_twin(g, "model.norm.weight", "model.norm.copy", last);
    assert_int_equal(g->count, count);
    assert_null(folder_maybe(g, "mtp.fc.weight"));
    folder_reshape(folder_find(g, "model.norm.weight"), 2, (const uint64_t[]){1, 128});
    folder_damage_index(g, "model.norm.copy", NULL);
    folder_damage_index(g, "model.lost.weight", first);
    folder_result *r = folder_check(g, NULL, NULL);
    expect_finding(r, 2, SB_LEVEL_fatal, "model.lost.weight");
    assert_non_null(sb_checkpoint_find(r->check.self.checkpoint, "model.nowhere.weight"));
    assert_null(sb_checkpoint_find(r->check.self.checkpoint, "mtp.fc.weight"));
    assert_int_equal(sb_checkpoint_find(r->check.self.checkpoint, "model.norm.weight")->rank, 2);
    folder_result_free(r);
    assert_int_not_equal(access(folder_path(VEHICLE), F_OK), -1);
    folder_free(f);
    folder_free(g);
}

TEST(test_values)
{
    folder *f = folder_of(VEHICLE);
    folder_tensor *t = folder_find(f, "model.norm.weight");
    folder_set(t, 5, 0.5f);
    assert_true(folder_get(t, 5) == 0.5f);
    folder_flip(t, 11, 0x80); /* the sign of a BF16 value */
    assert_true(folder_get(t, 5) == -0.5f);
    folder_tensor *codes = folder_find(f, "layers.0.mlp.up_proj.weight_packed");
    unsigned other = folder_nibble(codes, 6);
    folder_set_nibble(codes, 7, 9);
    assert_int_equal(folder_nibble(codes, 7), 9);
    assert_int_equal(folder_nibble(codes, 6), other);
    folder_zero_rows(codes, 1, 2);
    assert_int_equal(codes->bytes[codes->shape[1]], 0);
    folder_free(f);
}

TEST(test_config)
{
    folder *f = folder_of(VEHICLE);
    assert_string_equal(folder_json_get(f, "config.json", "num_hidden_layers"), "4");
    folder_json(f, "config.json", "quantization_config.ignore.0", "\"re:.*nothing\"");
    assert_string_equal(folder_json_get(f, "config.json", "quantization_config.ignore.0"),
                        "\"re:.*nothing\"");
    folder_json(f, "config.json", "quantization_config.ignore", NULL);
    assert_string_equal(folder_json_get(f, "config.json", "quantization_config.ignore"), "");
    folder_replace(f, "config.json", "\"num_hidden_layers\": 4", "\"num_hidden_layers\": 5");
    assert_string_equal(folder_json_get(f, "config.json", "num_hidden_layers"), "5");
    folder_free(f);
}

/* Damage that only written files can have. */
TEST(test_damage)
{
    for (int kind = 0; kind < 5; kind++) {
        folder *f = folder_of(VEHICLE);
        char *file = f->tensors[f->count - 1]->file;
        if (kind == 0)
            folder_damage_cut(f, file, 1);
        else if (kind == 1)
            folder_damage_append(f, file, 8);
        else if (kind == 2)
            folder_damage_header(f, file, "\"BF16\"", "\"BF17\"");
        else if (kind == 3)
            folder_damage_byte(f, file, 8, 1);
        else
            folder_damage_lost(f, file);
        folder_result *r = folder_check(f, NULL, NULL);
        expect_finding(r, kind < 4 ? 1 : 2, SB_LEVEL_fatal, NULL);
        folder_result_free(r);
        folder_free(f);
    }
}
