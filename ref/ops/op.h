/* op.h - the contract of every operation: argument structs, shapes, and the table that a backend
 * fills.
 *
 * An op knows arrays, shapes, stored matrices and knobs, but no models and no files. Arrays are
 * dense, row-major, binary32; the comments give their shapes. Outputs never alias inputs unless the
 * struct says "in place". Every op returns SB_OK, or SB_ERR_MEMORY if it could not allocate
 * scratch. A value that is not finite propagates as A-6 says, and the session catches it. The
 * formulas are in docs/spec.md. Each member needs a row in args.def, else args.c does not compile.
 *
 * "one IEEE 754 binary32 operation at a time, rounded to nearest even, in the order in which
 * the clause writes it, and never contracted". Therefore the functions store many intermediate
 * results in named variables. */
#ifndef SB_OPS_OP_H
#define SB_OPS_OP_H

#include <stddef.h>
#include <stdint.h>

#include "ref/formats/matrix.h"
#include "ref/ops/knobs.h"

typedef struct sb_embed_args {
    const sb_matrix *table; /* (V, H) */
    const uint32_t *tokens; /* (T), each below V */
    size_t rows;            /* T */
    float *out;             /* (T, H) */
} sb_embed_args;

/* The kinds of linear layers that some knob treats separately. */
typedef enum sb_linear_kind {
    SB_LINEAR_layer,
    SB_LINEAR_router,
    SB_LINEAR_shared_gate, /* the gate of the shared expert, a matrix of one row */
    SB_LINEAR_expert_down, /* down_proj of a routed expert */
    SB_LINEAR_head,        /* logits, of the model or of its MTP head */
    SB_LINEAR_expert_in    /* gate_proj and up_proj of a routed expert */
} sb_linear_kind;

typedef struct sb_linear_args {
    const sb_matrix *weight; /* (N, K) */
    sb_linear_kind kind;
    const float *in; /* (T, K) */
    size_t rows;     /* T */
    float *out;      /* (T, N) */
} sb_linear_args;

typedef struct sb_rmsnorm_args {
    const float *in;         /* (rows, n) */
    const sb_matrix *weight; /* (1, n) */
    float eps;
    size_t rows, n;
    float *out; /* (rows, n) */
    int plain;  /* 0: zero-centred, the factor is 1 + w; 1: the factor is w */
} sb_rmsnorm_args;

typedef struct sb_conv_args {
    const float *in;         /* (T, C) columns u, before the convolution */
    const sb_matrix *weight; /* (C, kw): the last tap multiplies the current row */
    size_t rows;             /* T */
    float *state;            /* (kw-1, C) the last columns, oldest first; in place */
    float *trail;            /* (T, kw-1, C) the state after each row, or NULL */
    sb_form form;            /* of the call (K-30) */
    float *out;              /* (T, C) after silu */
} sb_conv_args;

typedef struct sb_gates_args {
    const float *a, *b;       /* (T, nV) */
    const sb_matrix *a_log;   /* (1, nV) */
    const sb_matrix *dt_bias; /* (1, nV) */
    size_t rows, heads;       /* T, nV */
    sb_form form;             /* of the call (K-30) */
    float *g;                 /* (T, nV) log of the decay, <= 0 */
    float *beta;              /* (T, nV) */
} sb_gates_args;

typedef struct sb_l2norm_args {
    const float *qkv;    /* (T, 2*nK*dk + nV*dv): queries, keys, values of the convolution */
    size_t rows, stride; /* T, 2*nK*dk + nV*dv */
    size_t heads, dk;    /* nK, dk */
    float eps;           /* 1e-6, added to the sum of squares; K-32 has other uses of eps */
    int recurrent;       /* the delta rule will run in its recurrent form (K-16) */
    sb_form form;        /* of the call (K-30) */
    float *q;            /* (T, nK, dk) normalised; scaled by dk^-1/2 except under K-16 and R-22 */
    float *k;            /* (T, nK, dk) normalised */
} sb_l2norm_args;

typedef struct sb_rope_args {
    float *x; /* (T, heads, hd), in place */
    size_t rows, heads, hd, rd;
    double theta;
    const uint32_t *position[3]; /* (T) each: time, height, width */
    const uint32_t *section;     /* (3) mRoPE sections, or NULL for one position stream */
    /* R-24; yarn_factor 0: the rotation is "default", and the others are not read */
    float yarn_factor, yarn_attention; /* s, m */
    size_t yarn_low, yarn_high;
} sb_rope_args;

