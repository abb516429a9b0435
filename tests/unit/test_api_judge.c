/* test_api_judge.c - judgements of ref/samebit.h: correct outputs pass, spoiled ones do not, and
 * wrong arguments are errors. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/samebit.h"

#define SHAPE "rows=3,n=24,k=64"

enum { ROWS = 3, N = 24, K = 64 };

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

static samebit_case *make(const char *regime)
{
    samebit_case *c = NULL;
    good(samebit_case_make("linear", "bf16", SHAPE, regime, NULL, 42, &c, &err));
    return c;
}

/* A copy of the expected values, as an output. */
static samebit_array expected(const samebit_case *c, float values[ROWS * N])
{
    samebit_array a;
    good(samebit_case_output(c, 0, &a, &err));
    assert_int_equal(a.bytes, ROWS * N * sizeof *values);
    memcpy(values, a.data, a.bytes);
    a.data = values;
    return a;
}

static float bf16(const samebit_array *a, size_t i)
{
    uint16_t half;
    memcpy(&half, (const char *)a->data + 2 * i, sizeof half);
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

TEST(what_is_right_passes)
{
    float values[ROWS * N];
    samebit_case *c = make("normal");
    samebit_array got = expected(c, values);
    samebit_result r = {.size = sizeof r};
    good(samebit_case_judge(c, "exact", &got, 1, &r, &err));
    assert_string_equal(r.verdict, "IDENTICAL");
    assert_string_equal(r.arith.text, "exact");
    assert_int_equal(r.count, ROWS * N);
    assert_int_equal(r.identical, ROWS * N);
    assert_int_equal(r.has_first, 0);
    assert_int_equal(r.size, sizeof r);
    /* without an arithmetic, the tightest that passes */
    good(samebit_case_judge(c, NULL, &got, 1, &r, &err));
    assert_string_equal(r.arith.text, "exact");
    got.name = NULL;
    uint32_t bits;
    memcpy(&bits, &values[5], 4);
    bits ^= 1;
    memcpy(&values[5], &bits, 4);
    good(samebit_case_judge(c, NULL, &got, 1, &r, &err));
    assert_string_equal(r.arith.text, "fp32");
    assert_string_equal(r.verdict, "WITHIN");
    assert_int_equal(r.identical, ROWS * N - 1);
    refused(samebit_case_judge(c, "exact", &got, 1, &r, &err), SAMEBIT_FAIL, "");
    samebit_case_free(c);
}

TEST(what_is_spoiled_fails)
{
    float values[ROWS * N];
    samebit_case *c = make("normal");
    samebit_array got = expected(c, values);
    struct {
        samebit_result whole;
        char behind[64];
    } room = {.whole = {.size = offsetof(samebit_result, worst)}};
    samebit_result r = {.size = sizeof r};
    values[2 * N + 7] = -values[2 * N + 7] + 1;
    refused(samebit_case_judge(c, "bf16_mma+bf16", &got, 1, &r, &err), SAMEBIT_FAIL, "");
    assert_int_equal(r.status, SAMEBIT_FAIL);
    assert_string_equal(r.verdict, "FAIL");
    assert_int_equal(r.outside, 1);
    assert_int_equal(r.has_first, 1);
    assert_int_equal(r.first, 2 * N + 7);
    assert_int_equal(r.index[0], 2);
    assert_int_equal(r.index[1], 7);
    assert_true(r.worst > 1);
    assert_true(r.found == (double)values[2 * N + 7]);
    assert_non_null(strstr(r.words, "7"));
    refused(samebit_case_judge(c, NULL, &got, 1, &r, &err), SAMEBIT_FAIL, "");
    /* a struct of an older header: nothing is written beyond its end */
    memset(&room.whole.worst, 0x5a, sizeof room - offsetof(samebit_result, worst));
    refused(samebit_case_judge(c, "fp32", &got, 1, &room.whole, &err), SAMEBIT_FAIL, "");
    const unsigned char *rest = (const unsigned char *)&room.whole.worst;
    for (size_t i = 0; i < sizeof room - offsetof(samebit_result, worst); i++)
        assert_int_equal(rest[i], 0x5a);
    samebit_case_free(c);
}

TEST(outputs_are_looked_at)
{
    float values[ROWS * N];
    samebit_case *c = make("normal");
    samebit_array got = expected(c, values), two[2] = {got, got};
    samebit_result r = {.size = sizeof r};
    refused(samebit_case_judge(c, "blue", &got, 1, &r, &err), SAMEBIT_USAGE, "blue");
    refused(samebit_case_judge(c, "fp32", &got, 0, &r, &err), SAMEBIT_USAGE, "out");
    refused(samebit_case_judge(c, "fp32", two, 2, &r, &err), SAMEBIT_USAGE, "twice");
    refused(samebit_case_judge(c, "fp32", NULL, 1, &r, &err), SAMEBIT_USAGE, "NULL");
    r.size = 0;
    refused(samebit_case_judge(c, "fp32", &got, 1, &r, &err), SAMEBIT_USAGE, "size");
    r.size = sizeof r;
    two[0].name = "out.no-such";
    refused(samebit_case_judge(c, "fp32", two, 1, &r, &err), SAMEBIT_USAGE, "no-such");
    got.bytes -= 4;
    refused(samebit_case_judge(c, "fp32", &got, 1, &r, &err), SAMEBIT_USAGE, "bytes");
    got.shape[0]--;
    got.bytes = (ROWS - 1) * N * 4;
    refused(samebit_case_judge(c, "fp32", &got, 1, &r, &err), SAMEBIT_REFUSED, "");
    got.rank = 8;
    for (size_t i = 0; i < 8; i++)
        got.shape[i] = 1;
    got.bytes = 4;
    refused(samebit_case_judge(c, "fp32", &got, 1, &r, &err), SAMEBIT_USAGE, "8 dimensions");
    samebit_case_free(c);
}

TEST(inputs_have_power)
{
    float values[ROWS * N];
    samebit_case *c = make("normal");
    samebit_array got = expected(c, values);
    samebit_power power = {.size = sizeof power};
    samebit_result r = {.size = sizeof r};
    good(samebit_case_judge(c, "fp32", &got, 1, &r, &err));
    good(samebit_case_power(c, "fp32", NULL, &power, &r, &err));
    assert_true(power.planted > 0);
    assert_true(power.caught > 0 && power.caught <= power.planted);
    assert_true(strlen(power.shown) > 0);
    assert_string_equal(r.verdict, "IDENTICAL");
    good(samebit_case_power(c, "fp32", NULL, &power, NULL, &err));
    good(samebit_case_power(c, "bf16_mma+bf16", "BF16", &power, NULL, &err));
    refused(samebit_case_power(c, "fp32", "BLUE", &power, NULL, &err), SAMEBIT_USAGE, "BLUE");
    refused(samebit_case_power(c, "fp32", "F4", &power, NULL, &err), SAMEBIT_USAGE, "F4");
    good(samebit_case_power(c, "fp32", "I32", &power, NULL, &err)); /* the type of choices */
    power.size = 0;
    refused(samebit_case_power(c, "fp32", NULL, &power, NULL, &err), SAMEBIT_USAGE, "size");
    refused(samebit_case_power(c, NULL, NULL, &power, NULL, &err), SAMEBIT_USAGE, "NULL");
    samebit_case_free(c);
}

/* With a caller's inputs of 0 no mistake shows. */
TEST(what_shows_nothing_is_mistrusted)
{
    static const unsigned char zeros[N * K * 2];
    float values[ROWS * N];
    samebit_case *c = make("normal"), *own = NULL;
    samebit_array arrays[4], got;
    samebit_power power = {.size = sizeof power};
    samebit_result r = {.size = sizeof r};
    assert_true(samebit_case_inputs(c) <= 4);
    for (size_t i = 0; i < samebit_case_inputs(c); i++) {
        good(samebit_case_input(c, i, &arrays[i], &err));
        assert_true(arrays[i].bytes <= sizeof zeros);
        arrays[i].data = zeros;
    }
    good(samebit_case_from_arrays("linear", "bf16", SHAPE, NULL, arrays, samebit_case_inputs(c),
                                  &own, &err));
    got = expected(own, values);
    samebit_status status = samebit_case_judge(own, "fp32", &got, 1, &r, &err);
    assert_true(status == SAMEBIT_OK || status == SAMEBIT_MISTRUSTED);
    good(samebit_case_power(own, "fp32", "F32", &power, &r, &err));
    assert_int_equal(r.status, SAMEBIT_MISTRUSTED);
    assert_string_equal(r.verdict, "MISTRUSTED");
    samebit_case_free(own);
    samebit_case_free(c);
}

/* A kernel, and its fault. */
typedef enum fault { NONE, COUNTS_CALLS, GIVES_UP } fault;

typedef struct kernel {
    fault fault;
    unsigned calls;
} kernel;

static int run(void *ctx, const samebit_case *c, const samebit_room *out)
{
    kernel *k = ctx;
    samebit_array x, w;
    float *y = out[0].data;
    k->calls++;
    if (k->fault == GIVES_UP || strcmp(out[0].dtype, "F32") != 0)
        return 1;
    good(samebit_case_input(c, 0, &x, &err));
    good(samebit_case_input(c, 1, &w, &err));
    if (strcmp(x.name, "x") != 0) {
        samebit_array t = x;
        x = w;
        w = t;
    }
    for (size_t row = 0; row < x.shape[0]; row++)
        for (size_t n = 0; n < w.shape[0]; n++) {
            float sum = 0;
            for (size_t i = 0; i < x.shape[1]; i++)
                sum += bf16(&x, row * x.shape[1] + i) * bf16(&w, n * x.shape[1] + i);
            y[row * w.shape[0] + n] = sum + (k->fault == COUNTS_CALLS && k->calls == 3 ? 1 : 0);
        }
    return 0;
}

TEST(kernels_are_called_again)
{
    static samebit_meta meta;
    samebit_case *c = make("normal");
    kernel k = {NONE, 0};
    const char *dtypes[] = {"F32"}, *wrong[] = {"BLUE"}, *half[] = {"F4"};
    meta.size = sizeof meta;
    good(samebit_case_metamorphic(c, run, &k, dtypes, 4, &meta, &err));
    assert_true(meta.rows >= 4 && meta.rows <= SAMEBIT_META_ROWS);
    assert_string_equal(meta.row[0].name, "repeated");
    assert_string_equal(meta.row[0].verdict, "IDENTICAL");
    assert_true(k.calls > 4);
    k = (kernel){COUNTS_CALLS, 0};
    refused(samebit_case_metamorphic(c, run, &k, NULL, 4, &meta, &err), SAMEBIT_FAIL, "");
    assert_int_equal(meta.status, SAMEBIT_FAIL);
    k = (kernel){GIVES_UP, 0};
    refused(samebit_case_metamorphic(c, run, &k, NULL, 4, &meta, &err), SAMEBIT_USAGE, "");
    uint32_t rows = meta.rows;
    meta.rows = 99; /* a call with wrong arguments leaves meta unchanged */
    refused(samebit_case_metamorphic(c, run, &k, wrong, 4, &meta, &err), SAMEBIT_USAGE, "BLUE");
    refused(samebit_case_metamorphic(c, run, &k, half, 4, &meta, &err), SAMEBIT_USAGE, "F4");
    assert_int_equal(meta.rows, 99);
    meta.rows = rows;
    refused(samebit_case_metamorphic(c, NULL, &k, NULL, 4, &meta, &err), SAMEBIT_USAGE, "NULL");
    samebit_case_free(c);
}

/* A function of each row alone, not the op of the case. If *ctx is set, the result depends on the
 * number of rows, too. */
static int of_rows(void *ctx, const samebit_case *c, const samebit_room *out)
{
    const int *sees_rows = ctx;
    samebit_array x;
    good(samebit_case_input(c, 0, &x, &err));
    assert_string_equal(x.name, "x");
    for (size_t i = 0; i < x.bytes / 2; i++)
        ((float *)out[0].data)[i] = bf16(&x, i) + (*sees_rows && x.shape[0] > 1 ? 1 : 0);
    return 0;
}

TEST(a_row_must_not_see_others)
{
    static samebit_meta meta;
    samebit_case *c = NULL;
    int sees_rows = 0, failed = 0;
    good(samebit_case_make("rmsnorm", NULL, "rows=3,n=64", NULL, NULL, 42, &c, &err));
    meta.size = sizeof meta;
    good(samebit_case_metamorphic(c, of_rows, &sees_rows, NULL, 2, &meta, &err));
    sees_rows = 1;
    refused(samebit_case_metamorphic(c, of_rows, &sees_rows, NULL, 2, &meta, &err), SAMEBIT_FAIL,
            "");
    for (uint32_t i = 0; i < meta.rows; i++)
        if (strcmp(meta.row[i].name, "alone") == 0)
            failed = strcmp(meta.row[i].verdict, "FAIL") == 0 && *meta.row[i].words;
    assert_true(failed);
    samebit_case_free(c);
}

/* A choice in the type that kernels use: I32. The caller frees data. */
static samebit_array as_choice(samebit_array a)
{
    int32_t *numbers = malloc(a.bytes);
    assert_non_null(numbers);
    for (size_t i = 0; i < a.bytes / 4; i++)
        numbers[i] = (int32_t)((const float *)a.data)[i];
    a.dtype = "I32";
    a.data = numbers;
    return a;
}

/* For every op, a case and the same case from its own arrays: the expected outputs are
 * IDENTICAL. */
TEST(every_op_can_be_judged)
{
    enum { INPUTS = 32, OUTPUTS = 4 };
    for (size_t op = 0; op < samebit_op_count(); op++) {
        samebit_case *c = NULL, *own = NULL;
        samebit_array in[INPUTS], out[OUTPUTS];
        samebit_case_info info = {.size = sizeof info};
        samebit_result r = {.size = sizeof r};
        good(samebit_case_make(samebit_op_name(op), NULL, NULL, NULL, NULL, 42, &c, &err));
        good(samebit_case_about(c, &info, &err));
        size_t inputs = samebit_case_inputs(c), outputs = samebit_case_outputs(c);
        assert_true(inputs > 0 && inputs <= INPUTS && outputs > 0 && outputs <= OUTPUTS);
        for (size_t i = 0; i < inputs; i++)
            good(samebit_case_input(c, i, &in[i], &err));
        good(samebit_case_from_arrays(info.op, info.format, info.shape, info.input, in, inputs,
                                      &own, &err));
        for (size_t i = 0; i < outputs; i++) {
            good(samebit_case_output(c, i, &out[i], &err));
            if (samebit_case_is_choice(c, i))
                out[i] = as_choice(out[i]);
        }
        good(samebit_case_judge(own, "exact", out, outputs, &r, &err));
        for (size_t i = 0; i < outputs; i++)
            if (samebit_case_is_choice(c, i))
                free((void *)out[i].data);
        assert_string_equal(r.verdict, "IDENTICAL");
        assert_int_equal(r.count, r.identical);
        samebit_case_free(own);
        samebit_case_free(c);
    }
}
