/* test_gate_meta.c - the metamorphic gate: right kernels pass, whatever their arithmetic. A kernel
 * that reads or writes memory that is not its own is caught by the variant made for that fault. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/run/backend.h"
#include "tests/gate/tiny_op.h"
#include "tools/judge/gate/case.h"
#include "tools/judge/gate/meta.h"

/* --- the op: rows plus a weight; and one with a state: running sums of rows ------------------- */

static sb_gate_op with_rows(void)
{
    sb_gate_op op = *tiny_op();
    op.row_arrays = "x";
    op.rows_independent = 1;
    return op;
}

static const sb_gate_param sum_params[] = {{"rows", 5, 1, 16, ""}, {"k", 4, 1, 64, ""}};

static sb_gate_list sum_list(const sb_gate_case *c)
{
    const uint64_t rows = sb_gate_size(c, "rows"), k = sb_gate_size(c, "k");
    return (sb_gate_list){
        .input = {{"x", "row,column", .shape = {rows, k}},
                  {"initial_state", "column", .shape = {k}, .role = SB_GATE_STATE}},
        .output = {{"", "row,column", .shape = {rows, k}}, {"state", "column", .shape = {k}}}};
}

static sb_status no_values(const sb_gate_case *c, float *const in[], const sb_knobs *knobs,
                           const sb_op_table *ops, float *const out[])
{
    (void)c, (void)in, (void)knobs, (void)ops, (void)out;
    return SB_OK;
}

static sb_status no_reals(const sb_gate_case *c, float *const in[], sb_dd *const out[])
{
    (void)c, (void)in, (void)out;
    return SB_OK;
}

static sb_gate_op running_sum(void)
{
    return (sb_gate_op){.name = "running_sum",
                        .params = sum_params,
                        .param_count = 2,
                        .list = sum_list,
                        .exact = no_values,
                        .real = no_reals,
                        .row_arrays = "x",
                        .state_input = "initial_state",
                        .state_output = "state",
                        .cut = 1};
}

/* --- kernels ---------------------------------------------------------------------------------- */

typedef enum fault {
    NONE,
    NEIGHBOUR,     /* the first element of the next row is added to the last of a row */
    PADDING,       /* reads behind the inputs */
    SLOT,          /* the first element of every row is that of the first row */
    RARELY,        /* wrong once in a hundred calls */
    BY_WIDTH,      /* another order of additions for more than four rows */
    OVERRUN,       /* writes one element too many */
    UNWRITTEN,     /* leaves the last element unwritten */
    INTO_INPUT,    /* writes into an input */
    CONSTANT,      /* the output is constant */
    STATE_DROPPED, /* starts from zero */
    STATE_STALE,   /* returns its input state */
    STATE_OF_ONE,  /* the same, but only for one row */
    GIVES_UP
} fault;

typedef struct kernel {
    fault fault;
    unsigned calls;
} kernel;

static const float *input(const sb_gate_case *c, const char *name)
{
    return (const float *)(const void *)sb_gate_input(c, name)->data;
}

static sb_status add_rows(void *ctx, const sb_gate_case *c, const sb_gate_target *out)
{
    kernel *self = ctx;
    size_t rows = (size_t)sb_gate_size(c, "rows"), k = (size_t)sb_gate_size(c, "k");
    const float *x = input(c, "x"), *w = input(c, "weight");
    float *y = (float *)(void *)out[0].data;
    uint32_t *largest = (uint32_t *)(void *)out[1].data;
    self->calls++;
    if (self->fault == GIVES_UP)
        return SB_ERR_NUMERIC;
    for (size_t r = 0; r < rows; r++) {
        size_t best = 0;
        for (size_t i = 0; i < k; i++) {
            float *v = &y[r * k + i];
            *v = x[r * k + i] + w[i];
            if (self->fault == BY_WIDTH) /* (x + w) + 0.3w or x + (w + 0.3w) */
                *v = rows > 4 ? *v + w[i] * 0.3f : x[r * k + i] + (w[i] + w[i] * 0.3f);
            best = *v > y[r * k + best] ? i : best;
        }
        largest[r] = (uint32_t)best;
        if (self->fault == NEIGHBOUR && r + 1 < rows)
            y[r * k + k - 1] += x[(r + 1) * k];
        if (self->fault == SLOT && r)
            y[r * k] = x[0] + w[0];
    }
    if (self->fault == PADDING)
        y[rows * k - 1] += 0.0f * x[rows * k];
    if (self->fault == RARELY && self->calls % 100 == 0)
        y[0] += 1.0f;
    if (self->fault == OVERRUN)
        y[rows * k] = 1.0f;
    if (self->fault == INTO_INPUT)
        memset(sb_gate_input(c, "weight")->data, 1, 4);
    if (self->fault == CONSTANT) {
        memset(y, 0, (size_t)out[0].bytes);
        memset(largest, 0, (size_t)out[1].bytes);
    }
    return SB_OK;
}

