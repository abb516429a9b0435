/* call.h - one call of a model: its data, and how it runs an op.
 *
 * The first error stays in `status`, and its message in `err`. After an error no op runs and no
 * value is shown to taps. So a layer is a plain list of ops, and the caller checks `status` once,
 * at the end. */
#ifndef SB_RUN_CALL_H
#define SB_RUN_CALL_H

#include "ref/run/backend.h"
#include "ref/run/hook.h"
#include "ref/run/model.h"
#include "ref/run/scratch.h"
#include "ref/run/states.h"
#include "ref/run/tap.h"
#include "ref/run/tree.h"
#include "ref/state/trail.h"

/* One call of `rows` tokens on one sequence. */
typedef struct sb_call {
    const sb_model *model;
    const sb_backend *backend;
    const sb_knobs *knobs;
    sb_tap_fn tap;
    void *tap_ctx;
    sb_op_hook hook; /* NULL: ops run without a hook */
    void *hook_ctx;
    int hook_skips_experts; /* sb_session_options */
    sb_call_kind kind;
    sb_state *state;
    sb_session_states states; /* that are kept for a drafter, in: */
    float *kept_states;       /* (rows, states.count, H) */
    sb_trail *trail;          /* receives the state after each row (S-10); NULL: not needed */
    uint64_t position; /* position of row 0; in the MTP layer, the number of the entry of row 0 */
    sb_scratch *s;
    size_t rows;
    const sb_tree *tree; /* NULL: each row follows the row before it; needs `trail` */
    uint32_t layer;      /* the current layer; tap names begin with it */
    uint32_t drafter;    /* not 0: the call of a drafter, and its layer's number for hooks */
    sb_status status;    /* the first error */
    sb_error *err;
} sb_call;

/* A value that an op has made: (rows of the call, cols). */
typedef struct sb_value {
    const char *tap;
    float *data;
    size_t cols;
} sb_value;

/* The row and slot of an op that does not work on all rows of the call. */
typedef struct sb_at {
    size_t row, slot;
} sb_at;

/* Runs an op of the call's backend, or the hook in its place. Then shows the values in `made` to
 * the tap. `made` is a list that ends with an entry without a name. Its first entry names the op;
 * if the data of this entry is NULL, it is not shown. at: NULL for an op on all rows. */
void sb_run_op(sb_call *call, sb_op op, const void *args, const sb_at *at, const sb_value *made);

/* SB_RUN(call, conv, SB_MADE({"linear_attn.conv", s->conv, C}), .in = s->qkv, ...) */
#define SB_RUN(call, op, made, ...)                                                                \
    sb_run_op((call), SB_OP_##op, &(const sb_##op##_args){__VA_ARGS__}, NULL, (made))
#define SB_MADE(...)                                                                               \
    (const sb_value[])                                                                             \
    {                                                                                              \
        __VA_ARGS__,                                                                               \
        {                                                                                          \
            0                                                                                      \
        }                                                                                          \
    }

/* Runs n projections of the same experts of every row. No projection reads what another one writes.
 * The projections run together if the backend can do so and no hook has to see them. Otherwise they
 * run one row and slot after the other. */
void sb_run_experts(sb_call *call, const sb_expert_linear_args *args, size_t n,
                    const char *const *taps);

/* R-17 for every row. `first` has the arguments of row 0; the data of the other rows follow in the
 * same arrays. Threads share the rows if the op is that of the reference backend and there is no
 * hook. shared_logit: (rows). */
void sb_run_combine(sb_call *call, const sb_moe_combine_args *first, const float *shared_logit,
                    const char *tap);

/* Shows a value under "layers.<layer>.<name>", "mtp.layers.0.<name>", "drafter.layers.0.<name>", or
 * `name` alone outside the layers. Checks first that every element is finite (S-6). */
void sb_run_tap(sb_call *call, const char *name, float *data, size_t rows, size_t cols);

/* Records that an op failed. Writes a message unless a hook has already written one. */
void sb_call_fail(sb_call *call, sb_op op, const char *name, sb_status status);

/* The pager that has to know which weights are read next. NULL if the backend does not read weights
 * in place. */
sb_pager *sb_call_pager(const sb_call *call);

#endif
