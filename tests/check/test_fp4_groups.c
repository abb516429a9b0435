/* test_fp4_groups.c - FP4 matrices side by side: who is to blame, and what is a producer's habit.
 */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <string.h>

#include "tests/check/folder.h"

#define CT "T3 nvfp4-ct recipe=plain"
#define MODELOPT "T3 nvfp4-modelopt recipe=plain"
#define BF16 "T3 bf16 recipe=plain"
#define EXPERT "model.layers.1.mlp.experts.1."

static void scale(folder *f, const char *name, float by)
{
    folder_tensor *t = folder_find(f, name);
    folder_set(t, 0, by * folder_get(t, 0));
}

/* Every tensor whose name ends so. */
static void scale_all(folder *f, const char *end, float by)
{
    for (size_t i = 0; i < f->count; i++) {
        const char *name = f->tensors[i]->name;
        if (strlen(name) > strlen(end) && strcmp(name + strlen(name) - strlen(end), end) == 0)
            folder_set(f->tensors[i], 0, by * folder_get(f->tensors[i], 0));
    }
}

static size_t count_of(const folder_result *r, unsigned check, sb_level level)
{
    size_t count = 0;
    for (size_t i = 0; i < r->check.findings.count; i++)
        count +=
            r->check.findings.rows[i].check == check && r->check.findings.rows[i].level == level;
    return count;
}

/* V-26: "at the member that is to blame", with and without an original. */
TEST(test_blame)
{
    static const char *const odd[] = {
        EXPERT "gate_proj", EXPERT "up_proj", "model.layers.3.self_attn.q_proj",
        "model.layers.3.self_attn.k_proj", "model.layers.3.self_attn.v_proj"};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        for (int against = 0; against < 2; against++) {
            char name[96];
            folder *f = folder_of(CT);
            snprintf(name, sizeof name, "%s.weight_global_scale", odd[i]);
            scale(f, name, 4);
            folder_result *r = folder_check(f, against ? BF16 : NULL, NULL);
            expect_finding(r, 26, SB_LEVEL_error, odd[i]);
            assert_int_equal(count_of(r, 26, SB_LEVEL_error), 1);
            if (against)
                expect_finding(r, 24, SB_LEVEL_error, odd[i]);
            folder_result_free(r);
            folder_free(f);
        }
}

/* V-26: "it is one line" where all differ. */
TEST(test_habit)
{
    folder *f = folder_of(CT);
    scale_all(f, ".up_proj.weight_global_scale", 0.5f);
    folder_result *r = folder_check(f, NULL, NULL);
    assert_int_equal(count_of(r, 26, SB_LEVEL_error), 0);
    assert_int_equal(count_of(r, 26, SB_LEVEL_warn), 1);
    folder_result_free(r);
    folder_free(f);
    f = folder_of(MODELOPT);
    scale_all(f, ".up_proj.weight_scale_2", 0.5f);
    r = folder_check(f, NULL, NULL);
    assert_int_equal(count_of(r, 26, SB_LEVEL_error), 1);
    folder_result_free(r);
    folder_free(f);
}

/* V-24: "further than 0.04 from 1": every global scale of a role a tenth off. */
TEST(test_factor_of_all)
{
    folder *f = folder_of(CT);
    scale_all(f, ".down_proj.weight_global_scale", 1 / 0.9f);
    folder_result *r = folder_check(f, BF16, NULL);
    expect_finding(r, 24, SB_LEVEL_error, EXPERT "down_proj");
    folder_result_free(r);
    folder_free(f);
}

/* Codes of 7 to 6 in every matrix: another recipe. In one: damage. */
static void no_sevens(folder_tensor *t)
{
    for (uint64_t i = 0; i < 2 * t->size; i++)
        if ((folder_nibble(t, i) & 7u) == 7)
            folder_set_nibble(t, i, folder_nibble(t, i) - 1);
}

