/* test_overlay.c - a checkpoint with tensors replaced in memory by those of another one: it answers
 * every question, and equals what the graft writes. */
#include "tests/lib/checkpoint.h"
#include "tests/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/digest.h"
#include "ref/model/layers.h"
#include "ref/model/take.h"
#include "tools/check/graft/graft.h"

/* A checkpoint of this format and layout, made at the first call. */
static const char *made(const char *format, const char *layout)
{
    static struct {
        char key[64];
        const char *path;
    } known[16];
    char key[64];
    size_t i = 0;
    snprintf(key, sizeof key, "%s %s", format, layout);
    while (known[i].path && strcmp(known[i].key, key) != 0)
        i++;
    if (!known[i].path) {
        strcpy(known[i].key, key);
        known[i].path = test_checkpoint("test_overlay", "T3", "plain", format, layout);
    }
    return known[i].path;
}

static sb_checkpoint *opened(const char *folder)
{
    sb_checkpoint *c = NULL;
    sb_error err = {""};
    if (sb_checkpoint_open(folder, &c, &err))
        fail_msg("%s", err.text);
    return c;
}

static sb_checkpoint *overlaid(const char *base, const char *pattern, const char *other)
{
    sb_checkpoint *c = opened(base);
    char text[1400];
    sb_error err = {""};
    snprintf(text, sizeof text, "%s=%s", pattern, other);
    if (sb_take_overlay_text(c, text, &err))
        fail_msg("%s", err.text);
    return c;
}

/* Checks every function of a checkpoint: order, files, offsets, bytes, folder. */
static void expect_whole(const sb_checkpoint *c, const char *base, const char *other)
{
    uint64_t bytes = 0;
    size_t own = 0;
    for (size_t i = 0; i < sb_checkpoint_count(c); i++) {
        const sb_tensor *t = sb_checkpoint_at(c, i);
        const char *origin = sb_checkpoint_origin(c, t);
        char path[1400];
        sb_safetensors file;
        assert_true(i == 0 || strcmp(t[-1].name, t->name) < 0);
        assert_ptr_equal(sb_checkpoint_find(c, t->name), t);
        assert_true(t->shard < sb_checkpoint_shards(c));
        assert_string_equal(origin ? origin : base, origin ? other : base);
        own += !origin;
        bytes += t->bytes;
        if (i % 97 != 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", origin ? origin : base,
                 sb_checkpoint_shard_name(c, t->shard));
        assert_int_equal(sb_safetensors_open(path, &file, NULL), SB_OK);
        assert_memory_equal(file.bytes + sb_checkpoint_offset(c, t), t->data, t->bytes);
        sb_safetensors_close(&file);
    }
    assert_true(own > 0 && own < sb_checkpoint_count(c));
    assert_int_equal(bytes, sb_checkpoint_bytes(c));
}

static sb_digest digest_of(const sb_checkpoint *c)
{
    sb_digest d;
    assert_int_equal(sb_checkpoint_digest(c, &d, NULL), SB_OK);
    return d;
}

static void same_as_grafted(const char *base, const char *pattern, const char *other)
{
    const char *target = test_path("test_overlay", "grafted");
    const char *const take[1] = {pattern};
    sb_graft_options o = {.source = base,
                          .other = other,
                          .target = target,
                          .take = take,
                          .take_count = 1,
                          .replace = 1};
    sb_grafted g;
    sb_error err = {""};
    if (sb_graft(&o, &g, &err))
        fail_msg("%s", err.text);
    sb_grafted_free(&g);
    sb_checkpoint *written = opened(target), *memory = overlaid(base, pattern, other);
    sb_checkpoint *before = opened(base);
    expect_whole(memory, base, other);
    sb_digest a = digest_of(written), b = digest_of(memory), c = digest_of(before);
    assert_string_equal(a.hex, b.hex);
    assert_string_not_equal(a.hex, c.hex);
    sb_checkpoint_close(written);
    sb_checkpoint_close(memory);
    sb_checkpoint_close(before);
}

TEST(test_is_the_graft)
{
    const char *plain = made("bf16", "text"), *vl = made("bf16", "vl");
    const char *nvfp4 = made("nvfp4-ct", "text"), *int4 = made("int4-autoround", "text");
    same_as_grafted(nvfp4, "layers.2.*", plain);
    same_as_grafted(int4, "mtp.*", plain);
    same_as_grafted(plain, "layers.0.mlp.experts.*", int4);
    same_as_grafted(nvfp4, "*self_attn.*", vl);
    same_as_grafted(vl, "layers.?.mlp.*", nvfp4);
}

