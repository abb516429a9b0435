/* call.h - the internals of a step: its memory, and one running call. Compiled twice, like gpu/op.
 */
#ifndef SB_GPU_STEP_CALL_H
#define SB_GPU_STEP_CALL_H

#include "gpu/op/fused.h"
#include "gpu/step/calls.h"
#include "ref/run/form.h"
#include "ref/run/scratch.h"

/* A part of a step: launches that follow each other without the host. Y-73: "The launches of a part
 * depend on nothing but its kind, its rows, its reach and whether it is the first of the sequence"
 */
enum sb_step_kind { SB_STEP_prompt, SB_STEP_rows, SB_STEP_keep, SB_STEP_accept, SB_STEP_draft };
struct sb_step_part {
    sb_step_kind kind;
    size_t rows;  /* rows of the call; for a draft, the number of the draft */
    size_t reach; /* an upper bound of the number of positions after the part */
    bool first;   /* true if the sequence was empty before */
};

#ifdef __CUDACC__
namespace sb_on_device
#else
namespace sb_on_host
#endif
{
struct sb_step_graph;

/* Resident arrays that fused kernels pass to later fused kernels (fused.h). `norm` and `other` are
 * inputs of layers, staged by a norm and by other ops. `turns` is the table of rotations, `choice`
 * the pairs of experts. `best` and `done` are zero between launches. */
struct sb_step_fused {
    sb_gpu_staged norm, other;
    float *turns;
    sb_gpu_choice choice;
    uint64_t *best;
    uint32_t *done;
};

struct sb_queued_step {
    sb_gpu_step base;
    sb_gpu *gpu;
    sb_gpu_pool *pool;
    const sb_model *model;
    sb_knobs knobs;
    sb_gpu_step_options options;
    bool sealed;
    sb_step_graph *graphs; /* of all parts started so far */

    /* resident arrays */
    sb_scratch s;                     /* activations of options.rows rows */
    uint32_t *position, *slot, *kept; /* one number each: step.cuh */
    uint32_t *first;                  /* the position of row 0 of the running call */
    uint32_t *tokens, *picked;        /* (rows or more), (slots) */
    float *logits;                    /* (slots, V) */
    float *keys_now;                  /* (rows, nKV hd) */
    float *conv, *recurrent;          /* (linear layers, slots, ...) */
    char *keys, *values;              /* (full layers, positions, nKV hd) codes */
    float *before, *head_hidden; /* (rows + 1, H): for each token, the hidden vector of the token
                                    before; (rows, H) */
    size_t slots, full, linear, kv_row; /* number of slots; of attention layers; of linear layers;
                                           bytes of a position in a layer */
    sb_step_fused fused;

    /* host state */
    size_t reach; /* the position; after an accept, an upper bound until sb_gpu_step_kept */
    size_t rows;  /* rows of the last call; 0: no call yet */
    bool next;    /* there is a token for the next call */
    bool trail;   /* rows of the last call can be rejected */
    bool drafted; /* `logits` has those of a draft */
    bool failed;
    /* Rows of the last call whose logits are in `logits`: `shown_rows` rows from row `shown`. */
    size_t shown, shown_rows;
};

/* The input of a layer: its values, and its staged form or NULL. */
struct sb_step_input {
    const float *values;
    const void *staged;
    sb_step_input(const float *in, const void *as = nullptr) : values(in), staged(as)
    {
    }
};

/* The argument of sb_step_call::matrices, for one layer. */
struct sb_step_matrix {
    const char *name;
    const sb_matrix *weight;
    float *out;
    sb_linear_kind kind = SB_LINEAR_layer;
};

/* One running call. Its status is the first failure; all ops after a failure do nothing. */
struct sb_step_call {
    sb_queued_step *step;
    sb_gpu *gpu;
    const sb_knobs *knobs;
    const sb_config *config;
    const sb_scratch *s;
    sb_call_kind kind;
    size_t rows, reach;
    bool chunks, trail;  /* the delta rule runs in chunks; the state after every row is kept */
    bool fused;          /* fused kernels run */
    sb_gpu_added added;  /* outputs that the next norm must first add to the stream */
    size_t full, linear; /* the number of earlier layers of each kind */
    uint32_t layer;
    sb_error *err;
    sb_status status;

    bool ok() const
    {
        return status == SB_OK;
    }
    void did(const char *name, sb_status what);
    /* The output of the last norm of the stream. */
    sb_step_input normed() const
    {
        return {s->y, fused ? step->fused.norm.layers : nullptr};
    }
    /* Where a fused kernel stages the input of this layer. NULL: the layer takes values. */
    const sb_gpu_staged *stages_for(const sb_matrix &weight) const
    {
        const bool takes = fused && sb_gpu_takes_staged(gpu, knobs, &weight, SB_LINEAR_layer);
        return takes ? &step->fused.other : nullptr;
    }
    /* Runs several layers on the output of the last norm. */
    void matrices(const sb_step_matrix *all, size_t count); /* at most four */
    void linear_of(const char *name, sb_linear_kind of, const sb_matrix &weight, sb_step_input in,
                   size_t n, float *out);
    void matrix(const char *name, const sb_matrix &weight, sb_step_input in, float *out)
    {
        linear_of(name, SB_LINEAR_layer, weight, in, rows, out);
    }
    void norm(const char *name, const sb_matrix &weight, const float *in, size_t n, size_t width,
              float *out);
};
}

