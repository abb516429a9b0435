#include "tools/fault/op_fault_args.h"

#include <stddef.h>
#include <string.h>

#define SB_FIELD(op, field)                                                                        \
    {                                                                                              \
        SB_OP_##op, #field, offsetof(sb_##op##_args, field)                                        \
    }

static const struct {
    sb_op op;
    const char *field;
    size_t offset;
} fields[] = {
    SB_FIELD(linear, in),
    SB_FIELD(rmsnorm, in),
    SB_FIELD(rmsnorm, weight),
    SB_FIELD(rmsnorm, eps),
    SB_FIELD(conv, in),
    SB_FIELD(conv, weight),
    SB_FIELD(gates, a),
    SB_FIELD(gates, b),
    SB_FIELD(gates, dt_bias),
    SB_FIELD(l2norm, qkv),
    SB_FIELD(l2norm, eps),
    SB_FIELD(delta_rule, k),
    SB_FIELD(delta_rule_chunk, k),
    SB_FIELD(gated_rmsnorm, in),
    SB_FIELD(gated_rmsnorm, z),
    SB_FIELD(gated_rmsnorm, eps),
    SB_FIELD(attention, q),
    SB_FIELD(attention, keys),
    SB_FIELD(split_gate, in),
    SB_FIELD(attn_gate, gate),
    SB_FIELD(router, logits),
    SB_FIELD(swiglu, gate),
    SB_FIELD(swiglu, up),
    SB_FIELD(moe_combine, weights),
    SB_FIELD(moe_combine, shared_logit),
    SB_FIELD(add, b),
};

int sb_any_args_copy(const sb_op_call *call, sb_any_args *to)
{
    switch (call->op) {
#define SB_OP(name, clause)                                                                        \
    case SB_OP_##name:                                                                             \
        to->name = *(const sb_##name##_args *)call->args;                                          \
        return 0;
#include "ref/ops/ops.def"
#undef SB_OP
    case SB_OP_COUNT:
        break;
    }
    return -1;
}

static void *member(sb_any_args *args, sb_op op, const char *field)
{
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].op == op && strcmp(fields[i].field, field) == 0)
            return (unsigned char *)args + fields[i].offset;
    return NULL;
}

const float **sb_any_args_input(sb_any_args *args, sb_op op, const char *field)
{
    return member(args, op, field);
}

const sb_matrix **sb_any_args_param(sb_any_args *args, sb_op op, const char *field)
{
    return member(args, op, field);
}

float *sb_any_args_scalar(sb_any_args *args, sb_op op, const char *field)
{
    return member(args, op, field);
}

int sb_op_input_find(const sb_op_call *call, const char *field, sb_op_value *out)
{
    sb_op_values values = sb_op_values_of(call->op, call->args);
    for (size_t i = 0; i < values.inputs; i++)
        if (strcmp(values.in[i].name, field) == 0) {
            *out = values.in[i];
            return 1;
        }
    return 0;
}

static float edited(sb_edit edit, float x, int last)
{
    switch (edit) {
    case SB_EDIT_negate:
        return -x;
    case SB_EDIT_zero_last:
        return last ? 0.0f : x;
    case SB_EDIT_negate_last:
        return last ? -x : x;
    case SB_EDIT_lose_last:
        return last ? -1e6f : x;
    case SB_EDIT_zero:
        return 0.0f;
    case SB_EDIT_one:
        return 1.0f;
    case SB_EDIT_hundred:
        return 100.0f;
    case SB_EDIT_turn:
    case SB_EDIT_roll:
        break;
    }
    return x;
}

void sb_edit_array(sb_edit edit, const sb_op_value *from, size_t by, float *to)
{
    size_t turn = edit == SB_EDIT_turn ? by : 0, roll = edit == SB_EDIT_roll ? by : 0;
    for (size_t t = 0; t < from->rows; t++) {
        const float *row = from->data + (t + roll) % from->rows * from->stride;
        for (size_t j = 0; j < from->cols; j++)
            to[t * from->stride + j] =
                edited(edit, row[(j + turn) % from->cols], j + 1 == from->cols);
    }
}
