#include "tools/judge/fault/op_fault_args.h"

#include <stddef.h>
#include <string.h>

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
