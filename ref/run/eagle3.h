/* eagle3.h - an EAGLE-3 drafter beside a session: its weights, its entries, its drafts (R-23,
 * S-15).
 *
 * The drafter reads states of the target, which the session keeps for it: pass
 * sb_eagle3_states(drafter) as `states` of sb_session_options. */
#ifndef SB_RUN_EAGLE3_H
#define SB_RUN_EAGLE3_H

#include "ref/model/eagle3.h"
#include "ref/run/session.h"
#include "ref/state/drafter.h"

typedef struct sb_eagle3 sb_eagle3;               /* the drafter; immutable */
typedef struct sb_eagle3_drafts sb_eagle3_drafts; /* its entries for one session */

/* Opens a folder for a target. The target must outlive the drafter. Errors name what is missing or
 * does not fit: a tensor, its shape, the maps of the vocabulary, a flag without its norm. */
sb_status sb_eagle3_open(const char *folder, const sb_model *target, sb_eagle3 **out,
                         sb_error *err);
void sb_eagle3_close(sb_eagle3 *drafter);

const sb_eagle3_config *sb_eagle3_config_of(const sb_eagle3 *drafter);
/* (Vd) the target's id of each row of its head, ascending. */
const uint32_t *sb_eagle3_vocabulary(const sb_eagle3 *drafter);
sb_session_states sb_eagle3_states(const sb_eagle3 *drafter);

/* The session must be empty, and keep the states of this drafter. Both must outlive *out. */
sb_status sb_eagle3_drafts_new(const sb_eagle3 *drafter, sb_session *session,
                               sb_eagle3_drafts **out, sb_error *err);
void sb_eagle3_drafts_free(sb_eagle3_drafts *drafts);

/* No entries, for a session that has been reset. */
void sb_eagle3_reset(sb_eagle3_drafts *drafts);

/* Continues from a copy of the entries of another session. */
sb_status sb_eagle3_assign(sb_eagle3_drafts *drafts, const sb_eagle3_drafts *from, sb_error *err);

/* S-15: makes the entries of `n` tokens, the rows that the session's last call left. Call it once
 * after every sb_session_feed, and after every sb_session_keep with the kept rows. */
sb_status sb_eagle3_follow(sb_eagle3_drafts *drafts, const uint32_t *tokens, size_t n,
                           sb_error *err);

/* One draft after `token`, which is not fed yet; the next call takes this draft as its `token`.
 * sb_eagle3_follow and sb_eagle3_forget begin anew. logits: (Vd), or NULL. */
sb_status sb_eagle3_draft(sb_eagle3_drafts *drafts, uint32_t token, float *logits, uint32_t *draft,
                          sb_error *err);

/* The next draft counts as a first one. */
void sb_eagle3_forget(sb_eagle3_drafts *drafts);

/* Shows the entries as a part of a state; the pointers are valid until the next call. 0: no token
 * has been fed, or entries are missing since a failure. */
int sb_eagle3_entries(const sb_eagle3_drafts *drafts, sb_drafter_state *out);

/* Continues from a copy of these entries, for a session that continues from their state. */
sb_status sb_eagle3_restore(sb_eagle3_drafts *drafts, const sb_drafter_state *entries,
                            sb_error *err);

/* What decides the bits of entries, for a state file (D-11). */
enum { SB_EAGLE3_TEXT = 1280 };
typedef struct sb_eagle3_identity {
    sb_digest checkpoint;      /* of its folder: G-5 */
    char text[SB_EAGLE3_TEXT]; /* of its configuration */
} sb_eagle3_identity;

/* Reads the whole folder. */
sb_status sb_eagle3_identify(const sb_eagle3 *drafter, sb_eagle3_identity *out, sb_error *err);

/* The same as sb_eagle3_follow for states (n, states, Ht) that another program has made. */
sb_status sb_eagle3_follow_states(sb_eagle3_drafts *drafts, const float *states,
                                  const uint32_t *tokens, size_t n, sb_error *err);

#endif