TEST(test_names)
{
    const char *vl = made("bf16", "vl"), *plain = made("bf16", "text");
    sb_checkpoint *c = overlaid(vl, "layers.1.*", plain);
    assert_string_equal(sb_text_prefix(c), "model.language_model.");
    const sb_tensor *t =
        sb_checkpoint_find(c, "model.language_model.layers.1.input_layernorm.weight");
    assert_non_null(t);
    assert_string_equal(sb_checkpoint_origin(c, t), plain);
    assert_null(sb_checkpoint_find(c, "model.layers.1.input_layernorm.weight"));
    sb_checkpoint_close(c);
    assert_string_equal(sb_plain_name("model.layers.0.x"), "layers.0.x");
    assert_string_equal(sb_plain_name("language_model.model.norm.weight"), "norm.weight");
    assert_string_equal(sb_plain_name("model.visual.x"), "visual.x");
    assert_string_equal(sb_plain_name("mtp.fc.weight"), "mtp.fc.weight");
}

/* Two layers with stacked experts, the others with separate ones: binding works without any
 * disagreement. */
TEST(test_binds)
{
    const char *nvfp4 = made("nvfp4-ct", "text"), *plain = made("bf16", "text");
    char a[1400], b[1400];
    snprintf(a, sizeof a, "layers.0.*=%s", plain);
    snprintf(b, sizeof b, "*.shared_expert.*=%s", made("fp8-block", "text"));
    const char *const overlays[2] = {a, b};
    sb_model *model = NULL;
    sb_error err = {""};
    if (sb_model_open_overlaid(nvfp4, overlays, 2, &model, &err))
        fail_msg("%s", err.text);
    assert_int_equal(model->weights->disagreements, 0);
    assert_true(model->weights->fused_of[0]);
    assert_false(model->weights->fused_of[1]);
    assert_true(model->weights->stored[SB_CONTAINER_fp8_block].layers > 0);
    sb_model_close(model);
}

/* A module is replaced with all its parts, and a plan that fails does not change the base. */
TEST(test_plan)
{
    sb_checkpoint *base = opened(made("nvfp4-ct", "text")), *other = opened(made("bf16", "text"));
    const char *const one[1] = {"*layers.3.self_attn.q_proj.weight_scale"};
    sb_take take;
    sb_error err = {""};
    assert_int_equal(sb_take_plan(base, other, one, 1, &take, &err), SB_OK);
    assert_int_equal(take.module_count, 1);
    assert_int_equal(take.dropped_count, 4);
    assert_int_equal(take.taken_count, 1);
    assert_string_equal(take.taken[0].name, "model.layers.3.self_attn.q_proj.weight");
    sb_take_free(&take);
    const char *const part[1] = {"*layers.0.mlp.experts.3.gate_proj*"};
    assert_int_equal(sb_take_plan(base, other, part, 1, &take, &err), SB_ERR_USAGE);
    assert_non_null(strstr(err.text, "they can only be taken together"));
    const char *const near[1] = {"layers.*.linear_atn.*"};
    assert_int_equal(sb_take_plan(base, other, near, 1, &take, &err), SB_ERR_USAGE);
    assert_non_null(strstr(err.text, "linear_attn"));
    const char *const none[2] = {"mtp.*", "nothing"};
    assert_int_equal(sb_take_plan(base, other, none, 2, &take, &err), SB_ERR_USAGE);
    assert_non_null(strstr(err.text, "nothing"));
    sb_checkpoint_close(base);
    sb_checkpoint_close(other);
}

/* Any failing allocation is an error without leaks or use after free. */
TEST(test_memory)
{
    const char *base = made("bf16", "text"), *other = made("fp8-block", "text");
    char text[1400];
    snprintf(text, sizeof text, "layers.3.self_attn.*=%s", other);
    sb_status status = SB_ERR_MEMORY;
    for (unsigned long n = 1; status; n = n < 60 ? n + 1 : n + n / 3) {
        sb_checkpoint *c = opened(base);
        sb_error err = {""};
        sb_alloc_fail_at(n);
        status = sb_take_overlay_text(c, text, &err);
        sb_alloc_fail_at(0);
        if (status && status != SB_ERR_MEMORY)
            fail_msg("allocation %lu: %s", n, err.text);
        sb_checkpoint_close(c);
    }
}
