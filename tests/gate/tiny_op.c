/* tiny_op.c - out = in + in of the op `add`, and largest = its place in the row. */
#include "tests/gate/tiny_op.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "tools/compare/bound.h"

static const sb_gate_param params[] = {
    {"rows", 3, 1, 64, "rows"},
    {"k", 20, 1, 4096, "elements of a row"},
};
static const char *const formats[] = {"plain", "tiny4", NULL};
static const char *const shapes[] = {"rows=1", "k=1", "rows=2,k=129", NULL};
static const sb_op uses[] = {SB_OP_add};

/* As ops do that must know whether ids are in range: of a type that has no values this fails. */
static sb_status check_values(const sb_gate_case *c, sb_error *err)
{
    float *x = sb_gate_values(c, "x");
    sb_status status = x ? SB_OK : SB_ERR_MEMORY;
    if (x && !sb_is_finite_f32(x[0]))
        status = sb_fail(err, SB_ERR_INPUT, "in.x begins with no number");
    free(x);
    return status;
}

static sb_status declare(sb_gate_case *c, sb_error *err)
{
    uint64_t shape[2] = {sb_gate_size(c, "rows"), sb_gate_size(c, "k")};
    sb_status status = sb_gate_need(c, "x", 2, shape, err);
    if (!status)
        status = sb_gate_need(c, "weight", 1, shape + 1, err);
    if (!status)
        status = check_values(c, err);
    if (!status)
        status = sb_gate_expect(c, "", SB_GATE_VALUES, "row,column", 2, shape);
    if (!status)
        status = sb_gate_expect(c, "largest", SB_GATE_CHOICES, "row", 1, shape);
    return status;
}

static sb_status make(sb_gate_case *c, sb_error *err)
{
    uint64_t shape[2] = {sb_gate_size(c, "rows"), sb_gate_size(c, "k")};
    size_t rows = (size_t)shape[0], k = (size_t)shape[1];
    float *x = sb_alloc(rows * k, sizeof *x), *w = sb_alloc(k, sizeof *w);
    sb_status status = x && w ? SB_OK : SB_ERR_MEMORY;
    if (!status) {
        sb_gate_draw(c, "x", SB_GATE_ACTIVATION, rows, k, x);
        sb_gate_draw(c, "weight", SB_GATE_NORM_WEIGHT, 1, k, w);
        status = sb_gate_add_values(c, "x", "row,column", 2, shape, x);
    }
    if (!status)
        status = sb_gate_add_values(c, "weight", "column", 1, shape + 1, w);
    free(x);
    free(w);
    return status ? status : declare(c, err);
}

/* x + weight, by one row after the other. */
static sb_status exact(const sb_gate_case *c, const sb_knobs *knobs, const sb_op_table *ops,
                       float *const out[])
{
    size_t rows = (size_t)sb_gate_size(c, "rows"), k = (size_t)sb_gate_size(c, "k");
    float *x = sb_gate_values(c, "x"), *w = sb_gate_values(c, "weight");
    sb_status status = x && w ? SB_OK : SB_ERR_MEMORY;
    for (size_t r = 0; r < rows && !status; r++) {
        sb_add_args args = {.a = x + r * k, .b = w, .count = k, .out = out[0] + r * k};
        size_t best = 0;
        status = ops->add(knobs, &args);
        for (size_t i = 1; i < k; i++)
            best = args.out[i] > args.out[best] ? i : best;
        out[1][r] = (float)best;
    }
    free(x);
    free(w);
    return status;
}

static sb_status real(const sb_gate_case *c, sb_dd *const out[])
{
    size_t rows = (size_t)sb_gate_size(c, "rows"), k = (size_t)sb_gate_size(c, "k");
    float *x = sb_gate_values(c, "x"), *w = sb_gate_values(c, "weight");
    for (size_t i = 0; x && w && i < rows * k; i++) {
        double a = (double)x[i], b = (double)w[i % k], sum = a + b, part = sum - a;
        out[0][i] = (sb_dd){sum, (a - (sum - part)) + (b - part)};
    }
    sb_status status = x && w ? SB_OK : SB_ERR_MEMORY;
    free(x);
    free(w);
    return status;
}

static sb_status bound(const sb_gate_case *c, const sb_gate_arith *ar, sb_ball *const out[])
{
    size_t rows = (size_t)sb_gate_size(c, "rows"), k = (size_t)sb_gate_size(c, "k");
    float *x = sb_gate_values(c, "x"), *w = sb_gate_values(c, "weight");
    sb_status status = x && w ? SB_OK : SB_ERR_MEMORY;
    for (size_t r = 0; r < rows && !status; r++) {
        sb_add_args args = {.a = x + r * k, .b = w, .count = k};
        status = sb_bound_add(ar->ar, &ar->knobs, &args, out[0] + r * k, NULL);
    }
    free(x);
    free(w);
    return status;
}

static const sb_gate_op op = {.name = "tiny",
                              .clause = "R-13",
                              .what = "rows plus a weight",
                              .params = params,
                              .param_count = 2,
                              .formats = formats,
                              .shapes = shapes,
                              .not_regimes = "huge padding",
                              .uses = uses,
                              .use_count = 1,
                              .make = make,
                              .declare = declare,
                              .exact = exact,
                              .real = real,
                              .bound = bound};

const sb_gate_op *tiny_op(void)
{
    return &op;
}

const sb_gate_op *tiny_find(const char *name)
{
    return strcmp(name, "tiny") == 0 ? &op : NULL;
}