/* UNWRITTEN has its own function: the last element keeps its previous value. */

static sb_status add_rows_but_one(void *ctx, const sb_gate_case *c, const sb_gate_target *out)
{
    unsigned char kept[4];
    memcpy(kept, out[0].data + out[0].bytes - 4, 4);
    sb_status status = add_rows(ctx, c, out);
    memcpy(out[0].data + out[0].bytes - 4, kept, 4);
    return status;
}

static sb_status sum_rows(void *ctx, const sb_gate_case *c, const sb_gate_target *out)
{
    const kernel *self = ctx;
    size_t rows = (size_t)sb_gate_size(c, "rows"), k = (size_t)sb_gate_size(c, "k");
    const float *x = input(c, "x"), *s = input(c, "initial_state");
    float *y = (float *)(void *)out[0].data, *state = (float *)(void *)out[1].data;
    for (size_t i = 0; i < k; i++) {
        float sum = self->fault == STATE_DROPPED ? 0.0f : s[i];
        for (size_t r = 0; r < rows; r++)
            y[r * k + i] = sum += x[r * k + i];
        state[i] =
            self->fault == STATE_STALE || (self->fault == STATE_OF_ONE && rows == 1) ? s[i] : sum;
    }
    return SB_OK;
}

/* --- the gate --------------------------------------------------------------------------------- */

static sb_gate_case *made(const sb_gate_op *op)
{
    sb_gate_request r = {.input = SB_DTYPE_F32, .seed = 42};
    sb_gate_case *c = NULL;
    sb_error err = {""};
    if (sb_gate_case_of(op, &r, &c, &err))
        fail_msg("%s", err.text);
    return c;
}

static sb_gate_meta gated(const sb_gate_op *op, sb_gate_kernel fn, fault f)
{
    sb_gate_case *c = made(op);
    kernel k = {f, 0};
    sb_gate_meta_options o = {.kernel = fn, .ctx = &k};
    sb_gate_meta m;
    sb_error err = {""};
    if (sb_gate_meta_run(c, &o, &m, &err))
        fail_msg("%s", err.text);
    sb_gate_case_free(c);
    return m;
}

TEST(a_right_kernel_passes_every_variant)
{
    sb_gate_op op = with_rows();
    sb_gate_meta m = gated(&op, add_rows, NONE);
    assert_int_equal(m.verdict, SB_VERDICT_IDENTICAL);
    for (int k = 0; k < SB_GATE_METAS; k++) {
        assert_int_equal(m.row[k].verdict, SB_VERDICT_IDENTICAL);
        assert_true(m.row[k].calls > 0 && m.row[k].elements > 0);
    }
    assert_int_equal(m.row[SB_GATE_META_repeated].calls, 100);
    assert_int_equal(m.row[SB_GATE_META_alone].calls, 3);
    assert_int_equal(m.row[SB_GATE_META_width].calls, 11);
    assert_int_equal(m.row[SB_GATE_META_split].calls, 4);
}

static void caught(fault f, sb_gate_meta_kind kind, const char *words)
{
    sb_gate_op op = with_rows();
    sb_gate_meta m = gated(&op, f == UNWRITTEN ? add_rows_but_one : add_rows, f);
    assert_int_equal(m.verdict, SB_VERDICT_FAIL);
    assert_int_equal(m.row[kind].verdict, SB_VERDICT_FAIL);
    if (!strstr(m.row[kind].words, words))
        fail_msg("'%s' lacks '%s'", m.row[kind].words, words);
}

