/* values.h - the arrays that an op reads and writes, found in its arguments. Used by hooks that
 * treat all ops alike. */
#ifndef SB_OPS_VALUES_H
#define SB_OPS_VALUES_H

#include "ref/ops/op.h"

/* An array of rows; a row has cols values, and rows are `stride` elements apart. For tokens and
 * expert ids, `ids` is set and data is NULL. */
typedef struct sb_op_value {
    const char *name; /* the name of the member: "in", "state" */
    float *data;      /* the data of an input must not be written, except for the state */
    uint32_t *ids;
    size_t rows, cols, stride;
} sb_op_value;

enum { SB_OP_INPUTS = 6, SB_OP_OUTPUTS = 2, SB_OP_PARAMS = 2 };

typedef struct sb_op_values {
    size_t inputs, outputs, params;
    sb_op_value in[SB_OP_INPUTS];   /* the last one is the incoming state, if there is a state */
    sb_op_value out[SB_OP_OUTPUTS]; /* in the order of the struct, without state and trail */
    sb_op_value state;              /* updated in place; data is NULL if there is none */
    const sb_matrix *param[SB_OP_PARAMS];
    const char *param_name[SB_OP_PARAMS];
} sb_op_values;

/* Finds the arrays in `args`, the arguments of `op`. If an op works in place, the same array is an
 * input and an output. */
sb_op_values sb_op_values_of(sb_op op, const void *args);

#endif
