#include "tests/lib/suite.h"

#include <stdio.h>
#include <string.h>

#include "tests/check/folder.h"
#include "tests/check/plant.h"
#include "ref/formats/wide.h"
#include "tools/check/scan/across.h"
#include "tools/check/scan/scan_decoding.h"

/* Beyond faults.def: locations, counts, both storages of experts, and the meaning of two changes
 * together. */

#define BF16 "T3 bf16 recipe=plain"
#define SPLIT "T3 bf16 recipe=plain experts=split"
#define CT "T3 nvfp4-ct recipe=plain"

static folder_result *planted(const char *vehicle, const char *what, const char *against)
{
    folder *f = folder_of(vehicle);
    plant(f, what);
    folder_result *r = folder_check(f, against, NULL);
    folder_free(f);
    return r;
}

/* Expects a finding whose message has this text in it. */
static void expect_text(const folder_result *r, unsigned check, sb_level level, const char *part,
                        const char *text)
{
    expect_finding(r, check, level, part);
    const sb_finding *f = folder_finding(r, check, level, part);
    if (!strstr(f->message, text)) {
        folder_print(r);
        fail_msg("no \"%s\" in: %s", text, f->message);
    }
}

TEST(locations)
{
    folder_result *r = planted(BF16, "set model.layers.1.mlp.experts.down_proj 40000 nan", NULL);
    /* expert 2 of 8 with 128 x 128 values: 40000 = 2 * 16384 + 56 * 128 + 64 */
    expect_text(r, 12, SB_LEVEL_fatal, "model.layers.1.mlp.experts.down_proj",
                "1 NaN and 0 infinite of 131072 values, first 0x7fc0 at expert 2, row 56, column "
                "64 (byte ");
    expect_only(r, 12, "model.layers.1.mlp.experts.down_proj");
    folder_result_free(r);
    r = planted(BF16, "set mtp.norm.weight 3 nan; set mtp.norm.weight 9 inf", NULL);
    expect_text(r, 12, SB_LEVEL_fatal, "mtp.norm.weight",
                "1 NaN and 1 infinite of 128 values, first 0x7fc0 at row 0, column 3 (byte ");
    folder_result_free(r);
    r = planted(CT, "flip model.norm.weight 10 1", BF16);
    expect_text(r, 14, SB_LEVEL_error, "model.norm.weight",
                "1 of 128 values differ from the original, first at row 0, column 5 (byte ");
    expect_only(r, 14, "model.norm.weight");
    folder_result_free(r);
}

TEST(duplicate_experts)
{
    folder *f = folder_of(BF16);
    folder_tensor *t = folder_find(f, "model.layers.1.mlp.experts.down_proj");
    memcpy(t->bytes + 5 * 32768, t->bytes + 2 * 32768, 32768);
    folder_result *r = folder_check(f, NULL, NULL);
    expect_text(r, 13, SB_LEVEL_error, "model.layers.1.mlp.experts.5.down_proj",
                "has the same 32768 bytes as model.layers.1.mlp.experts.2.down_proj");
    expect_finding(r, 13, SB_LEVEL_error, "model.layers.1.mlp.experts.2.down_proj");
    folder_result_free(r);
    memset(t->bytes + 5 * 32768, 0, 32768); /* two dead experts may be equal */
    memset(t->bytes + 2 * 32768, 0, 32768);
    r = folder_check(f, NULL, NULL);
    expect_none(r, 13);
    folder_result_free(r);
    folder_free(f);
}

