/* values.h - the arrays that an op reads and writes, found in its arguments: what hooks need that
 * treat all ops alike. */
#ifndef SB_OPS_VALUES_H
#define SB_OPS_VALUES_H

#include "ref/ops/op.h"

/* rows of cols values, `stride` apart. Of tokens and expert ids `ids` is set and data is NULL. */
typedef struct sb_op_value {
    const char *name; /* as in the argument struct: "in", "state" */
    float *data;      /* an input is not to be written through it, unless it is the state */
    uint32_t *ids;
    size_t rows, cols, stride;
} sb_op_value;

enum { SB_OP_INPUTS = 6, SB_OP_OUTPUTS = 2, SB_OP_PARAMS = 2 };

typedef struct sb_op_values {
    size_t inputs, outputs, params;
    sb_op_value in[SB_OP_INPUTS];   /* with the incoming state, if there is one: the last */
    sb_op_value out[SB_OP_OUTPUTS]; /* in the order of the struct, without state and trail */
    sb_op_value state;              /* rewritten in place; data is NULL if there is none */
    const sb_matrix *param[SB_OP_PARAMS];
    const char *param_name[SB_OP_PARAMS];
} sb_op_values;

/* of: args of op. An op that works in place has the same array among inputs and outputs. */
sb_op_values sb_op_values_of(sb_op op, const void *args);

#endif
