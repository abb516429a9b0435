/* op_fault_args.h - an input of any op by its name, and what a fault does to it. */
#ifndef SB_FAULT_OP_FAULT_ARGS_H
#define SB_FAULT_OP_FAULT_ARGS_H

#include "ref/ops/args.h"
#include "ref/ops/values.h"
#include "ref/run/hook.h"

/* The input of that name with its shape; 0 if the op has none. */
int sb_op_input_find(const sb_op_call *call, const char *field, sb_op_value *out);

/* What is done to an array on its way into an op. */
typedef enum sb_edit {
    SB_EDIT_turn,        /* element j of a row is that of j + by, round the end */
    SB_EDIT_roll,        /* row t is that of t + by, round the end */
    SB_EDIT_negate,      /* all of it */
    SB_EDIT_zero_last,   /* the last element of each row */
    SB_EDIT_negate_last, /* the last element of each row */
    SB_EDIT_lose_last,   /* so far below the others that its probability is 0 */
    SB_EDIT_zero,
    SB_EDIT_one,
    SB_EDIT_hundred /* a sigmoid of it is 1 */
} sb_edit;

/* to: in the shape and stride of `from`, which it may be where nothing moves. */
void sb_edit_array(sb_edit edit, const sb_op_value *from, size_t by, float *to);

#endif