TEST(moved_experts)
{
    folder *f = folder_of(SPLIT);
    plant(f, "swap-all model.layers.1.mlp.experts.1. model.layers.1.mlp.experts.2.");
    folder_result *r = folder_check(f, BF16, NULL);
    expect_text(r, 43, SB_LEVEL_fatal, "model.layers.1.mlp.experts.1.down_proj",
                "holds the original's expert 2, while row 1 of the router is the original's row 1");
    folder_result_free(r);
    /* if the rows of the router are exchanged, too, it is the same model */
    folder_tensor *router = folder_find(f, "model.layers.1.mlp.gate.weight");
    unsigned char row[256];
    memcpy(row, router->bytes + 256, 256);
    memcpy(router->bytes + 256, router->bytes + 512, 256);
    memcpy(router->bytes + 512, row, 256);
    r = folder_check(f, BF16, NULL);
    expect_none(r, 43);
    folder_result_free(r);
    plant(f, "swap-all model.layers.1.mlp.experts.1. model.layers.1.mlp.experts.2.");
    r = folder_check(f, BF16, NULL);
    expect_text(r, 43, SB_LEVEL_fatal, "model.layers.1.mlp.gate",
                "row 1 is the original's row 2, but expert 1 is the original's");
    folder_result_free(r);
    folder_free(f);
}

TEST(exchanged_gate_and_up)
{
    static const char *const vehicles[] = {SPLIT, CT, "T3 int4-gptq recipe=plain"};
    for (size_t i = 0; i < sizeof vehicles / sizeof *vehicles; i++) {
        folder_result *r = planted(vehicles[i],
                                   "swap-all model.layers.2.mlp.experts.3.gate_proj "
                                   "model.layers.2.mlp.experts.3.up_proj",
                                   BF16);
        expect_text(r, 44, SB_LEVEL_fatal, "model.layers.2.mlp.experts.3.gate_proj",
                    "holds the original's up_proj");
        expect_finding(r, 44, SB_LEVEL_fatal, "model.layers.2.mlp.experts.3.up_proj");
        expect_none(r, 43);
        folder_result_free(r);
    }
}

static float negative(float x)
{
    return -x;
}

TEST(conversions)
{
    folder_result *r = planted(BF16, "plus model.layers.3.self_attn.q_norm.weight 0", BF16);
    expect_none(r, 45);
    folder_result_free(r);
    r = planted(BF16, "plus model.layers.3.self_attn.q_norm.weight 1", BF16);
    expect_text(r, 45, SB_LEVEL_error, "model.layers.3.self_attn.q_norm",
                "the original's value +1");
    folder_result_free(r);
    r = planted(BF16, "plus model.layers.3.self_attn.q_norm.weight 1", NULL);
    expect_finding(r, 45, SB_LEVEL_warn, "model.layers.3.self_attn.q_norm"); /* alone: plausible */
    folder_result_free(r);
    r = planted(BF16,
                "plus layernorm.weight 1; plus model.layers.3.self_attn.q_norm.weight 1; "
                "plus model.norm.weight 1",
                NULL);
    expect_finding(r, 45, SB_LEVEL_error, "model.layers.3.self_attn.q_norm"); /* not the only one */
    expect_finding(r, 45, SB_LEVEL_error, "model.norm.weight");
    folder_result_free(r);
    r = planted(BF16, "plus layernorm.weight 2", NULL); /* shifted twice */
    expect_text(r, 45, SB_LEVEL_error, "model.layers.1.input_layernorm", "an offset of +2");
    folder_result_free(r);
    folder *f = folder_of(BF16);
    folder_map(folder_find(f, "model.layers.1.linear_attn.A_log"), negative);
    r = folder_check(f, BF16, NULL);
    expect_text(r, 46, SB_LEVEL_error, "model.layers.1.linear_attn.A_log", "is -A_log of");
    folder_result_free(r);
    folder_free(f);
}

TEST(other_dtypes)
{
    folder_result *r = folder_check_made("T3 f16 recipe=plain", BF16, NULL);
    expect_none_above(r, SB_LEVEL_warn);
    expect_finding(r, 14, SB_LEVEL_warn, NULL);
    folder_result_free(r);
    r = folder_check_made(BF16, "T3 f32 recipe=plain", NULL); /* rounded from F32 */
    expect_none_above(r, SB_LEVEL_info);
    expect_finding(r, 14, SB_LEVEL_info, NULL);
    folder_result_free(r);
    r = planted(BF16, "flip model.layers.1.linear_attn.in_proj_z.weight 500 1",
                "T3 f32 recipe=plain");
    expect_finding(r, 14, SB_LEVEL_error, "model.layers.1.linear_attn.in_proj_z");
    folder_result_free(r);
}

