/* call.h - one call of a model: what it works on, and how it runs an op.
 *
 * Errors stick to the call: the first one stays in `status` with its message, and from then on no
 * op runs and no value is shown. So a layer is a list of ops, and whoever began the call asks
 * `status` once, at its end. */
#ifndef SB_RUN_CALL_H
#define SB_RUN_CALL_H

#include "ref/run/backend.h"
#include "ref/run/hook.h"
#include "ref/run/model.h"
#include "ref/run/scratch.h"
#include "ref/run/tap.h"
#include "ref/state/trail.h"

/* One call of `rows` tokens on one sequence. */
typedef struct sb_call {
    const sb_model *model;
    const sb_backend *backend;
    const sb_knobs *knobs;
    sb_tap_fn tap;
    void *tap_ctx;
    sb_op_hook hook; /* NULL: ops run as they are */
    void *hook_ctx;
    int hook_skips_experts; /* sb_session_options */
    sb_call_kind kind;
    sb_state *state;
    sb_trail *trail;   /* gets the state after each row (S-10); NULL: nobody goes back */
    uint64_t position; /* of row 0; in the MTP layer the number of its entry */
    sb_scratch *s;
    size_t rows;
    uint32_t layer;   /* the one at work; tap names begin with it */
    sb_status status; /* the first error */
    sb_error *err;
} sb_call;

/* A value that an op has made: (rows of the call, cols). */
typedef struct sb_value {
    const char *tap;
    float *data;
    size_t cols;
} sb_value;

/* Which row and slot an op has that does not have all rows of the call. */
typedef struct sb_at {
    size_t row, slot;
} sb_at;

/* Runs an op of the call's backend, or the hook in its place, and then shows the values that it has
 * made, up to one without a name. The op goes by the name of the first, which is not shown if it
 * has no data. at: NULL for an op on all rows. */
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

/* n projections of the same experts of every row, of which none reads what another has written:
 * together, where the backend can and no hook wants to see them, or one row and slot after the
 * other. */
void sb_run_experts(sb_call *call, const sb_expert_linear_args *args, size_t n,
                    const char *const *taps);

/* R-17 of every row of `first`, whose arrays the other rows follow; all rows on all threads, where
 * the op is the reference's and nobody watches. shared_logit: (rows). */
void sb_run_combine(sb_call *call, const sb_moe_combine_args *first, const float *shared_logit,
                    const char *tap);

/* Shows a value under "layers.<layer>.<name>", "mtp.layers.0.<name>", or `name` alone outside the
 * layers, after checking that every element is finite (S-6). */
void sb_run_tap(sb_call *call, const char *name, float *data, size_t rows, size_t cols);

/* An op that failed: the message, unless a hook has left one. */
void sb_call_fail(sb_call *call, sb_op op, const char *name, sb_status status);

/* Whom to tell what is read next: NULL where the backend does not read weights in place. */
sb_pager *sb_call_pager(const sb_call *call);

#endif
