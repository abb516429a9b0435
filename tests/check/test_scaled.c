/* test_scaled.c - tensors that AWQ scales are no fault, and zeros of pruned experts, dead experts,
 * heads and padding are no ERROR. */
#include "tests/lib/suite.h"

#include <string.h>

#include "tests/check/folder.h"
#include "tests/check/plant.h"

#define AWQ "T3 int4-awq recipe=plain"
#define BF16 "T3 bf16 recipe=plain"

/* The worst level of findings of a check at tensors with `where` in their names; -1: none. */
static int worst_of(const folder_result *r, unsigned check, const char *where)
{
    int worst = -1;
    for (size_t i = 0; i < r->check.findings.count; i++) {
        const sb_finding *f = &r->check.findings.rows[i];
        if (f->check == check && strstr(f->tensor, where) && (int)f->level > worst)
            worst = (int)f->level;
    }
    return worst;
}

/* Multiplies columns by powers of 1.1, and rows, too, if `rows`, by powers of 1.3. Values are
 * rounded to the stored type. */
static void scale(folder *f, const char *name, int rows)
{
    folder_tensor *t = folder_find(f, name);
    uint64_t cols = t->shape[1];
    for (uint64_t i = 0; i < folder_values(t); i++) {
        float by = 1;
        for (uint64_t k = i % cols % 17; k > 0; k--)
            by *= 1.1f;
        for (uint64_t k = i / cols % 5; rows && k > 0; k--)
            by *= 1.3f;
        folder_set(t, i, folder_get(t, i) * by);
    }
}

static int level_of_scaled(const char *name, int rows, const char *more)
{
    folder *f = folder_of(AWQ);
    scale(f, name, rows);
    plant(f, more);
    folder_result *r = folder_check(f, BF16, NULL);
    int level = worst_of(r, 14, "");
    folder_result_free(r);
    folder_free(f);
    return level;
}

TEST(test_factors_explain)
{
    assert_int_equal(level_of_scaled("model.layers.2.mlp.gate.weight", 0, ""), SB_LEVEL_info);
    assert_int_equal(level_of_scaled("model.layers.1.linear_attn.in_proj_a.weight", 1, ""),
                     SB_LEVEL_info);
}

TEST(test_factors_do_not)
{
    assert_int_equal(level_of_scaled("model.layers.2.mlp.gate.weight", 0,
                                     "zero model.layers.2.mlp.gate.weight 3 1"),
                     SB_LEVEL_error);
    assert_int_equal(level_of_scaled("model.layers.2.mlp.gate.weight", 0,
                                     "swap model.layers.2.mlp.gate.weight "
                                     "model.layers.1.mlp.gate.weight"),
                     SB_LEVEL_error);
    assert_int_equal(level_of_scaled("model.layers.2.mlp.gate.weight", 0,
                                     "times model.layers.2.mlp.gate.weight -1"),
                     SB_LEVEL_error);
}

/* Nothing in the layer of the head is quantized, so that AWQ has not scaled the layer. */
TEST(test_head_is_not_scaled)
{
    assert_int_equal(level_of_scaled("mtp.layers.0.mlp.gate.weight", 0, ""), SB_LEVEL_error);
}

static int level_of_zeros(const char *vehicle, const char *zeros, const char *where)
{
    folder *f = folder_of(vehicle);
    plant(f, zeros);
    folder_result *r = folder_check(f, NULL, NULL);
    int level = worst_of(r, 21, where);
    folder_result_free(r);
    folder_free(f);
    return level;
}

TEST(test_zeros_by_nature)
{
    assert_int_equal(level_of_zeros("T3 fp8-tensor recipe=plain",
                                    "columns model.layers.1.mlp.experts.6.down_proj.weight 64 64; "
                                    "zero model.layers.1.mlp.experts.6.gate_proj.weight 64 64; "
                                    "zero model.layers.1.mlp.experts.6.up_proj.weight 64 64",
                                    ".experts.6."),
                     SB_LEVEL_warn);
    assert_int_equal(level_of_zeros(BF16, "zero model.embed_tokens.weight 192 192", "embed"),
                     SB_LEVEL_warn);
    assert_int_equal(level_of_zeros(AWQ, "fill-all mtp.layers.0.mlp.experts.5. 0", ".experts.5."),
                     SB_LEVEL_warn);
    assert_int_equal(
        level_of_zeros(BF16, "zero model.layers.3.self_attn.q_proj.weight 0 512", ".q_proj"),
        SB_LEVEL_warn);
}
