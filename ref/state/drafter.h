/* drafter.h - the entries of an EAGLE-3 drafter, as a part of the state of a sequence (S-15). */
#ifndef SB_STATE_DRAFTER_H
#define SB_STATE_DRAFTER_H

#include "ref/state/state.h"

/* Its members point to the entries; they are not owned unless sb_drafter_state_new made them. */
typedef struct sb_drafter_state {
    uint32_t kv_heads, head_dim; /* of the drafter */
    uint32_t states, width;      /* n and Ht: what it reads of the target */
    uint64_t entries;
    float *keys, *values; /* (entries, nKV, hd), the keys after rope */
    float *pending;       /* (n, Ht) states of the last token, whose entry needs the next token */
} sb_drafter_state;

/* Arrays for entries of these sizes; its pointers are not read. Free it with
 * sb_drafter_state_free. */
sb_status sb_drafter_state_new(const sb_drafter_state *sizes, sb_drafter_state **out,
                               sb_error *err);
void sb_drafter_state_free(sb_drafter_state *entries);

/* The number of elements of keys, and of values; and of `pending`. */
size_t sb_drafter_kv_size(const sb_drafter_state *entries);
size_t sb_drafter_pending_size(const sb_drafter_state *entries);

/* The digest `drafter` of D-13. */
sb_status sb_drafter_state_digest(const sb_drafter_state *entries, sb_digest *digest,
                                  sb_error *err);

#endif
