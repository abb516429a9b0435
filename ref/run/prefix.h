/* prefix.h - states at block boundaries, kept for sequences that begin alike (S-12).
 *
 * An entry is a copy that nobody changes: a session that continues from it gets a copy of its own,
 * and before it does, the entry's digests must be those that it was stored with. */
#ifndef SB_RUN_PREFIX_H
#define SB_RUN_PREFIX_H

#include "ref/run/session.h"

typedef struct sb_prefix_store sb_prefix_store;

typedef struct sb_prefix_options {
    size_t block;          /* tokens, at least 1 */
    uint64_t most_bytes;   /* of all entries together; 0: no bound */
    const sb_knobs *knobs; /* of its sessions; NULL: profile exact; copied */
    int mtp;               /* its sessions have the head */
} sb_prefix_options;

/* model must outlive the store. */
sb_status sb_prefix_store_new(const sb_model *model, const sb_prefix_options *options,
                              sb_prefix_store **out, sb_error *err);
void sb_prefix_store_free(sb_prefix_store *store);

/* Makes `tokens` (n >= 1) the sequence of a session, whatever it was before: continues from the
 * longest entry, which covers *reused of them and never all, feeds the rest and stores the states
 * at the boundaries it comes by. The logits that can be asked for are those of the last call, which
 * ends with token n - 1. */
sb_status sb_prefix_feed(sb_prefix_store *store, sb_session *session, const uint32_t *tokens,
                         size_t n, size_t *reused, sb_error *err);

/* Behind a round: stores the states at the boundaries within its rows. tokens: the n that the
 * session has been fed, the last `rows` of them by the round. *stored counts them: where the round
 * was undone by replay that at its end is the only one there is, and none is stored where rounds
 * leave other bits than calls of whole blocks (S-3). */
sb_status sb_prefix_round(sb_prefix_store *store, const sb_session *session, const uint32_t *tokens,
                          size_t n, size_t rows, size_t *stored, sb_error *err);

/* Stores a copy of a state that follows exactly these tokens (n >= 1, a multiple of the block). An
 * entry of the same tokens stays, and counts as used. */
sb_status sb_prefix_put(sb_prefix_store *store, const uint32_t *tokens, size_t n,
                        const sb_state *state, sb_error *err);

typedef struct sb_prefix_entry {
    uint32_t *tokens; /* (n) */
    size_t n;
    sb_state *state;
    sb_digest target, mtp; /* when it was stored; mtp "" without a head */
    uint64_t bytes;
    uint64_t used; /* the number of its last use: no two entries have the same */
} sb_prefix_entry;

/* The entries, in the order in which they were stored. */
size_t sb_prefix_count(const sb_prefix_store *store);
const sb_prefix_entry *sb_prefix_at(const sb_prefix_store *store, size_t i);

/* The longest entry that is a prefix of these tokens and not all of them; NULL if there is none. */
const sb_prefix_entry *sb_prefix_find(const sb_prefix_store *store, const uint32_t *tokens,
                                      size_t n);

#endif
