#include "ref/ops/values.h"

#include "ref/ops/args.h"

static void add(sb_op_value *list, size_t *count, sb_op_value value)
{
    list[(*count)++] = value;
}

static sb_op_value floats(const char *name, const float *data, size_t rows, size_t cols,
                          size_t stride)
{
    return (sb_op_value){.name = name,
                         .data = (float *)(uintptr_t)data,
                         .rows = rows,
                         .cols = cols,
                         .stride = stride};
}

static sb_op_value numbers(const char *name, const uint32_t *ids, size_t rows, size_t cols)
{
    return (sb_op_value){.name = name,
                         .ids = (uint32_t *)(uintptr_t)ids,
                         .rows = rows,
                         .cols = cols,
                         .stride = cols};
}

/* The functions values_of_<op>, generated from the rows of the op in args.def. The state is also an
 * input. */
#define IN(value) add(v->in, &v->inputs, (value))
#define OUT(value) add(v->out, &v->outputs, (value))
#define SB_ARGS(op)                                                                                \
    static void values_of_##op(sb_op_values *v, const sb_##op##_args *a)                           \
    {
#define SB_ARGS_END(op) }
#define SB_INPUT(op, member, rows, cols, stride) IN(floats(#member, a->member, rows, cols, stride));
#define SB_SCALAR(op, member) IN(floats(#member, &a->member, 1, 1, 1));
#define SB_IDS(op, member, count) IN(numbers(#member, a->member, a->count, 1));
#define SB_STATE(op, member, rows, cols)                                                           \
    v->state = floats(#member, a->member, rows, cols, cols);                                       \
    IN(v->state);
#define SB_INPLACE(op, member, rows, cols)                                                         \
    IN(floats(#member, a->member, rows, cols, cols));                                              \
    OUT(floats(#member, a->member, rows, cols, cols));
#define SB_OUTPUT(op, member, rows, cols) OUT(floats(#member, a->member, rows, cols, cols));
#define SB_SECOND(op, member, rows, cols)                                                          \
    if (a->member)                                                                                 \
        OUT(floats(#member, a->member, rows, cols, cols));
#define SB_CHOICE(op, member, rows, cols) OUT(numbers(#member, a->member, rows, cols));
#define SB_WEIGHT(op, member)                                                                      \
    v->param[v->params] = a->member;                                                               \
    v->param_name[v->params++] = #member;
#include "ref/ops/args.def"

/* Checks that no op has more values of a kind than values.h has room for. */
#define ONE(op, member) +1
#define SB_ARGS(op) _Static_assert(0
#define SB_ARGS_END(op) <= SB_OP_INPUTS, "inputs of " #op);
#define SB_INPUT(op, member, rows, cols, stride) ONE(op, member)
#define SB_SCALAR(op, member) ONE(op, member)
#define SB_IDS(op, member, count) ONE(op, member)
#define SB_STATE(op, member, rows, cols) ONE(op, member)
#define SB_INPLACE(op, member, rows, cols) ONE(op, member)
#include "ref/ops/args.def"
#define SB_ARGS(op) _Static_assert(0
#define SB_ARGS_END(op) <= SB_OP_OUTPUTS, "outputs of " #op);
#define SB_INPLACE(op, member, rows, cols) ONE(op, member)
#define SB_OUTPUT(op, member, rows, cols) ONE(op, member)
#define SB_SECOND(op, member, rows, cols) ONE(op, member)
#define SB_CHOICE(op, member, rows, cols) ONE(op, member)
#include "ref/ops/args.def"
#define SB_ARGS(op) _Static_assert(0
#define SB_ARGS_END(op) <= SB_OP_PARAMS, "parameters of " #op);
#define SB_WEIGHT(op, member) ONE(op, member)
#include "ref/ops/args.def"

sb_op_values sb_op_values_of(sb_op op, const void *args)
{
    sb_op_values v = {0};
    switch (op) {
#define SB_OP(name, clause)                                                                        \
    case SB_OP_##name:                                                                             \
        values_of_##name(&v, args);                                                                \
        break;
#include "ref/ops/ops.def"
#undef SB_OP
    case SB_OP_COUNT:
        break;
    }
    return v;
}
