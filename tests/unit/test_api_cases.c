/* test_api_cases.c - cases of ref/samebit.h: they equal those of the program, they can be made from
 * a caller's arrays, and wrong arguments are errors. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/samebit.h"
#include "tests/lib/checkpoint.h"
#include "tools/judge/gate/gate.h"

#define PROGRAM "test_api_cases"
#define SHAPE "rows=3,n=24,k=64"

enum { ROWS = 3, N = 24, ARRAYS = 8 };

static samebit_error err;

static void good(samebit_status status)
{
    if (status)
        fail_msg("status %d: %s", (int)status, err.text);
}

/* The call was refused with a message of one line that contains `word`. */
static void refused(samebit_status status, samebit_status expected, const char *word)
{
    assert_int_equal(status, expected);
    if (!strstr(err.text, word) || strchr(err.text, '\n'))
        fail_msg("'%s' is not one line with '%s'", err.text, word);
    memset(&err, 0, sizeof err);
}

static samebit_case *make(const char *format)
{
    samebit_case *c = NULL;
    good(samebit_case_make("linear", format, SHAPE, "normal", NULL, 42, &c, &err));
    return c;
}

/* input() returns the input of that name; inputs() returns all of them, in order. */
static samebit_array input(const samebit_case *c, const char *name)
{
    samebit_array a;
    for (size_t i = 0; i < samebit_case_inputs(c); i++) {
        good(samebit_case_input(c, i, &a, &err));
        if (strcmp(a.name, name) == 0)
            return a;
    }
    fail_msg("there is no input %s", name);
    return a;
}

static size_t inputs(const samebit_case *c, samebit_array out[ARRAYS])
{
    size_t count = samebit_case_inputs(c);
    assert_true(count > 0 && count <= ARRAYS);
    for (size_t i = 0; i < count; i++)
        good(samebit_case_input(c, i, &out[i], &err));
    return count;
}

TEST(the_lists_end)
{
    size_t op = 0, i = 0;
    while (samebit_op_name(op) && strcmp(samebit_op_name(op), "linear") != 0)
        op++;
    assert_true(op < samebit_op_count());
    assert_non_null(samebit_op_help(op));
    assert_non_null(samebit_op_clause(op));
    while (samebit_op_format(op, i))
        i++;
    assert_true(i > 3);
    assert_null(samebit_op_format(op, i + 100));
    assert_string_equal(samebit_op_param(op, 0), "rows");
    assert_null(samebit_op_param(op, 100));
    assert_non_null(samebit_op_shape(op, 0));
    assert_int_equal(samebit_op_takes(op, 0), 1);
    assert_int_equal(samebit_op_takes(op, samebit_regime_count()), 0);
    op = samebit_op_count();
    assert_null(samebit_op_name(op));
    assert_null(samebit_op_help(op));
    assert_null(samebit_op_clause(op));
    assert_null(samebit_op_format(op, 0));
    assert_null(samebit_op_param(op, 0));
    assert_null(samebit_op_shape(op, 0));
    assert_int_equal(samebit_op_takes(op, 0), 0);
    assert_string_equal(samebit_regime_name(0), "normal");
    assert_non_null(samebit_regime_help(0));
    assert_null(samebit_regime_name(samebit_regime_count()));
    assert_null(samebit_regime_help(samebit_regime_count()));
    samebit_name name;
    assert_string_equal(samebit_arith_name(0, &name), "exact");
    assert_non_null(samebit_arith_help(0));
    assert_null(samebit_arith_name(0, NULL));
    assert_null(samebit_arith_name(samebit_arith_count(), &name));
    assert_null(samebit_arith_help(samebit_arith_count()));
}

