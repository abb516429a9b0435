/* schedule.h - the layer loop: which op, with which weights, on which state. */
#ifndef SB_RUN_SCHEDULE_H
#define SB_RUN_SCHEDULE_H

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
    uint32_t layer; /* the one at work; tap names begin with it */
    sb_error *err;
} sb_call;

/* Shows a value under "layers.<layer>.<name>", "mtp.layers.0.<name>", or `name` alone outside the
 * layers, after checking that every element is finite (S-6). */
sb_status sb_show_tap(const sb_call *call, const char *name, float *data, size_t rows, size_t cols);

/* scratch->y to scratch->out: the mixer of a linear-attention or full-attention layer, the MLP. */
sb_status sb_run_gdn(sb_call *call, const sb_layer *layer);
sb_status sb_run_attention(sb_call *call, const sb_layer *layer);
sb_status sb_run_mlp(sb_call *call, const sb_layer *layer);

/* One decoder layer: scratch->x to scratch->x. */
sb_status sb_run_layer(sb_call *call, const sb_layer *layer, int full);

/* All layers and the final norm: from tokens to scratch->hidden. */
sb_status sb_run_trunk(sb_call *call, const uint32_t *tokens);

/* The logits (count, V) of rows of scratch->hidden: of the model's head, or of its MTP head. */
sb_status sb_run_head(sb_call *call, size_t row, size_t count, const char *tap, float *logits);

/* One call of the MTP head: row t pairs hidden row t (rows, H) with tokens[t]. scratch->hidden (or
 * x, where K-28 says so) is what a further draft is fed. */
sb_status sb_run_mtp(sb_call *call, const float *hidden, const uint32_t *tokens);

/* The ops as the schedule calls them. */
sb_status sb_run_linear(sb_call *call, const sb_matrix *weight, const float *in, size_t rows,
                        float *out, const char *tap);
sb_status sb_run_linear_of(sb_call *call, sb_linear_kind kind, const sb_matrix *weight,
                           const float *in, size_t rows, float *out, const char *tap);
sb_status sb_run_rmsnorm(sb_call *call, const sb_matrix *weight, const float *in, size_t rows,
                         size_t n, float *out, const char *tap);

/* Runs an op of the call's backend, or the hook in its place; `name` is the tap of its output.
 * Fills in the message if it fails. */
#define SB_RUN(call, op, name, ...)                                                                \
    sb_run_op((call), SB_OP_##op, (name), NULL, &(const sb_##op##_args){__VA_ARGS__})

/* Whom to tell what is read next: NULL where the backend does not read weights in place. */
sb_pager *sb_call_pager(const sb_call *call);

/* Which row and slot an op has that does not have all rows of the call. */
typedef struct sb_at {
    size_t row, slot;
} sb_at;
sb_status sb_run_op(const sb_call *call, sb_op op, const char *name, const sb_at *at,
                    const void *args);

/* Experts together, where the backend can and no hook wants to see them one by one;
 * SB_ERR_UNSUPPORTED: they are to be run one by one. */
sb_status sb_run_experts(const sb_call *call, const char *name, const sb_expert_linear_args *args);
sb_status sb_run_expert_pair(const sb_call *call, const char *name,
                             const sb_expert_linear_args pair[2]);

#endif