TEST(planted_faults_are_caught_where_they_show)
{
    caught(NEIGHBOUR, SB_GATE_META_alone, "alone-0: out: row 0, column 19 is ");
    caught(NEIGHBOUR, SB_GATE_META_permuted, "permuted-0: out: row ");
    caught(NEIGHBOUR, SB_GATE_META_split, "split-1-before: out: row 0, column 19 is ");
    caught(PADDING, SB_GATE_META_surroundings, "among bytes 0xFF: out: row 2, column 19 is NaN");
    caught(SLOT, SB_GATE_META_alone, "alone-1: out: row 1, column 0 is ");
    caught(SLOT, SB_GATE_META_permuted, "permuted-0: out: row 2, column 0");
    caught(RARELY, SB_GATE_META_repeated, "call 100: out: row 0, column 0 is ");
    caught(BY_WIDTH, SB_GATE_META_width, "width-5: out: row ");
    caught(OVERRUN, SB_GATE_META_surroundings, "the kernel writes outside out");
    caught(UNWRITTEN, SB_GATE_META_surroundings, "among bytes 0x7F: out: row 2, column 19 is ");
    caught(INTO_INPUT, SB_GATE_META_repeated, "the kernel writes into in.weight");
}

/* Variants that a fault does not concern pass. */
TEST(other_variants_stay_quiet)
{
    sb_gate_op op = with_rows();
    sb_gate_meta m = gated(&op, add_rows, BY_WIDTH);
    assert_int_equal(m.row[SB_GATE_META_repeated].verdict, SB_VERDICT_IDENTICAL);
    assert_int_equal(m.row[SB_GATE_META_surroundings].verdict, SB_VERDICT_IDENTICAL);
    assert_int_equal(m.row[SB_GATE_META_permuted].verdict, SB_VERDICT_IDENTICAL);
    m = gated(&op, add_rows, SLOT);
    assert_int_equal(m.row[SB_GATE_META_surroundings].verdict, SB_VERDICT_IDENTICAL);
}

TEST(a_constant_is_mistrusted)
{
    sb_gate_op op = with_rows();
    assert_int_equal(gated(&op, add_rows, CONSTANT).verdict, SB_VERDICT_MISTRUSTED);
}

TEST(what_an_op_does_not_promise_is_skipped_with_the_reason)
{
    sb_gate_meta m = gated(tiny_op(), add_rows, NEIGHBOUR);
    assert_int_equal(m.verdict, SB_VERDICT_IDENTICAL);
    assert_int_equal(m.row[SB_GATE_META_alone].verdict, SB_VERDICT_SKIPPED);
    assert_string_equal(m.row[SB_GATE_META_alone].words,
                        "the op does not say which inputs have rows");
}

TEST(a_sequence_is_cut_with_its_state_carried)
{
    sb_gate_op op = running_sum();
    sb_gate_meta m = gated(&op, sum_rows, NONE);
    assert_int_equal(m.verdict, SB_VERDICT_IDENTICAL);
    assert_int_equal(m.row[SB_GATE_META_split].verdict, SB_VERDICT_IDENTICAL);
    assert_int_equal(m.row[SB_GATE_META_split].calls, 8);
    assert_int_equal(m.row[SB_GATE_META_permuted].verdict, SB_VERDICT_SKIPPED);
    m = gated(&op, sum_rows, STATE_DROPPED);
    assert_non_null(strstr(m.row[SB_GATE_META_split].words,
                           "in calls of 1 and 4 rows: out: row 1, column 0 is "));
    m = gated(&op, sum_rows, STATE_STALE);
    assert_int_equal(m.row[SB_GATE_META_split].verdict, SB_VERDICT_FAIL);
    op.cut = 4;
    m = gated(&op, sum_rows, NONE);
    assert_int_equal(m.row[SB_GATE_META_split].calls, 2);
    m = gated(&op, sum_rows, STATE_OF_ONE);
    assert_non_null(strstr(m.row[SB_GATE_META_split].words,
                           "in calls of 4 and 1 rows: out.state: column 0 is "));
    op.cut = 8;
    m = gated(&op, sum_rows, NONE);
    assert_int_equal(m.row[SB_GATE_META_split].verdict, SB_VERDICT_SKIPPED);
}