TEST(a_case_is_that_of_the_program)
{
    sb_gate_request request = {.op = "linear",
                               .format = "nvfp4-ct",
                               .shape = SHAPE,
                               .regime = "normal",
                               .input = SB_DTYPE_BF16,
                               .seed = 42};
    sb_gate_case *expected = NULL;
    sb_gate_arith ar;
    sb_error error;
    double hi[ROWS * N], lo[ROWS * N], bound[ROWS * N], own[ROWS * N];
    samebit_case *c = make("nvfp4-ct");
    samebit_case_info info = {.size = sizeof info};
    assert_int_equal(sb_gate_case_make(&request, &expected, &error), SB_OK);
    good(samebit_case_about(c, &info, &err));
    assert_string_equal(info.op, "linear");
    assert_string_equal(info.format, "nvfp4-ct");
    assert_string_equal(info.shape, SHAPE);
    assert_string_equal(info.regime, "normal");
    assert_string_equal(info.input, "BF16");
    assert_int_equal(info.seed, 42);
    assert_int_equal(samebit_case_inputs(c), expected->arrays);
    for (size_t i = 0; i < expected->arrays; i++) {
        samebit_array a = input(c, expected->array[i].name);
        assert_int_equal(a.bytes, expected->array[i].bytes);
        assert_memory_equal(a.data, expected->array[i].data, a.bytes);
        assert_string_equal(a.axes, expected->array[i].axes);
    }
    samebit_array out;
    assert_int_equal(samebit_case_outputs(c), 1);
    good(samebit_case_output(c, 0, &out, &err));
    assert_string_equal(out.name, "out");
    assert_string_equal(out.dtype, "F32");
    assert_int_equal(out.bytes, sizeof(float) * ROWS * N);
    assert_memory_equal(out.data, expected->output[0].exact, out.bytes);
    assert_int_equal(samebit_case_is_choice(c, 0), 0);
    assert_int_equal(samebit_case_is_choice(c, 1), 0);
    good(samebit_case_real(c, 0, hi, lo, &err));
    good(samebit_case_real(c, 0, hi, NULL, &err));
    good(samebit_case_bound(c, 0, "bf16_mma", bound, &err));
    assert_int_equal(sb_gate_arith_of("bf16_mma", &ar, &error), SB_OK);
    assert_int_equal(sb_gate_bound(expected, &ar, 0, own, &error), SB_OK);
    assert_memory_equal(bound, own, sizeof bound);
    for (size_t i = 0; i < ROWS * N; i++) {
        assert_true(hi[i] == expected->output[0].real[i].hi);
        assert_true(lo[i] == expected->output[0].real[i].lo);
    }
    sb_gate_case_free(expected);
    samebit_case_free(c);
    samebit_case_free(NULL);
}

TEST(a_file_comes_back)
{
    const char *path = test_path(PROGRAM, "case.safetensors");
    samebit_case *c = make("fp8-block"), *again = NULL;
    samebit_name arith;
    samebit_array a, b;
    good(samebit_case_write(c, "fp32+bf16", path, &err));
    good(samebit_case_read(path, &again, &arith, &err));
    assert_string_equal(arith.text, "fp32+bf16");
    good(samebit_case_output(c, 0, &a, &err));
    good(samebit_case_output(again, 0, &b, &err));
    assert_memory_equal(a.data, b.data, a.bytes);
    samebit_case_free(again);
    again = NULL;
    good(samebit_case_read(path, &again, NULL, &err));
    samebit_case_free(again);
    again = NULL;
    refused(samebit_case_read("/nowhere/at/all", &again, NULL, &err), SAMEBIT_REFUSED, "/nowhere");
    refused(samebit_case_write(c, "blue", path, &err), SAMEBIT_USAGE, "blue");
    refused(samebit_case_write(c, "fp32", "/nowhere/at/all", &err), SAMEBIT_REFUSED, "/nowhere");
    assert_null(again);
    samebit_case_free(c);
}