typedef struct sb_delta_rule_args {
    const float *q, *k; /* (T, nK, dk) from l2norm */
    const float *v;     /* row t, head h, element j at v[t*v_stride + h*dv + j] */
    size_t v_stride;
    const float *g, *beta; /* (T, nV) */
    size_t rows, k_heads, v_heads, dk, dv;
    float *state; /* (nV, dk, dv), in place */
    float *trail; /* (T, nV, dk, dv) the state after each row, or NULL; always NULL in chunk form */
    float *out;   /* (T, nV, dv) */
} sb_delta_rule_args;
typedef sb_delta_rule_args sb_delta_rule_chunk_args;

typedef struct sb_gated_rmsnorm_args {
    const float *in;         /* (T, heads, n) */
    const float *z;          /* (T, heads, n) */
    const sb_matrix *weight; /* (1, n), plain: the factor is w */
    float eps;
    size_t rows, heads, n;
    float *out; /* (T, heads, n) */
} sb_gated_rmsnorm_args;

typedef struct sb_attention_args {
    const float *q; /* (T, heads, hd) */
    /* (first + T, kv_heads, hd): the cache, including the T rows of this call */
    const float *keys, *values;
    size_t rows, first; /* T, and the position of row 0 */
    size_t heads, kv_heads, hd;
    float key_scale, value_scale; /* multipliers of keys and values; 0: 1 (K-24) */
    float *out;                   /* (T, heads, hd) */
} sb_attention_args;

typedef struct sb_split_gate_args {
    const float *in; /* (T, heads, 2*hd) */
    size_t rows, heads, hd;
    float *query; /* (T, heads, hd) */
    float *gate;  /* (T, heads, hd) */
} sb_split_gate_args;

typedef struct sb_attn_gate_args {
    const float *in, *gate; /* (count) */
    size_t count;
    float *out; /* (count); may be `in` */
} sb_attn_gate_args;

typedef struct sb_router_args {
    const float *logits; /* (T, E) */
    size_t rows, experts, kept;
    int renormalise; /* divide by the sum of the kept probabilities */
    uint32_t *ids;   /* (T, k) by descending logit; ties as K-50 says */
    float *weights;  /* (T, k) */
} sb_router_args;

/* The MLP that a swiglu belongs to (K-51). */
typedef enum sb_mlp_kind { SB_MLP_expert, SB_MLP_shared, SB_MLP_dense } sb_mlp_kind;

typedef struct sb_swiglu_args {
    const float *gate, *up; /* (count) */
    size_t count;
    sb_mlp_kind kind;
    float *out; /* (count); may be `gate` */
} sb_swiglu_args;

typedef struct sb_moe_combine_args {
    const float *expert_out; /* (k, H) outputs of the kept experts of one row */
    const float *weights;    /* (k) */
    const uint32_t *ids;     /* (k) the experts; moe_sum=eager adds in the order of ids */
    const float *shared_out; /* (H); zeros in a model without a shared expert */
    float shared_logit;
    size_t kept, n; /* k, H */
    float *out;     /* (H) */
} sb_moe_combine_args;

typedef struct sb_add_args {
    const float *a, *b; /* (count) */
    size_t count;
    float *out; /* (count); may be `a` */
    float *sum; /* (count) the sum before R (K-48), or NULL */
} sb_add_args;

/* The ops by number. */
typedef enum sb_op {
#define SB_OP(name, clause) SB_OP_##name,
#include "ref/ops/ops.def"
#undef SB_OP
    SB_OP_COUNT
} sb_op;

/* One pointer per row of ops.def: sb_status (*rmsnorm)(const sb_knobs *, const sb_rmsnorm_args *)
 * ... */
typedef struct sb_op_table {
#define SB_OP(name, clause) sb_status (*name)(const sb_knobs *knobs, const sb_##name##_args *args);
#include "ref/ops/ops.def"
#undef SB_OP
} sb_op_table;

#ifdef __cplusplus
extern "C" {
#endif

/* The definitions: plain loops over exact sums (ref/math/exact.h). Their twins are in ref/fast and
 * run unless SAMEBIT_ISA=exact selects the definitions. */
#define SB_OP(name, clause)                                                                        \
    sb_status sb_##name##_ref(const sb_knobs *knobs, const sb_##name##_args *args);
#include "ref/ops/ops.def"
#undef SB_OP

#ifdef __cplusplus
}
#endif

#endif