/* --- every op of the list --------------------------------------------------------------------- */

static sb_status reference(void *ctx, const sb_gate_case *c, const sb_gate_target *out)
{
    float *values[SB_GATE_OUTPUTS] = {NULL};
    sb_knobs knobs;
    (void)ctx;
    sb_knobs_exact(&knobs);
    for (size_t o = 0; o < c->outputs; o++) {
        values[o] = calloc(c->output[o].count, sizeof(float));
        assert_non_null(values[o]);
    }
    sb_status status = sb_gate_exact(c, &knobs, &sb_backend_ref()->ops, values);
    for (size_t o = 0; o < c->outputs; o++) {
        for (size_t i = 0; i < c->output[o].count; i++)
            sb_store_u32(out[o].data + 4 * i, c->output[o].kind == SB_GATE_CHOICES
                                                  ? (uint32_t)(int32_t)values[o][i]
                                                  : sb_bits_f32(values[o][i]));
        free(values[o]);
    }
    return status;
}

/* The reference passes, so that what the ops declare about their rows is true. */
TEST(the_reference_passes_for_every_op)
{
    for (size_t i = 0; i < sb_gate_op_count(); i++) {
        const sb_gate_op *op = sb_gate_op_at(i);
        sb_gate_case *c = made(op);
        sb_gate_meta_options o = {.kernel = reference, .repeats = 1};
        sb_gate_meta m;
        sb_error err = {""};
        if (sb_gate_meta_run(c, &o, &m, &err))
            fail_msg("%s: %s", op->name, err.text);
        if (m.verdict != SB_VERDICT_IDENTICAL)
            fail_msg("%s: %s", op->name, m.words);
        if (op->rows_independent)
            for (int k = SB_GATE_META_alone; k < SB_GATE_METAS; k++)
                if (m.row[k].verdict != SB_VERDICT_IDENTICAL)
                    fail_msg("%s: %s: %s", op->name, sb_gate_meta_name((sb_gate_meta_kind)k),
                             m.row[k].words);
        sb_gate_case_free(c);
    }
}

TEST(a_kernel_that_gives_up_ends_the_gate)
{
    sb_gate_op op = with_rows();
    sb_gate_case *c = made(&op);
    kernel k = {GIVES_UP, 0};
    sb_gate_meta_options o = {.kernel = add_rows, .ctx = &k};
    sb_gate_meta m;
    sb_error err = {""};
    assert_int_equal(sb_gate_meta_run(c, &o, &m, &err), SB_ERR_NUMERIC);
    assert_string_equal(err.text, "the first call: the kernel returned an error");
    sb_gate_case_free(c);
}

/* If memory runs out, the gate does not pass by leaving out a variant. */
TEST(no_memory_is_no_pass)
{
    sb_gate_op op = with_rows();
    sb_gate_case *c = made(&op);
    kernel k = {NONE, 0};
    sb_gate_meta_options o = {.kernel = add_rows, .ctx = &k, .repeats = 1};
    sb_gate_meta all, m;
    sb_status status = SB_ERR_MEMORY;
    assert_int_equal(sb_gate_meta_run(c, &o, &all, NULL), SB_OK);
    for (unsigned long n = 1; status == SB_ERR_MEMORY; n++) {
        sb_error err = {""};
        sb_alloc_fail_at(n);
        status = sb_gate_meta_run(c, &o, &m, &err);
        sb_alloc_fail_at(0);
        assert_true(n < 10000);
        assert_true(!status || (status == SB_ERR_MEMORY && strstr(err.text, "memory")));
    }
    assert_int_equal(status, SB_OK);
    for (int kind = 0; kind < SB_GATE_METAS; kind++)
        assert_int_equal(m.row[kind].calls, all.row[kind].calls);
    sb_gate_case_free(c);
}
