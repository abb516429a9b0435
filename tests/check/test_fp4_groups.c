/* test_fp4_groups.c - compares FP4 matrices with each other: one that differs is damaged, a
 * difference in all is a habit of the producer. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <string.h>

#include "ref/base/rng.h"
#include "ref/fast/dot/dot.h"
#include "ref/fast/dot/kernels.h"
#include "tests/check/folder.h"

#define CT "T3 nvfp4-ct recipe=plain"
#define T6 "T6 nvfp4-ct recipe=plain" /* the blocks of a row are no multiple of 8 */
#define MODELOPT "T3 nvfp4-modelopt recipe=plain"
#define BF16 "T3 bf16 recipe=plain"
#define EXPERT "model.layers.1.mlp.experts.1."

static void scale(folder *f, const char *name, float by)
{
    folder_tensor *t = folder_find(f, name);
    folder_set(t, 0, by * folder_get(t, 0));
}

/* Scales the first value of every tensor whose name ends with `end`. */
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

/* V-20: after every code has occurred, only a few codes are counted, and the others in a second
 * pass if a check needs them. draw_codes draws from these tables: all rows with random signs, or,
 * with `below`, only the rows after the first 16, with negative signs. */
static const unsigned char even[16] = {0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7};
static const unsigned char zeros_even[16] = {0, 0, 1, 1, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 7, 7};

static void draw_codes(folder_tensor *t, const unsigned char from[16], int below)
{
    uint64_t key = sb_rng_key(20, "codes");
    for (uint64_t i = below ? 16 * t->shape[1] : 0; i < t->size; i++) {
        unsigned low = from[sb_rng_below(key, 4 * i, 16)],
                 high = from[sb_rng_below(key, 4 * i + 1, 16)];
        low |= below ? 8 : 8 * sb_rng_below(key, 4 * i + 2, 2);
        high |= below ? 8 : 8 * sb_rng_below(key, 4 * i + 3, 2);
        t->bytes[i] = (unsigned char)(high << 4 | low);
    }
}

/* The finding about the tensor, and what was counted. */
static void look_with(const char *isa, const folder *f, char *text, size_t size, sb_seen_fp4 *seen)
{
    assert_int_equal(sb_dot_select(isa, NULL), SB_OK);
    folder_result *r = folder_check(f, NULL, NULL);
    assert_int_equal(sb_dot_select("scalar", NULL), SB_OK);
    const sb_finding *found = folder_finding(r, 20, SB_LEVEL_warn, EXPERT "up_proj");
    const sb_member *m =
        sb_member_plain(&r->check.self.units, &(EXPERT "up_proj")[strlen("model.")]);
    assert_non_null(m);
    snprintf(text, size, "%s", found ? found->message : "");
    *seen = m->seen->fp4;
    folder_result_free(r);
}

TEST(test_few_codes)
{
    static const struct {
        const unsigned char *from;
        int below;
        const char *says;
    } cases[] = {{NULL, 0, ""},
                 {even, 0, "equally frequent"},
                 {zeros_even, 0, ""},
                 {even, 1, "are negative"}};
    for (unsigned n = 0; n < 2 * (sizeof cases / sizeof *cases); n++) {
        const unsigned i = n / 2, eights = n % 2;
        char plain[256], fast[256];
        sb_seen_fp4 a, b;
        folder *f = folder_of(eights ? CT : T6);
        if (cases[i].from)
            draw_codes(folder_find(f, EXPERT "up_proj.weight_packed"), cases[i].from,
                       cases[i].below);
        look_with("scalar", f, plain, sizeof plain, &a);
        assert_true(*cases[i].says ? strstr(plain, cases[i].says) != NULL : !*plain);
        assert_int_equal(a.few, eights);
        for (unsigned set = 0; set < 2; set++) {
            if (!(set ? sb_dot_avx512_supported() : sb_dot_avx2_supported()))
                continue;
            look_with(set ? "avx512" : "avx2", f, fast, sizeof fast, &b);
            assert_string_equal(plain, fast);
            assert_true(b.minus_zero);
            assert_int_equal(b.few, eights);
            for (unsigned m = 0; m < 8; m++)
                assert_int_equal(a.magnitude[m], b.magnitude[m]);
            assert_int_equal(a.negative, b.negative);
        }
        folder_free(f);
    }
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

/* V-24: "A factor further than 0.04 from 1": every global scale of a role a tenth off. */
TEST(test_factor_of_all)
{
    folder *f = folder_of(CT);
    scale_all(f, ".down_proj.weight_global_scale", 1 / 0.9f);
    folder_result *r = folder_check(f, BF16, NULL);
    expect_finding(r, 24, SB_LEVEL_error, EXPERT "down_proj");
    folder_result_free(r);
    folder_free(f);
}

/* Changes codes of 7 to 6. In every matrix that is another recipe, in one matrix it is damage. */
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

/* The global scale of another matrix: plausible, but wrong for this matrix. */
TEST(test_stale_global)
{
    folder *f = folder_of(CT);
    folder_tensor *t = folder_find(f, EXPERT "down_proj.weight_global_scale");
    folder_set(t, 0, 0.75f * folder_get(t, 0)); /* still a BF16 number */
    for (int against = 0; against < 2; against++) {
        folder_result *r = folder_check(f, against ? BF16 : NULL, NULL);
        assert_int_equal(count_of(r, 18, SB_LEVEL_error), 0); /* full scales hide it */
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

/* Gate and up of an expert swapped completely (the halves of W13). Only an original shows it. */
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
