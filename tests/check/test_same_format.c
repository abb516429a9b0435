/* test_same_format.c - V-14 with an original that is itself quantized. In every format the smallest
 * fault of every part is found; copies, other calibrations and other quantizers pass. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check/folder.h"
#include "tests/lib/checkpoint.h"
#include "tools/check/convert/convert.h"
#include "tools/report/check/report.h"

#define LAYER "model.layers.1.mlp.experts.1.up_proj."

static const char *vehicle(const char *format, const char *more)
{
    static char text[4][96];
    static unsigned next;
    char *to = text[next++ % 4];
    snprintf(to, sizeof text[0], "T3 %s recipe=plain%s", format, more);
    return to;
}

/* The number of tensors that were not compared; *tensors is the number of all. */
static size_t not_compared(const folder_result *r, size_t *tensors)
{
    sb_report report = {.check = &r->check, .path = "", .against = ""};
    sb_error err = {""};
    size_t sum = 0;
    if (sb_report_make(&report, &err))
        fail_msg("%s", err.text);
    for (size_t i = 0; i < report.compared.role_count; i++)
        sum += report.compared.roles[i].count;
    assert_int_equal(sum, report.compared.not_compared);
    *tensors = report.compared.tensors;
    sb_report_free(&report);
    return sum;
}

static int is_input(const char *name)
{
    return strstr(name, ".input_scale") || strstr(name, ".input_global_scale");
}

/* V-14: "One bit of any part" */
TEST(test_bits)
{
    for (size_t i = 0; test_quantized_format(i); i++) {
        const char *name = vehicle(test_quantized_format(i), "");
        folder *intact = folder_of(name);
        size_t parts = 0;
        for (size_t k = 0; k < intact->count; k++) {
            const char *tensor = intact->tensors[k]->name;
            if (strncmp(tensor, LAYER, strlen(LAYER)) != 0)
                continue;
            folder *f = folder_copy(intact);
            folder_tensor *t = folder_find(f, tensor);
            folder_flip(t, t->size / 2 & ~(uint64_t)3, 1);
            folder_result *r = folder_check(f, name, NULL);
            /* a wrong shape or group index may make the layer unreadable */
            if (is_input(tensor)) {
                expect_finding(r, 14, SB_LEVEL_warn, tensor);
                expect_none_above(r, SB_LEVEL_warn);
            } else if (!folder_finding(r, 0, SB_LEVEL_fatal, LAYER)) {
                expect_finding(r, 14, SB_LEVEL_error, tensor);
            }
            folder_result_free(r);
            folder_free(f);
            parts++;
        }
        assert_true(parts >= 2);
        folder_free(intact);
    }
}

/* V-14: "A layer more than half of whose codes differ is one finding" */
TEST(test_foreign)
{
    for (size_t i = 0; test_quantized_format(i); i++) {
        const char *name = vehicle(test_quantized_format(i), "");
        folder *f = folder_of(name),
               *other = folder_of(vehicle(test_quantized_format(i), " seed=43"));
        size_t findings = 0;
        for (size_t k = 0; k < f->count; k++)
            if (strncmp(f->tensors[k]->name, LAYER, strlen(LAYER)) == 0)
                folder_copy_bytes(f->tensors[k], folder_find(other, f->tensors[k]->name));
        folder_result *r = folder_check(f, name, NULL);
        expect_finding(r, 14, SB_LEVEL_error, LAYER);
        for (size_t k = 0; k < r->check.findings.count; k++) {
            const sb_finding *row = &r->check.findings.rows[k];
            findings += row->check == 14 && row->level == SB_LEVEL_error;
        }
        if (findings != 1) {
            folder_print(r);
            fail_msg("%s: %zu findings, expected 1", name, findings);
        }
        folder_result_free(r);
        folder_free(f);
        folder_free(other);
    }
}

TEST(test_copy)
{
    for (size_t i = 0; test_quantized_format(i); i++) {
        const char *name = vehicle(test_quantized_format(i), "");
        size_t tensors;
        folder_result *r = folder_check_made(name, name, NULL);
        expect_none(r, 14);
        if (strcmp(test_quantized_format(i), "int4-int8-head") == 0) /* V-9: not declared */
            expect_only(r, 9, "lm_head");
        else
            expect_none_above(r, SB_LEVEL_warn);
        assert_int_equal(not_compared(r, &tensors), 0);
        assert_int_equal(tensors, sb_checkpoint_count(r->check.self.checkpoint));
        folder_result_free(r);
    }
}

/* V-14: "It counts every tensor without a counterpart or a law" */
TEST(test_counted)
{
    size_t tensors, inputs = 0;
    folder_result *r = folder_check_made(vehicle("nvfp4-ct", ""), vehicle("bf16", ""), NULL);
    const sb_checkpoint *c = r->check.self.checkpoint;
    for (size_t i = 0; i < sb_checkpoint_count(c); i++)
        inputs += is_input(sb_checkpoint_at(c, i)->name) != 0;
    assert_true(inputs > 0);
    assert_int_equal(not_compared(r, &tensors), inputs);
    folder_result_free(r);

    folder *f = folder_of(vehicle("bf16", ""));
    folder_drop(f, "model.layers.1.mlp.gate.weight");
    folder_drop(f, "model.norm.weight");
    const char *cut = folder_write(f);
    r = folder_check_made(vehicle("bf16", ""), cut, NULL);
    assert_int_equal(not_compared(r, &tensors), 2);
    folder_result_free(r);
    folder_free(f);
}

