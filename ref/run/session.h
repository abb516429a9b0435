/* session.h - one sequence fed through one model: prefill and step, state, logits. */
#ifndef SB_RUN_SESSION_H
#define SB_RUN_SESSION_H

#include "ref/base/hash.h"
#include "ref/run/backend.h"
#include "ref/run/model.h"
#include "ref/run/tap.h"
#include "ref/state/state.h"

typedef struct sb_session sb_session;

typedef struct sb_session_options {
    const sb_backend *backend; /* NULL: the reference */
    const sb_knobs *knobs;     /* NULL: profile exact; copied */
    sb_tap_fn tap;             /* NULL: none */
    void *tap_ctx;
} sb_session_options;

/* model must outlive the session. */
sb_status sb_session_new(const sb_model *model, const sb_session_options *options, sb_session **out,
                         sb_error *err);
void sb_session_free(sb_session *session);

/* Feeds n >= 1 tokens in one call (a prefill, or a step if n is 1). In profile exact,
 * S-2: "Feeding rows a..b and then b..c leaves the same state and gives the same outputs, bit for
 * bit, as feeding a..c."; S-3 says where another delta rule form cannot. */
sb_status sb_session_feed(sb_session *session, const uint32_t *tokens, size_t n, sb_error *err);

/* The hidden vectors after the final norm of the rows of the last call: (rows, H). */
const float *sb_session_hidden(const sb_session *session);
size_t sb_session_rows(const sb_session *session);

/* Logits (V) of one row of the last call. */
sb_status sb_session_logits(sb_session *session, size_t row, float *logits, sb_error *err);

/* Back to an empty sequence; also after a failed call. */
void sb_session_reset(sb_session *session);

const sb_state *sb_session_state(const sb_session *session);

/* The token of R-20: the largest logit, the lowest id among equals. */
uint32_t sb_greedy(const float *logits, size_t n);

#endif