/* Sums are computed in lanes of binary32. They must be near those of a loop over the values. */
TEST(moments)
{
    folder_result *r = folder_check_made("T6 bf16", NULL, NULL); /* 320 columns, and norms */
    folder *f = folder_of("T6 bf16");
    static const char *const names[] = {"model.layers.0.linear_attn.out_proj",
                                        "model.layers.3.self_attn.q_norm.weight",
                                        "model.layers.0.linear_attn.dt_bias"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const sb_unit *unit = sb_unit_named(&r->check.self.units, names[i]);
        folder_tensor *t = folder_find(f, sb_unit_tensor(unit, SB_PART_COUNT));
        double sum = 0, sum2 = 0, largest = 0;
        uint64_t n = folder_values(t), zeros = 0;
        for (uint64_t k = 0; k < n; k++) {
            double x = (double)folder_get(t, k), magnitude = x < 0 ? -x : x;
            sum += x;
            sum2 += x * x;
            largest = magnitude > largest ? magnitude : largest;
            zeros += x == 0;
        }
        const sb_moments *m = &unit->seen->moments;
        assert_int_equal(m->count, n);
        assert_int_equal(m->zeros, zeros);
        assert_true(m->largest == largest);
        double sum_off = m->sum - sum, sum2_off = m->sum2 - sum2, near = 1e-6 * sum2;
        assert_true(sum2_off < near && sum2_off > -near);
        if (unit->tensor) /* V-45 needs them */
            assert_true(sum_off * sum_off <= 1e-12 * sum2 * (double)n);
        else
            assert_true(m->sum == 0 && m->sum4 == 0);
    }
    folder_free(f);
    folder_result_free(r);
}

/* The definition agrees with the fast decoder on files of every quantizer, and notices one ulp. */
TEST(definitions)
{
    static const char *const vehicles[] = {
        "golden/quant/ct-nvfp4",
        "golden/quant/modelopt-nvfp4",
        "golden/quant/ct-mxfp4",
        "golden/quant/ct-mxfp8",
        "golden/quant/fp8",
        "golden/quant/ct-fp8-block",
        "golden/quant/ct-fp8-dynamic",
        "golden/quant/ct-fp8",
        "golden/quant/gptq-asym",
        "golden/quant/gptq-int8",
        "golden/quant/awq",
        "golden/quant/ct-w4a16-asym",
        "golden/quant/ct-w8a16",
        "golden/quant/ct-w4a16",
        "T6 nvfp4-ct",
    };
    for (size_t i = 0; i < sizeof vehicles / sizeof *vehicles; i++) {
        folder_result *r = folder_check_made(vehicles[i], NULL, NULL);
        size_t matrices = 0;
        expect_none(r, 48);
        for (size_t k = 0; k < r->check.self.units.member_count; k++) {
            const sb_matrix *m = &r->check.self.units.members[k].matrix;
            double values[4096], expected;
            if (!sb_matrix_quantized(m) || m->cols > 4096)
                continue;
            uint32_t row = m->rows / 2;
            sb_matrix_wide(m, row, values);
            assert_int_equal(sb_decoding_differs(m, row, values, &expected), m->cols);
            values[m->cols - 1] = values[m->cols - 1] * (1 + 0x1p-52) + 0x1p-1074;
            assert_int_equal(sb_decoding_differs(m, row, values, &expected), m->cols - 1);
            matrices++;
        }
        assert_true(matrices > 0);
        folder_result_free(r);
    }
}

/* The median and the root that messages use. */
TEST(helpers)
{
    double values[] = {5, 1, 4, 2, 3};
    assert_true(sb_median(values, 5) == 3);
    assert_true(sb_median(values, 0) == 0);
    for (double x = 1e-80; x < 1e80; x *= 37) {
        double root = sb_root(x), error = root * root / x - 1;
        assert_true(error < 1e-6 && error > -1e-6);
    }
    assert_true(sb_root(0) == 0 && sb_root(-1) == 0);
}