/* If every layer was quantized by another tool, or into another dialect, that is one WARN. A layer
 * of another model among them is an ERROR. */
TEST(test_anew)
{
    static const char *const pairs[][2] = {
        {"nvfp4-ct", "nvfp4-modelopt"}, {"nvfp4-modelopt", "nvfp4-ct"},
        {"mxfp4", "nvfp4-ct"},          {"int4-ct", "int4-gptq"},
        {"int4-gptq", "int4-ct"},       {"int4-autoround", "int4-gptq"},
        {"int4-awq", "int4-gptq"},      {"fp8-block", "fp8-channel"},
        {"int8-gptq", "int4-gptq"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        const char *original = vehicle(pairs[i][1], "");
        folder *f = folder_of(vehicle(pairs[i][0], ""));
        folder_result *r = folder_check(f, original, NULL);
        const sb_finding *anew = NULL;
        for (size_t k = 0; k < r->check.findings.count; k++)
            if (strstr(r->check.findings.rows[k].message, "were quantized again"))
                anew = &r->check.findings.rows[k];
        assert_true(anew && anew->check == 14 && anew->level == SB_LEVEL_warn);
        expect_none_above(r, SB_LEVEL_warn);
        folder_result_free(r);

        folder *other = folder_of(vehicle(pairs[i][0], " seed=43"));
        for (size_t k = 0; k < f->count; k++)
            if (strncmp(f->tensors[k]->name, LAYER, strlen(LAYER)) == 0)
                folder_copy_bytes(f->tensors[k], folder_find(other, f->tensors[k]->name));
        r = folder_check(f, original, NULL);
        expect_finding(r, 14, SB_LEVEL_error, LAYER);
        folder_result_free(r);
        folder_free(other);
        folder_free(f);
    }
}

/* The same codes under 0.9 times the global scale, in every layer, are not the work of another
 * quantizer. */
TEST(test_globals)
{
    const char *name = vehicle("nvfp4-ct", "");
    folder *f = folder_of(name);
    for (size_t k = 0; k < f->count; k++)
        if (strstr(f->tensors[k]->name, ".weight_global_scale"))
            folder_set(f->tensors[k], 0, folder_get(f->tensors[k], 0) * 0.9f);
    folder_result *r = folder_check(f, name, NULL);
    expect_finding(r, 14, SB_LEVEL_error, "model.layers.1.mlp.experts.1.up_proj.weight_global");
    folder_result_free(r);
    folder_free(f);
}

/* V-14: bits that are flipped in every layer are an ERROR, and not the work of another quantizer,
 * unless each flip changes a code to its neighbour. */
TEST(test_rot)
{
    static const char *const rotten[] = {"nvfp4-ct", "fp8-block", "int4-gptq"};
    for (size_t i = 0; i < sizeof rotten / sizeof *rotten; i++) {
        const char *name = vehicle(rotten[i], "");
        folder *f = folder_of(name);
        for (size_t k = 0; k < f->count; k++)
            if (f->tensors[k]->dtype != SB_DTYPE_BF16 && f->tensors[k]->size >= 8192)
                folder_flip(f->tensors[k], 101, 0x44);
        folder_result *r = folder_check(f, name, NULL);
        expect_finding(r, 14, SB_LEVEL_error, LAYER);
        folder_result_free(r);
        folder_free(f);
    }
}

/* A conversion to the other dialect of NVFP4, whose global scales are reciprocals, keeps the
 * values. Any flipped bit in it is found. */
TEST(test_converted)
{
    const char *name = vehicle("nvfp4-ct", ""),
               *target = test_path("test_same_format", "converted");
    sb_convert_options o = {
        .source = folder_path(name), .target = target, .to = "nvfp4-modelopt", .replace = 1};
    sb_conversion c;
    sb_error err = {""};
    size_t tensors;
    if (sb_convert(&o, &c, &err))
        fail_msg("%s", err.text);
    sb_conversion_free(&c);
    folder_result *r = folder_check_made(target, name, NULL);
    expect_none(r, 14);
    expect_none_above(r, SB_LEVEL_warn);
    assert_int_equal(not_compared(r, &tensors), 0);
    folder_result_free(r);

    static const char *const parts[] = {"weight", "weight_scale", "weight_scale_2"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char tensor[128];
        folder *f = folder_at(target);
        snprintf(tensor, sizeof tensor, LAYER "%s", parts[i]);
        folder_flip(folder_find(f, tensor), 1, 4);
        r = folder_check(f, name, NULL);
        expect_finding(r, 14, SB_LEVEL_error, LAYER);
        folder_result_free(r);
        folder_free(f);
    }
}

TEST(test_calibrated)
{
    const char *name = vehicle("nvidia-mix", " kv");
    folder *f = folder_of(name);
    for (size_t k = 0; k < f->count; k++)
        if (is_input(f->tensors[k]->name) || strstr(f->tensors[k]->name, "k_scale"))
            folder_set(f->tensors[k], 0, folder_get(f->tensors[k], 0) * 1.25f);
    folder_result *r = folder_check(f, name, NULL);
    expect_finding(r, 14, SB_LEVEL_warn, "input_scale");
    expect_finding(r, 14, SB_LEVEL_warn, "k_scale");
    expect_none_above(r, SB_LEVEL_warn);
    folder_result_free(r);
    folder_free(f);
}
