/* hook.h - a hand on every operation of a call: to watch it, to run it otherwise, or to spoil it.
 *
 * Where tap.h shows values by their names, a hook sees the op that makes them, with all its
 * arguments. Comparisons bound an op from its arguments, planted faults change it. */
#ifndef SB_RUN_HOOK_H
#define SB_RUN_HOOK_H

#include "ref/base/status.h"
#include "ref/ops/op.h"

/* What a call of a session is for. */
typedef enum sb_call_kind {
    SB_CALL_prompt, /* several tokens, or the first of a sequence */
    SB_CALL_decode, /* one token on a sequence that has a state */
    SB_CALL_verify, /* the rows of a speculative round */
    SB_CALL_draft   /* the MTP head proposes */
} sb_call_kind;
const char *sb_call_kind_name(sb_call_kind kind);

/* The layer number of what belongs to no layer; the MTP layer is number L. */
enum { SB_NO_LAYER = 0x7fffffff };

/* One op that is to be run. `name` is the tap of its (first) output within the layer:
 * "linear_attn.in_proj_qkv". rows of a call are counted from `position` on; an op that is run row
 * by row, or slot by slot (experts), says which. */
typedef struct sb_op_call {
    sb_op op;
    uint32_t layer; /* or SB_NO_LAYER */
    const char *name;
    sb_call_kind kind;
    uint64_t position; /* of row 0 of the call; in the MTP layer the number of its entry */
    size_t rows;       /* of the call */
    size_t row, slot;  /* of an op that has one row, or one expert of one row; else 0 */
    int single;        /* the op has the one row `row` alone */
    const void *args;  /* sb_<op>_args */
    const sb_knobs *knobs;
    const sb_op_table *table; /* the backend's */
    sb_error *err;            /* of the call: a hook that fails may say why */
} sb_op_call;

/* Called in place of the op; what it returns is what the op would. */
typedef sb_status (*sb_op_hook)(void *ctx, const sb_op_call *call);

/* Runs the op: what there would be without a hook. */
sb_status sb_op_run(const sb_op_call *call);

#endif
