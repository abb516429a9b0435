/* prefix.h - states at block boundaries, kept for sequences with a common prefix (S-12).
 *
 * An entry is an immutable copy. A session that continues from an entry gets its own copy of the
 * state. Before, the digests of the state are compared with those stored in the entry. */
#ifndef SB_RUN_PREFIX_H
#define SB_RUN_PREFIX_H

#include "ref/run/session.h"

typedef struct sb_prefix_store sb_prefix_store;

typedef struct sb_prefix_options {
    size_t block;          /* tokens, at least 1 */
    uint64_t most_bytes;   /* limit for all entries together; 0: no limit */
    const sb_knobs *knobs; /* knobs of its sessions; NULL: profile exact; copied */
    int mtp;               /* its sessions have the head */
} sb_prefix_options;

/* The model must outlive the store. */
sb_status sb_prefix_store_new(const sb_model *model, const sb_prefix_options *options,
                              sb_prefix_store **out, sb_error *err);
void sb_prefix_store_free(sb_prefix_store *store);

/* Replaces the sequence of a session by `tokens` (n >= 1). Continues from the longest matching
 * entry, which covers the first *reused tokens, but never all n. Feeds the remaining tokens, and
 * stores the states at the block boundaries between them. The session then has the logits of the
 * last call, which ends with token n - 1. */
sb_status sb_prefix_feed(sb_prefix_store *store, sb_session *session, const uint32_t *tokens,
                         size_t n, size_t *reused, sb_error *err);

/* After a round: stores the states at the block boundaries within its rows. tokens are the n tokens
 * fed so far; the round fed the last `rows` of them. *stored is the number of states stored. Under
 * SB_ROLLBACK_replay, only the state at the end of the round exists. Nothing is stored if rounds
 * leave other bits than calls of whole blocks (S-3). */
sb_status sb_prefix_round(sb_prefix_store *store, const sb_session *session, const uint32_t *tokens,
                          size_t n, size_t rows, size_t *stored, sb_error *err);

/* Stores a copy of the state after exactly these tokens (n >= 1, a multiple of the block). If there
 * is an entry for the same tokens, that entry stays and counts as used. */
sb_status sb_prefix_put(sb_prefix_store *store, const uint32_t *tokens, size_t n,
                        const sb_state *state, sb_error *err);

typedef struct sb_prefix_entry {
    uint32_t *tokens; /* (n) */
    size_t n;
    sb_state *state;
    sb_digest target, mtp; /* digests at the time of storing; mtp is "" without a head */
    uint64_t bytes;
    uint64_t used; /* the number of its last use, different for all entries */
} sb_prefix_entry;

/* The entries, in the order of storing. */
size_t sb_prefix_count(const sb_prefix_store *store);
const sb_prefix_entry *sb_prefix_at(const sb_prefix_store *store, size_t i);

/* The longest entry whose tokens are a proper prefix of these; NULL if there is none. */
const sb_prefix_entry *sb_prefix_find(const sb_prefix_store *store, const uint32_t *tokens,
                                      size_t n);

#endif
