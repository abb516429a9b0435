/* hook.h - a callback that is called in place of every op of a call. It can watch the op, replace
 * it or plant a fault.
 *
 * A tap (tap.h) sees values by their names. A hook sees the op that computes a value, with all its
 * arguments. Comparisons derive an op's bound from the arguments; planted faults change the
 * arguments or the result. */
#ifndef SB_RUN_HOOK_H
#define SB_RUN_HOOK_H

#include "ref/base/status.h"
#include "ref/ops/op.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The purpose of a call of a session. */
typedef enum sb_call_kind {
    SB_CALL_prompt, /* several tokens, or the first of a sequence */
    SB_CALL_decode, /* one token on a sequence that has a state */
    SB_CALL_verify, /* the rows of a speculative round */
    SB_CALL_draft   /* the MTP head proposes */
} sb_call_kind;
const char *sb_call_kind_name(sb_call_kind kind);

/* The layer number of ops outside the layers. The MTP layer is number L. */
enum { SB_NO_LAYER = 0x7fffffff };

/* One op to run. `name` is the tap of its (first) output within the layer:
 * "linear_attn.in_proj_qkv". Row t of the call has position `position` + t. For ops that run row by
 * row, or slot by slot (experts), `row` and `slot` say which row and slot this op has. */
typedef struct sb_op_call {
    sb_op op;
    uint32_t layer; /* or SB_NO_LAYER */
    const char *name;
    sb_call_kind kind;
    uint64_t position; /* position of row 0 of the call; in the MTP layer, the number of the entry
                          of row 0 */
    size_t rows;       /* of the call */
    size_t row, slot;  /* for an op on one row, or on one expert of one row; else 0 */
    int single;        /* the op works on `row` alone */
    const void *args;  /* sb_<op>_args */
    const sb_knobs *knobs;
    const sb_op_table *table; /* table of the backend */
    sb_error *err;            /* error of the call; a hook that fails may write a message here */
} sb_op_call;

/* Called in place of the op. Returns what the op would return. */
typedef sb_status (*sb_op_hook)(void *ctx, const sb_op_call *call);

/* Runs the op as if there were no hook. */
sb_status sb_op_run(const sb_op_call *call);

#ifdef __cplusplus
}
#endif

#endif