/* The caller's own arrays: the expected values follow from them. */
TEST(a_case_from_arrays)
{
    samebit_case *c = make("nvfp4-ct"), *own = NULL;
    samebit_array arrays[ARRAYS], a, b;
    char names[ARRAYS][64];
    uint16_t x[3 * 64];
    size_t count = inputs(c, arrays);
    for (size_t i = 0; i < count; i++) { /* names as in a file; first and last exchanged */
        snprintf(names[i], sizeof names[i], "in.%s", arrays[i].name);
        arrays[i].name = names[i];
        arrays[i].axes = NULL;
    }
    a = arrays[0];
    arrays[0] = arrays[count - 1];
    arrays[count - 1] = a;
    good(samebit_case_from_arrays("linear", "nvfp4-ct", SHAPE, NULL, arrays, count, &own, &err));
    good(samebit_case_output(c, 0, &a, &err));
    good(samebit_case_output(own, 0, &b, &err));
    assert_memory_equal(a.data, b.data, a.bytes);
    samebit_case_free(own);
    /* twice the activations, twice the outputs */
    for (size_t i = 0; i < count; i++)
        if (strcmp(arrays[i].name, "in.x") == 0) {
            assert_int_equal(arrays[i].bytes, sizeof x);
            memcpy(x, arrays[i].data, sizeof x);
            for (size_t k = 0; k < sizeof x / sizeof *x; k++)
                x[k] = (uint16_t)(x[k] + 0x80);
            arrays[i].data = x;
        }
    good(samebit_case_from_arrays("linear", "nvfp4-ct", SHAPE, NULL, arrays, count, &own, &err));
    good(samebit_case_output(own, 0, &b, &err));
    for (size_t i = 0; i < ROWS * N; i++)
        assert_true(((const float *)b.data)[i] == 2 * ((const float *)a.data)[i]);
    /* a file must name the seed of its inputs, and a caller's inputs have none */
    refused(samebit_case_write(own, "fp32", "never.safetensors", &err), SAMEBIT_USAGE, "seed");
    samebit_case_free(own);
    samebit_case_free(c);
}

/* Errors in one array, or in the number of arrays. */
TEST(arrays_are_looked_at)
{
    samebit_case *c = make("bf16"), *own = NULL;
    samebit_array arrays[ARRAYS + 1], kept;
    size_t count = inputs(c, arrays);
    kept = arrays[0];
#define TRY(number, word)                                                                          \
    refused(samebit_case_from_arrays("linear", "bf16", SHAPE, NULL, arrays, number, &own, &err),   \
            SAMEBIT_USAGE, word);                                                                  \
    arrays[0] = kept
    TRY(count - 1, "missing");
    TRY(0, "missing");
    arrays[count] = arrays[0];
    TRY(count + 1, "twice");
    arrays[0].name = "no-such";
    TRY(count, "no-such");
    arrays[0].name = NULL;
    TRY(count, "not an input");
    arrays[0].dtype = "BLUE";
    TRY(count, "BLUE");
    arrays[0].dtype = NULL;
    TRY(count, "not a dtype");
    arrays[0].bytes--;
    TRY(count, "bytes");
    arrays[0].data = NULL;
    TRY(count, "bytes");
    arrays[0].rank = SAMEBIT_RANK + 1;
    TRY(count, "dimensions");
    arrays[0].shape[0] = 0;
    TRY(count, "");
    arrays[0].shape[0] = UINT64_MAX;
    TRY(count, "");
    arrays[0].shape[0]++;
    TRY(count, "bytes");
    arrays[0].dtype = "F16";
    TRY(count, "F16");
    refused(samebit_case_from_arrays("no-such", NULL, NULL, NULL, arrays, count, &own, &err),
            SAMEBIT_USAGE, "no-such");
    refused(samebit_case_from_arrays("linear", "bf16", SHAPE, NULL, NULL, count, &own, &err),
            SAMEBIT_USAGE, "NULL");
    refused(samebit_case_from_arrays("linear", "bf16", "rows=4,n=24,k=64", NULL, arrays, count,
                                     &own, &err),
            SAMEBIT_USAGE, "expected");
    assert_null(own);
    samebit_case_free(c);
}

