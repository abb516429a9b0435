/* tiny_op.c - out = x + weight by the op `add`, and largest = the index of the largest element of
 * the row. */
#include "tests/gate/tiny_op.h"

#include <string.h>

#include "tools/judge/bound/bound.h"

static const sb_gate_param params[] = {
    {"rows", 3, 1, 64, "rows"},
    {"k", 20, 1, 4096, "elements of a row"},
};
static const char *const formats[] = {"plain", "tiny4", NULL};
static const char *const shapes[] = {"rows=1", "k=1", "rows=2,k=129", NULL};
static const sb_op uses[] = {SB_OP_add};

static sb_gate_list list(const sb_gate_case *c)
{
    const uint64_t rows = sb_gate_size(c, "rows"), k = sb_gate_size(c, "k");
    return (sb_gate_list){
        .input = {{"x", "row,column", .shape = {rows, k}},
                  {"weight", "column", .shape = {k}, .role = SB_GATE_NORM_WEIGHT}},
        .output = {{"", "row,column", .shape = {rows, k}},
                   {"largest", "row", .shape = {rows}, .choices = 1}}};
}

/* x + weight, row by row. */
static sb_status exact(const sb_gate_case *c, float *const in[], const sb_knobs *knobs,
                       const sb_op_table *ops, float *const out[])
{
    size_t rows = (size_t)sb_gate_size(c, "rows"), k = (size_t)sb_gate_size(c, "k");
    sb_status status = SB_OK;
    for (size_t r = 0; r < rows && !status; r++) {
        sb_add_args args = {.a = in[0] + r * k, .b = in[1], .count = k, .out = out[0] + r * k};
        size_t best = 0;
        status = ops->add(knobs, &args);
        for (size_t i = 1; i < k; i++)
            best = args.out[i] > args.out[best] ? i : best;
        out[1][r] = (float)best;
    }
    return status;
}

static sb_status real(const sb_gate_case *c, float *const in[], sb_dd *const out[])
{
    size_t rows = (size_t)sb_gate_size(c, "rows"), k = (size_t)sb_gate_size(c, "k");
    for (size_t i = 0; i < rows * k; i++) {
        double a = (double)in[0][i], b = (double)in[1][i % k], sum = a + b, part = sum - a;
        out[0][i] = (sb_dd){sum, (a - (sum - part)) + (b - part)};
    }
    return SB_OK;
}

static sb_status bound(const sb_gate_case *c, float *const in[], const sb_gate_arith *ar,
                       sb_ball *const out[])
{
    size_t rows = (size_t)sb_gate_size(c, "rows"), k = (size_t)sb_gate_size(c, "k");
    sb_status status = SB_OK;
    for (size_t r = 0; r < rows && !status; r++) {
        sb_add_args args = {.a = in[0] + r * k, .b = in[1], .count = k};
        status = sb_bound_add(&ar->ar, &ar->knobs, &args, out[0] + r * k, NULL);
    }
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
                              .list = list,
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
