/* state.h - everything that one sequence remembers between calls, as a value: it can be copied,
 * compared, hashed, and put back. */
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
    sb_layer_state *layers;  /* (L), and one more for the MTP layer if has_mtp */
    int has_mtp;             /* the sequence has a head that is fed along (S-7) */
    uint64_t mtp_entries;    /* its entries: rows of layers[L] */
    float *mtp_hidden;       /* (H) the last hidden vector, whose entry waits for its token */
} sb_state;

/* A sequence of length 0; has_mtp: with a head. */
sb_status sb_state_new(const sb_config *config, int has_mtp, sb_state **out, sb_error *err);
void sb_state_free(sb_state *state);

/* Back to length 0: zeroes what a new sequence reads. */
void sb_state_reset(sb_state *state);

/* Room for `more` positions behind the current one; the state is unchanged if it fails. */
sb_status sb_state_reserve(sb_state *state, uint64_t more, sb_error *err);

/* A copy with room for its own positions only. */
sb_status sb_state_copy(const sb_state *from, sb_state **out, sb_error *err);

/* Makes `to` equal to `from`. Both must be of the same configuration and both with or both without
 * a head, else SB_ERR_USAGE. If it fails, `to` is what it was. */
sb_status sb_state_assign(sb_state *to, const sb_state *from, sb_error *err);

/* Forgets the MTP head: the state is as if its sequence never had one. */
void sb_state_drop_mtp(sb_state *state);

/* The digests `target` of D-3 and `mtp` of D-9 (SB_ERR_USAGE without a head). SB_ERR_MEMORY if
 * there is no room for the hash. */
sb_status sb_state_digest(const sb_state *state, sb_digest *digest, sb_error *err);
sb_status sb_state_mtp_digest(const sb_state *state, sb_digest *digest, sb_error *err);

/* Layers whose keys and values, or conv and recurrent state, the state holds: L, and one more with
 * a head; whether one of them is of full attention; and the rows of keys and values that count. */
uint32_t sb_state_layers(const sb_state *state);
int sb_state_is_full(const sb_state *state, uint32_t layer);
uint64_t sb_state_kv_rows(const sb_state *state, uint32_t layer);

/* Elements of the pieces of a layer's state. */
size_t sb_state_kv_row(const sb_config *config);         /* nKV * hd */
size_t sb_state_conv_size(const sb_config *config);      /* (kw-1) * C */
size_t sb_state_recurrent_size(const sb_config *config); /* nV * dk * dv */

#endif
