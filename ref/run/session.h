/* session.h - one sequence fed through one model: prefill and step, drafts, rollback, state,
 * logits. */
#ifndef SB_RUN_SESSION_H
#define SB_RUN_SESSION_H

#include "ref/base/hash.h"
#include "ref/run/backend.h"
#include "ref/run/hook.h"
#include "ref/run/model.h"
#include "ref/run/resident.h"
#include "ref/run/states.h"
#include "ref/run/tap.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sb_session sb_session;

enum { SB_POSITION_LIMIT = 1 << 24 }; /* S-5 */

typedef struct sb_session_options {
    const sb_backend *backend; /* NULL: the reference */
    const sb_knobs *knobs;     /* NULL: profile exact; copied */
    sb_tap_fn tap;             /* NULL: none */
    void *tap_ctx;
    sb_op_hook hook; /* NULL: none */
    void *hook_ctx;
    int hook_skips_experts; /* 1: the hook does not need the linear ops of experts, one op for each
                               row and slot; the backend may run these together */
    int mtp; /* 1: feed the MTP head, too (S-7); SB_ERR_USAGE if the checkpoint has no MTP head */
    sb_session_states states;    /* kept after each call; copied, but not the list */
    const sb_resident *resident; /* NULL: op by op. Otherwise, this sequence of the backend computes
                                    all calls, under the same knobs; it must outlive the session.
                                    No tap, no hook and no kept state is possible then. */
} sb_session_options;

/* The model must outlive the session. A resident sequence is made empty. */
sb_status sb_session_new(const sb_model *model, const sb_session_options *options, sb_session **out,
                         sb_error *err);
void sb_session_free(sb_session *session);

/* Feeds n >= 1 tokens in one call (a prefill, or a step if n is 1). In profile exact, S-2: "Feeding
 * rows a..b and then b..c leaves the same state and gives the same outputs, bit for bit, as feeding
 * a..c."; S-3 lists the profiles without this property. */
sb_status sb_session_feed(sb_session *session, const uint32_t *tokens, size_t n, sb_error *err);

/* The way in which the last rows of a call are undone (S-10). Both ways leave the same bits. */
typedef enum sb_rollback {
    SB_ROLLBACK_snapshots, /* the state after each row is kept; recurrent form only (K-15) */
    SB_ROLLBACK_replay     /* the state before the call is kept, and the rows are fed again */
} sb_rollback;

/* Feeds the rows of a round (S-9): as sb_session_feed, but sb_session_keep can undo some of
 * them. */
sb_status sb_session_verify(sb_session *session, const uint32_t *tokens, size_t n,
                            sb_rollback rollback, sb_error *err);

/* Called after a verify. Undoes its rows except the first `kept`, as if only these had been fed. At
 * most once per verify. The hidden vectors and logits of the kept rows stay available. A resident
 * sequence cannot undo all rows: with kept = 0 it refuses every further call. */
sb_status sb_session_keep(sb_session *session, size_t kept, sb_error *err);

/* S-16: as sb_session_verify for the rows of a tree. parents (n): the row before each row, which
 * stands before it; that of row 0 does not count. sb_session_keep_path must follow, before any
 * other call but a reset. Sessions with a resident sequence have no trees, nor have models with
 * linear attention under knobs for which S-2 does not hold (S-3): SB_ERR_UNSUPPORTED. */
sb_status sb_session_verify_tree(sb_session *session, const uint32_t *tokens,
                                 const uint32_t *parents, size_t n, sb_rollback rollback,
                                 sb_error *err);

/* As sb_session_keep for the rows of a tree: keeps the rows path[0] .. path[kept - 1], each of
 * which is the parent of the next one. path[0] is 0. Hidden vectors and logits of these rows stay
 * available, as rows 0 .. kept - 1. */
sb_status sb_session_keep_path(sb_session *session, const size_t *path, size_t kept, sb_error *err);

/* Copies the state that sb_session_keep(session, kept) would leave, kept >= 0. After
 * sb_session_keep it still works until the next call, if at least one row was kept, for `kept` up
 * to the number of kept rows. Needs SB_ROLLBACK_snapshots. */
sb_status sb_session_state_at(const sb_session *session, size_t kept, sb_state **out,
                              sb_error *err);

/* One step of the MTP head after the fed tokens. The first step after a feed, keep or set_state
 * pairs `token` with the last hidden vector of the model. Each further step pairs `token` with the
 * head's own output (S-8). logits (V) predict the token after `token`. The state does not change.
 * SB_ERR_USAGE without a head, or before a token has been fed. After a step that failed, the next
 * step counts as a first step. */
sb_status sb_session_draft(sb_session *session, uint32_t token, float *logits, sb_error *err);

/* Discards the drafts: the next step of the head counts as a first step. */
void sb_session_forget_drafts(sb_session *session);

/* The hidden vectors (rows, H) after the final norm, for the rows of the last call. NULL with a
 * resident sequence. */
const float *sb_session_hidden(const sb_session *session);
size_t sb_session_rows(const sb_session *session);

/* The states that are kept after each call. */
sb_session_states sb_session_states_of(const sb_session *session);

/* The kept states (rows, states.count, H) of the rows of the last call. NULL: none are kept. */
const float *sb_session_states_kept(const sb_session *session);

/* Logits of the last call: (V) of one row, or (count, V) of `count` rows from `row` on. The second
 * function reads the weights of the head once for all rows. */
sb_status sb_session_logits(sb_session *session, size_t row, float *logits, sb_error *err);
sb_status sb_session_logits_of(sb_session *session, size_t row, size_t count, float *logits,
                               sb_error *err);

/* Where the kernels of the session's backend find the logits of a row of the last call, and of the
 * rows after it; and those of the last draft (resident.h). NULL: nowhere. */
const float *sb_session_logits_place(const sb_session *session, size_t row);
const float *sb_session_draft_place(const sb_session *session);

/* Starts an empty sequence. Allowed after a failed call. */
void sb_session_reset(sb_session *session);

/* The number of tokens fed. */
uint64_t sb_session_position(const sb_session *session);

/* The state. With a resident sequence it is NULL until sb_session_fetch_state has copied it to the
 * host, and again from the next call on. Without one, sb_session_fetch_state does nothing. */
const sb_state *sb_session_state(const sb_session *session);
sb_status sb_session_fetch_state(sb_session *session, sb_error *err);

/* Continues from a copy of `state` as if the tokens of the state had been fed. The state must be of
 * the same model, and must have a head if the session has one. Allowed after a failed call.
 * SB_ERR_USAGE if the number of head entries does not fit this session's K-27. */
sb_status sb_session_set_state(sb_session *session, const sb_state *state, sb_error *err);

/* The options of the session: its backend, a pointer to its copy of the knobs, its tap and hook. */
sb_session_options sb_session_options_of(const sb_session *session);

/* The kind of the last call of the trunk. */
sb_call_kind sb_session_kind(const sb_session *session);

const sb_model *sb_session_model(const sb_session *session);
const sb_backend *sb_session_backend(const sb_session *session);
const sb_knobs *sb_session_knobs(const sb_session *session);
int sb_session_has_mtp(const sb_session *session);

/* The number of head entries in a sequence of `position` tokens (S-7). */
uint64_t sb_session_mtp_entries(const sb_knobs *knobs, uint64_t position);

/* The token of R-20: the largest logit, the lowest id among equals. */
uint32_t sb_greedy(const float *logits, size_t n);

#ifdef __cplusplus
}
#endif

#endif