TEST(test_recipe)
{
    folder *f = folder_of(CT);
    no_sevens(folder_find(f, EXPERT "down_proj.weight_packed"));
    folder_result *r = folder_check(f, NULL, NULL);
    expect_finding(r, 19, SB_LEVEL_error, EXPERT "down_proj");
    assert_int_equal(count_of(r, 19, SB_LEVEL_error), 1);
    folder_result_free(r);
    for (size_t i = 0; i < f->count; i++)
        if (strstr(f->tensors[i]->name, ".weight_packed"))
            no_sevens(f->tensors[i]);
    r = folder_check(f, NULL, NULL);
    assert_int_equal(count_of(r, 19, SB_LEVEL_error), 0);
    assert_null(folder_finding(r, 19, SB_LEVEL_warn, ""));
    expect_finding(r, 19, SB_LEVEL_info, "");
    folder_result_free(r);
    folder_free(f);
}

/* The global scale of another matrix: a plausible number, but not this one's. */
TEST(test_stale_global)
{
    folder *f = folder_of(CT);
    folder_tensor *t = folder_find(f, EXPERT "down_proj.weight_global_scale");
    folder_set(t, 0, 0.75f * folder_get(t, 0)); /* a BF16 number still */
    for (int against = 0; against < 2; against++) {
        folder_result *r = folder_check(f, against ? BF16 : NULL, NULL);
        assert_int_equal(count_of(r, 18, SB_LEVEL_error), 0); /* the scales are full: not visible */
        if (against) {
            expect_finding(r, 24, SB_LEVEL_error, EXPERT "down_proj");
            expect_finding(r, 25, SB_LEVEL_error, EXPERT "down_proj");
        }
        folder_result_free(r);
    }
    folder_free(f);
}

TEST(test_inputs)
{
    folder *f = folder_of(MODELOPT);
    folder_tensor *t = folder_find(f, EXPERT "up_proj.input_scale");
    float was = folder_get(t, 0);
    folder_set(t, 0, 2 * was);
    folder_result *r = folder_check(f, NULL, NULL);
    expect_finding(r, 27, SB_LEVEL_warn, EXPERT "up_proj");
    folder_result_free(r);
    folder_set(t, 0, was * 1.0009f);
    r = folder_check(f, NULL, NULL);
    expect_finding(r, 27, SB_LEVEL_warn, EXPERT "up_proj");
    folder_result_free(r);
    folder_set(t, 0, was);
    folder_drop(f, EXPERT "up_proj.input_scale");
    folder_drop(f, EXPERT "gate_proj.input_scale");
    r = folder_check(f, NULL, NULL);
    expect_finding(r, 27, SB_LEVEL_error, EXPERT "up_proj");
    expect_finding(r, 27, SB_LEVEL_error, EXPERT "gate_proj");
    assert_int_equal(count_of(r, 27, SB_LEVEL_error), 2);
    folder_result_free(r);
    folder_free(f);
}

/* Halves of W13 swapped: gate and up of an expert, whole. Only an original tells. */
TEST(test_swapped)
{
    static const char *const parts[] = {"weight_packed", "weight_scale"};
    folder *f = folder_of(CT);
    for (unsigned i = 0; i < 2; i++) {
        char gate[96], up[96];
        snprintf(gate, sizeof gate, EXPERT "gate_proj.%s", parts[i]);
        snprintf(up, sizeof up, EXPERT "up_proj.%s", parts[i]);
        folder_swap(folder_find(f, gate), folder_find(f, up));
    }
    folder_result *r = folder_check(f, BF16, NULL);
    expect_finding(r, 24, SB_LEVEL_error, EXPERT "gate_proj");
    expect_finding(r, 24, SB_LEVEL_error, EXPERT "up_proj");
    expect_finding(r, 23, SB_LEVEL_error, EXPERT "up_proj");
    folder_result_free(r);
    folder_free(f);
}
