/* state.h - everything that one sequence remembers between calls. A state can be copied, compared,
 * hashed and restored. */
#ifndef SB_STATE_STATE_H
#define SB_STATE_STATE_H

#include <stddef.h>
#include <stdint.h>

#include "ref/base/hash.h"
#include "ref/base/status.h"
#include "ref/model/config.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A full-attention layer has keys and values; a linear-attention layer has conv and recurrent. */
typedef struct sb_layer_state {
    float *keys,
        *values;      /* (capacity, nKV, hd): keys after norm and rope; both in the form of K-24 */
    float *conv;      /* (kw-1, C): the last columns before the convolution, oldest first */
    float *recurrent; /* (nV, dk, dv) */
} sb_layer_state;

typedef struct sb_state {
    const sb_config *config;          /* not owned */
    uint64_t position;                /* tokens fed */
    uint64_t capacity;                /* positions that fit into keys and values */
    sb_layer_state *layers;           /* (L), and one more for the MTP layer if has_mtp */
    int has_mtp;                      /* the MTP head is fed with the sequence (S-7) */
    uint64_t mtp_entries;             /* its entries: rows of layers[L] */
    struct sb_drafter_state *drafter; /* of a state file with the entries of a drafter
                                         (drafter.h); NULL: none */
    float *mtp_hidden; /* (H) the last hidden vector, whose MTP entry needs the next token */
} sb_state;

/* A sequence of length 0; has_mtp: with a head. */
sb_status sb_state_new(const sb_config *config, int has_mtp, sb_state **out, sb_error *err);
void sb_state_free(sb_state *state);

/* Resets to length 0: zeroes the data that a new sequence reads. */
void sb_state_reset(sb_state *state);

/* Makes room for `more` positions after the current one. On failure the state is unchanged. */
sb_status sb_state_reserve(sb_state *state, uint64_t more, sb_error *err);

/* Copies a state without the entries of a drafter, with room for its own positions only. */
sb_status sb_state_copy(const sb_state *from, sb_state **out, sb_error *err);

/* Makes `to` equal to `from`, but for the entries of a drafter, which `to` keeps. Both must be of
 * the same configuration and both with or both without a head, else SB_ERR_USAGE. On failure `to`
 * is unchanged. */
sb_status sb_state_assign(sb_state *to, const sb_state *from, sb_error *err);

/* Removes the MTP head, as if the sequence never had one. */
void sb_state_drop_mtp(sb_state *state);

/* The digests `target` of D-3 and `mtp` of D-9 (SB_ERR_USAGE without a head). SB_ERR_MEMORY if
 * memory for the hash is out. */
sb_status sb_state_digest(const sb_state *state, sb_digest *digest, sb_error *err);
sb_status sb_state_mtp_digest(const sb_state *state, sb_digest *digest, sb_error *err);

/* sb_state_layers: the number of layers in the state, L, plus 1 with a head. _is_full: 1 if a layer
 * has full attention. _kv_rows: the number of valid rows of its keys and values. */
uint32_t sb_state_layers(const sb_state *state);
int sb_state_is_full(const sb_state *state, uint32_t layer);
uint64_t sb_state_kv_rows(const sb_state *state, uint32_t layer);

/* The number of elements of a layer's pieces. */
size_t sb_state_kv_row(const sb_config *config);         /* nKV * hd */
size_t sb_state_conv_size(const sb_config *config);      /* (kw-1) * C */
size_t sb_state_recurrent_size(const sb_config *config); /* nV * dk * dv */

#ifdef __cplusplus
}
#endif

#endif
