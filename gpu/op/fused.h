/* fused.h - fused kernels, which compute several ops over resident arrays (resident.h): Y-80 to
 * Y-84. Their bits are those of the single ops. */
#ifndef SB_GPU_OP_FUSED_H
#define SB_GPU_OP_FUSED_H

#include "gpu/kernel/linear_shape.h"
#include "gpu/op/resident.h"

/* The most rows of a call. */
enum : size_t { SB_FUSED_ROWS = 9 };

/* --- inputs that are staged once -------------------------------------------------------------- */
/* The input of layers on the bf16 unit, in the order in which their kernels read it. Ordinary
 * layers and experts read different orders, so there are two copies; either may be NULL. */
struct sb_gpu_staged {
    void *layers, *experts;
};
static inline size_t sb_gpu_staged_bytes(size_t rows, size_t cols) /* upper bound for each */
{
    return (rows + 7) / 8 * 8 * ((cols + SB_CHUNK - 1) / SB_CHUNK * SB_CHUNK) * 2;
}

/* True if a layer can take a staged input: it runs on the bf16 unit, and its columns are not
 * reordered by an index. */
bool sb_gpu_takes_staged(const sb_gpu *gpu, const sb_knobs *knobs, const sb_matrix *weight,
                         sb_linear_kind kind);
/* sb_gpu_linear with the input `staged`; the input of the arguments is not read. */
sb_status sb_gpu_linear_staged(sb_gpu *gpu, const sb_knobs *knobs, const sb_linear_args *args,
                               const void *staged);

/* These ops write staged inputs. swiglu: (rows, cols). attn_gate: reads the gates from `packed`,
 * the output of q_proj. */
sb_status sb_gpu_swiglu_staged(sb_gpu *gpu, const float *gate, const float *up, size_t rows,
                               size_t cols, const sb_gpu_staged *out);
sb_status sb_gpu_attn_gate_staged(sb_gpu *gpu, const float *in, const float *packed, size_t rows,
                                  size_t heads, size_t hd, void *layers);

/* --- the stream ------------------------------------------------------------------------------- */
enum sb_gpu_added { SB_ADDED_nothing, SB_ADDED_values, SB_ADDED_combined };
struct sb_gpu_add_norm_args {
    float *x; /* (rows, n), becomes the sum */
    sb_gpu_added added;
    const float *y;                     /* for SB_ADDED_values */
    const sb_moe_combine_args *combine; /* for SB_ADDED_combined: as in sb_gpu_moe_combine_rows */
    const float *shared_logits;         /* (rows) */
    const sb_matrix *weight;
    float eps;
    size_t rows, n;
    float *out; /* may be NULL */
    sb_gpu_staged staged;
};
sb_status sb_gpu_add_norm(sb_gpu *gpu, const sb_gpu_add_norm_args *args);

/* --- attention -------------------------------------------------------------------------------- */
/* Writes the table of sb_rope_table_kernel, (rows, rd / 2, 2), for the positions of the arguments.
 * args->x and args->heads are not read. */
sb_status sb_gpu_turns(sb_gpu *gpu, const sb_rope_args *args, float *table);

struct sb_gpu_heads_args {
    const float *packed, *key, *value, *turns;
    const sb_matrix *q_norm, *k_norm;
    size_t rows, heads, kv_heads, hd, rd;
    float eps, key_scale, value_scale;
    float *query, *gate; /* gate may be NULL */
};
sb_status sb_gpu_heads(sb_gpu *gpu, const sb_knobs *knobs, const sb_gpu_heads_args *args,
                       const sb_gpu_cache *cache);

/* --- linear attention ------------------------------------------------------------------------- */
/* `conv`, `gates`, `norm` and `rule` are the arguments of the ops. Arrays that one of these ops
 * passes to another are neither read nor written, and the conv state is not written. */
struct sb_gpu_gdn_args {
    const sb_conv_args *conv;
    const sb_gates_args *gates;
    const sb_l2norm_args *norm;
    const sb_delta_rule_args *rule;
};
sb_status sb_gpu_gdn(sb_gpu *gpu, const sb_knobs *knobs, const sb_gpu_gdn_args *args,
                     const sb_gpu_slots *slots);
/* The kernel after sb_gpu_gdn: it computes the gated norm and the conv state. norm->out may be
 * NULL. */
sb_status sb_gpu_gdn_end(sb_gpu *gpu, const sb_gated_rmsnorm_args *norm, const sb_conv_args *conv,
                         const sb_gpu_slots *slots, const sb_gpu_staged *staged);

/* --- choices ---------------------------------------------------------------------------------- */
/* The pairs of row and slot, sorted by expert, in resident memory. */
struct sb_gpu_choice {
    uint32_t *order, *begin, *sets, *count; /* (pairs), (experts + 1), (4 pairs), (1) */
};
/* The input of a layer on the bf16 unit: swiglu of gate and up, both (rows, cols). */
struct sb_gpu_beside {
    const float *gate, *up;
    size_t cols;
    void *layers; /* as in sb_gpu_staged */
};
/* Also stages `beside` in the same launch, as sb_gpu_swiglu_staged does; it may be NULL.
 * SB_ERR_UNSUPPORTED: too many rows, pairs or experts for one block. */
sb_status sb_gpu_choose(sb_gpu *gpu, const sb_router_args *args, const sb_gpu_choice *choice,
                        const sb_gpu_beside *beside);
/* sb_gpu_experts with pairs that are already sorted. `staged` is the staged input, or NULL. */
sb_status sb_gpu_experts_chosen(sb_gpu *gpu, const sb_knobs *knobs,
                                const sb_expert_linear_args *args, const sb_gpu_choice *choice,
                                const void *staged);
/* Y-66: "Two projections of experts with the same inputs, of one shape and kind of codes, are one
 * launch". The projections are args[0] and args[1], gate and up. `choice` and `staged` are as
 * above, or NULL. Where Y-66 does not apply, the function makes two single calls, with the same
 * result. */
sb_status sb_gpu_experts_both(sb_gpu *gpu, const sb_knobs *knobs, const sb_expert_linear_args *args,
                              const sb_gpu_choice *choice, const void *staged);

/* The greedy tokens. best and done (rows) must be zero, and are zero again afterwards. */
sb_status sb_gpu_greedy_once(sb_gpu *gpu, const float *logits, size_t rows, uint32_t n,
                             uint64_t *best, uint32_t *done, uint32_t *tokens);

#endif