/* Runs an op or its replacement, unless something has failed before. */
#define SB_STEP(call, name, run)                                                                   \
    do {                                                                                           \
        if ((call).ok())                                                                           \
            (call).did(name, run);                                                                 \
    } while (0)

/* These functions compute s->out from s->y, as in ref/run/layer.c. sb_step_entries computes only
 * the keys and values of attention. */
void sb_step_gdn(sb_step_call &c, const sb_layer *layer);
void sb_step_attention(sb_step_call &c, const sb_layer *layer);
void sb_step_entries(sb_step_call &c, const sb_layer *layer);
void sb_step_mlp(sb_step_call &c, const sb_layer *layer);

/* As in ref/run/layer.c and trunk.c. sb_step_layer updates s->x by a layer. sb_step_trunk runs a
 * call of the model, from its tokens to the next tokens. sb_step_head runs the MTP head from
 * `hidden` and `tokens` to head_hidden. sb_step_prime computes only the entries of the MTP head,
 * "each a key and a value of the head's layer" (S-7). */
void sb_step_layer(sb_step_call &c, const sb_layer *layer, bool is_full);
void sb_step_trunk(sb_step_call &c, size_t logits);
void sb_step_head(sb_step_call &c, const float *hidden, const uint32_t *tokens, int ahead);
void sb_step_prime(sb_step_call &c, const float *hidden, const uint32_t *tokens, int ahead);
void sb_step_greedy(sb_step_call &c, size_t rows,
                    uint32_t *tokens); /* the greedy tokens of step->logits */

/* numbers.cc. _begin writes the positions of the rows, which all layers read. _end ends a call
 * whose last `logits` rows have logits. _cut keeps or accepts rows. _note copies the hidden vectors
 * of the rows of a call to `before`, where the MTP head reads them. _turn copies the vector of the
 * last kept row to row 0 of `before`. _join joins the two inputs of mtp.fc. */
sb_status sb_step_begin(const sb_step_call &c, int ahead, int shift);
sb_status sb_step_turns(const sb_step_call &c); /* mixer.cc, for fused kernels */
sb_status sb_step_end(const sb_step_call &c, size_t logits);
sb_status sb_step_cut(const sb_step_call &c, bool accepts);
sb_status sb_step_note(const sb_step_call &c);
sb_status sb_step_turn(const sb_step_call &c);
sb_status sb_step_join(const sb_step_call &c);

/* Makes the launch that computes the logits of `count` rows of the last call, at most `slots`. */
sb_status sb_step_show(sb_queued_step *step, size_t row, size_t count, sb_error *err);

/* Makes all launches of a part, and does nothing else, so that a graph can record them. */
sb_status sb_step_launch(sb_queued_step *step, const sb_step_part &part, sb_error *err);

/* graph.cc: makes the launches of a part, or replays their recording. */
sb_status sb_step_start(sb_queued_step *step, const sb_step_part &part, sb_error *err);
void sb_step_forget_graphs(sb_queued_step *step);

/* memory.cc: the resident arrays, and how the host reads and writes them. */
sb_status sb_step_settle(sb_queued_step *step, sb_error *err);
void sb_step_leave(sb_queued_step *step);
sb_status sb_step_empty(sb_queued_step *step, sb_error *err);
sb_status sb_step_write(sb_queued_step *step, void *resident, const void *host, size_t bytes,
                        sb_error *err);
sb_status sb_step_read(sb_queued_step *step, void *host, const void *resident, size_t bytes,
                       sb_error *err);
/* state.cc */
sb_status sb_step_copy_state(sb_queued_step *step, sb_state **out, sb_error *err);
sb_status sb_step_write_state(sb_queued_step *step, const sb_state *state, sb_error *err);

#endif