TEST(requests_are_looked_at)
{
    samebit_case *c = NULL;
    samebit_case_info info = {.size = 1};
    samebit_array a;
    double x;
    refused(samebit_case_make("no-such", NULL, NULL, NULL, NULL, 1, &c, &err), SAMEBIT_USAGE,
            "no-such");
    refused(samebit_case_make("linear", "no-such", NULL, NULL, NULL, 1, &c, &err), SAMEBIT_USAGE,
            "no-such");
    refused(samebit_case_make("linear", NULL, "blue=1", NULL, NULL, 1, &c, &err), SAMEBIT_USAGE,
            "blue");
    refused(samebit_case_make("linear", NULL, NULL, "blue", NULL, 1, &c, &err), SAMEBIT_USAGE,
            "blue");
    refused(samebit_case_make("linear", NULL, NULL, NULL, "BLUE", 1, &c, &err), SAMEBIT_USAGE,
            "BLUE");
    refused(samebit_case_make("linear", NULL, NULL, NULL, "U8", 1, &c, &err), SAMEBIT_USAGE, "U8");
    refused(samebit_case_make(NULL, NULL, NULL, NULL, NULL, 1, &c, &err), SAMEBIT_USAGE, "NULL");
    refused(samebit_case_make("linear", NULL, NULL, NULL, NULL, 1, NULL, &err), SAMEBIT_USAGE,
            "NULL");
    assert_null(c);
    c = make(NULL);
    refused(samebit_case_about(c, &info, &err), SAMEBIT_USAGE, "size");
    refused(samebit_case_input(c, 100, &a, &err), SAMEBIT_USAGE, "input 100");
    refused(samebit_case_output(c, 1, &a, &err), SAMEBIT_USAGE, "output 1");
    refused(samebit_case_real(c, 1, &x, NULL, &err), SAMEBIT_USAGE, "output 1");
    refused(samebit_case_bound(c, 1, "fp32", &x, &err), SAMEBIT_USAGE, "output 1");
    refused(samebit_case_bound(c, 0, "blue", &x, &err), SAMEBIT_USAGE, "blue");
    refused(samebit_case_real(c, 0, NULL, NULL, &err), SAMEBIT_USAGE, "NULL");
    refused(samebit_case_read(NULL, &c, NULL, &err), SAMEBIT_USAGE, "NULL");
    refused(samebit_case_write(NULL, "fp32", "x", &err), SAMEBIT_USAGE, "NULL");
    assert_int_equal(samebit_case_inputs(NULL) + samebit_case_outputs(NULL), 0);
    samebit_case_free(c);
}

/* Makes a case, the same case from its own arrays, and a bound. */
static samebit_status live(void)
{
    samebit_case *c = NULL, *own = NULL;
    samebit_array arrays[ARRAYS];
    double bound[ROWS * N];
    samebit_status status =
        samebit_case_make("linear", "nvfp4-ct", SHAPE, NULL, NULL, 42, &c, &err);
    if (!status)
        status = samebit_case_from_arrays("linear", "nvfp4-ct", SHAPE, NULL, arrays,
                                          inputs(c, arrays), &own, &err);
    if (!status)
        status = samebit_case_bound(own, 0, "bf16_mma", bound, &err);
    samebit_case_free(own);
    samebit_case_free(c);
    return status;
}

TEST(memory_runs_out_anywhere)
{
    unsigned long failed = 0;
    samebit_status status = SAMEBIT_REFUSED;
    while (status) {
        memset(&err, 0, sizeof err);
        sb_alloc_fail_at(++failed);
        status = live();
        sb_alloc_fail_at(0);
        if (status)
            refused(status, SAMEBIT_REFUSED, "memory");
        assert_true(failed < 10000);
    }
    assert_true(failed > 10);
}
