/* resident.h - a sequence whose activations, states and caches stay in the memory of a backend.
 *
 * A session (session.h) computes op by op: the backend gets the arrays of every op from the host,
 * and returns them. A session with a resident sequence hands over whole calls instead. The bits
 * are the same: Y-71. */
#ifndef SB_RUN_RESIDENT_H
#define SB_RUN_RESIDENT_H

#include "ref/state/state.h"

/* A sequence of the backend, which defines the type. */
typedef struct sb_resident_sequence sb_resident_sequence;

/* The functions get `sequence` as their first argument. The session has checked the tokens, and
 * calls them in an order that S-4 to S-10 allow. */
typedef struct sb_resident {
    sb_resident_sequence *sequence;
    int mtp; /* the sequence feeds the MTP head, too (S-7) */
    /* Makes the sequence empty. Allowed after a failed call. */
    sb_status (*reset)(sb_resident_sequence *sequence, sb_error *err);
    /* Feed n tokens in one call. After a verify, `keep` can undo rows: it keeps the first `kept`
     * rows of the call, at least one. */
    sb_status (*feed)(sb_resident_sequence *sequence, const uint32_t *tokens, size_t n,
                      sb_error *err);
    sb_status (*verify)(sb_resident_sequence *sequence, const uint32_t *tokens, size_t n,
                        sb_error *err);
    sb_status (*keep)(sb_resident_sequence *sequence, size_t kept, sb_error *err);
    /* Step `at` of the MTP head (S-8), from 0 on; writes its logits (V). */
    sb_status (*draft)(sb_resident_sequence *sequence, size_t at, uint32_t token, float *logits,
                       sb_error *err);
    /* Writes the logits (count, V) of rows of the last call. */
    sb_status (*logits)(sb_resident_sequence *sequence, size_t row, size_t count, float *logits,
                        sb_error *err);
    /* Where the logits (V) of a row of the last call, and of the rows after it, are in the memory
     * of the backend; NULL: nowhere. Only the backend's greedy, draw and judge may read there. */
    const float *(*logits_place)(const sb_resident_sequence *sequence, size_t row);
    const float *(*draft_place)(
        const sb_resident_sequence *sequence); /* the same for the last draft */
    /* A copy of the state, which the caller frees. */
    sb_status (*state)(sb_resident_sequence *sequence, sb_state **out, sb_error *err);
    /* Continues from a state of the same model. Allowed after a failed call. */
    sb_status (*set_state)(sb_resident_sequence *sequence, const sb_state *state, sb_error *err);
} sb_resident;

#endif
