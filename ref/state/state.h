/* state.h - everything that one sequence remembers between calls, and its digest. */
#ifndef SB_STATE_STATE_H
#define SB_STATE_STATE_H

#include <stddef.h>
#include <stdint.h>

#include "ref/base/hash.h"
#include "ref/base/status.h"
#include "ref/model/config.h"

/* Of a full-attention layer keys and values are set, of a linear-attention layer conv and
 * recurrent. */
typedef struct sb_layer_state {
    float *keys,
        *values;      /* (capacity, nKV, hd): keys after norm and rope, both as K-24 keeps them */
    float *conv;      /* (kw-1, C): the last columns before the convolution, oldest first */
    float *recurrent; /* (nV, dk, dv) */
} sb_layer_state;

typedef struct sb_state {
    const sb_config *config; /* not owned */
    uint64_t position;       /* tokens fed */
    uint64_t capacity;       /* positions that keys and values have room for */
    sb_layer_state *layers;  /* (L) */
} sb_state;

/* A sequence of length 0. */
sb_status sb_state_new(const sb_config *config, sb_state **out, sb_error *err);
void sb_state_free(sb_state *state);

/* Back to length 0: zeroes what a new sequence reads. */
void sb_state_reset(sb_state *state);

/* Room for `more` positions behind the current one; the state is unchanged if it fails. */
sb_status sb_state_reserve(sb_state *state, uint64_t more, sb_error *err);

/* The digest `target` of D-3. SB_ERR_MEMORY if there is no room for the hash. */
sb_status sb_state_digest(const sb_state *state, sb_digest *digest, sb_error *err);

/* Elements of the pieces of a layer's state. */
size_t sb_state_kv_row(const sb_config *config);         /* nKV * hd */
size_t sb_state_conv_size(const sb_config *config);      /* (kw-1) * C */
size_t sb_state_recurrent_size(const sb_config *config); /* nV * dk * dv */

#endif
