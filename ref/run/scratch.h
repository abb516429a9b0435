/* scratch.h - the intermediate arrays of one call, in one block that grows with the call. */
#ifndef SB_RUN_SCRATCH_H
#define SB_RUN_SCRATCH_H

#include "ref/model/config.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The arrays for T rows. No two arrays share memory, even if they are never in use at the same
 * time, because a tap may show any of them. */
typedef struct sb_scratch {
    float *block;
    size_t rows;              /* T, the capacity of the block */
    float *x, *y, *out;       /* (T, H): residual stream, norm output, sublayer */
    float *sum;               /* (T, H): the residual stream before it is rounded (K-48) */
    const float *stream;      /* input of the next norm: x or sum */
    float *hidden;            /* (T, H): the output of the final norm */
    float *joined;            /* (T, 2 H): input of mtp.fc */
    float *qkv, *conv;        /* (T, C) */
    float *z, *core, *normed; /* (T, Vd) */
    float *b, *a, *g, *beta;  /* (T, nV) */
    float *lin_q, *lin_k;     /* (T, Kd) */
    float *packed;            /* (T, nQ, 2 hd) */
    float *query, *query_normed, *gate, *attended; /* (T, nQ, hd) */
    float *key, *value;                            /* (T, nKV, hd) */
    float *router_logits;                          /* (T, E) */
    float *weights, *ids_shown;                    /* (T, k) */
    uint32_t *ids;                                 /* (T, k) */
    float *gate_out, *up_out;                      /* (T, F), or (T, k, I) of the experts */
    float *expert_out;                             /* (T, k, H) */
    float *shared_gate, *shared_up;                /* (T, Is) */
    float *shared_out;                             /* (T, H) */
    float *shared_logit;                           /* (T) */
    uint32_t *position;                            /* (T) */
} sb_scratch;

/* Points all arrays except ids and position into `base`, a block for `rows` rows. base NULL: sets
 * no array. Returns the number of elements of the block. */
size_t sb_scratch_lay_out(sb_scratch *scratch, const sb_config *config, size_t rows, float *base);

/* Grows the block to `rows` rows; the old contents are lost. Returns nonzero if out of memory. */
int sb_scratch_reserve(sb_scratch *scratch, const sb_config *config, size_t rows);
void sb_scratch_free(sb_scratch *scratch);

#ifdef __cplusplus
}
#endif

#endif
