/* backend.h - a named table of ops. The reference backend computes in host memory, and its bits
 * define those of every other backend. */
#ifndef SB_RUN_BACKEND_H
#define SB_RUN_BACKEND_H

#include "ref/ops/experts.h"
#include "ref/ops/op.h"
#include "ref/run/sample.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Draws one token from each row of logits (P-1 to P-10). Row t draws the token at `position` +
 * t. */
typedef struct sb_draw_args {
    sb_sampling settings; /* within P-1 */
    const float *logits;  /* (rows, n), finite */
    size_t rows;
    uint32_t n;
    uint64_t position;
    sb_purpose purpose;
    float *p;         /* (rows, n) the probabilities; NULL: not wanted */
    uint32_t *tokens; /* (rows) */
} sb_draw_args;

/* Decides about drafts that were drawn from q while the target has p (P-12, P-13). */
typedef struct sb_judge_args {
    sb_sampling settings;
    const float *p, *q; /* (rows, n) */
    size_t rows;
    uint32_t n;
    const uint32_t *drafts; /* (rows), below n */
    uint64_t position;
    uint32_t *accepted; /* (rows) 0 or 1 */
    uint32_t *tokens;   /* (rows) the draft, or the token in its place */
} sb_judge_args;

typedef struct sb_backend {
    const char *name;
    sb_op_table ops;
    const char *(*why)(void); /* message of the last op that failed; may be NULL or return NULL */
    /* Optional: runs the ops of n projections of the same experts together. The bits are the same
     * as for one op at a time. No projection reads what another one writes. SB_ERR_UNSUPPORTED: the
     * function does not support these experts, or not so many in one call; the caller then runs
     * them in smaller portions. */
    sb_status (*experts)(const sb_knobs *knobs, const sb_expert_linear_args *args, size_t n);
    /* These three choose the tokens of R-20 for logits (rows, n), draw tokens, and judge drafts.
     * NULL (as in the reference): the functions of sample.h are used. */
    sb_status (*greedy)(const float *logits, size_t rows, uint32_t n, uint32_t *tokens);
    sb_status (*draw)(const sb_draw_args *args);
    sb_status (*judge)(const sb_judge_args *args);
} sb_backend;

/* The reference backend: the definition (ref/ops) under SAMEBIT_ISA=exact, else its twin
 * (ref/fast), which has the same bits. sb_math_start makes this choice once, at program start. */
const sb_backend *sb_backend_ref(void);

size_t sb_op_count(void);
const char *sb_op_name(size_t i);
const char *sb_op_clause(size_t i);

#ifdef __cplusplus
}
#endif

#endif
