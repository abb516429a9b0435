/* op_fault_args.h - finds an input of any op by its name, and edits it for a fault. */
#ifndef SB_FAULT_OP_FAULT_ARGS_H
#define SB_FAULT_OP_FAULT_ARGS_H

#include "ref/ops/args.h"
#include "ref/ops/values.h"
#include "ref/run/hook.h"

/* The input of that name with its shape; 0 if the op has none. */
int sb_op_input_find(const sb_op_call *call, const char *field, sb_op_value *out);

/* The edit of an array before an op reads it. */
typedef enum sb_edit {
    SB_EDIT_turn,        /* element j of a row becomes element j + by, cyclically */
    SB_EDIT_roll,        /* row t becomes row t + by, cyclically */
    SB_EDIT_negate,      /* the whole array */
    SB_EDIT_zero_last,   /* the last element of each row */
    SB_EDIT_negate_last, /* the last element of each row */
    SB_EDIT_lose_last,   /* the last element becomes so low that its probability is 0 */
    SB_EDIT_zero,
    SB_EDIT_one,
    SB_EDIT_hundred /* its sigmoid is 1 */
} sb_edit;

/* to: has the shape and stride of `from`; may be `from` itself if no element moves. */
void sb_edit_array(sb_edit edit, const sb_op_value *from, size_t by, float *to);

#endif
