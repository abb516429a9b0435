/* mutants.h - a driver of rounds that stops at every stage, so that a mistake can be planted
 * (mutants.def, and slips.def of tools/judge/fault).
 *
 * A script has the drafts that are verified, and how many are accepted. The head's own drafts are
 * requested and recorded, but decide nothing. So a mistake in the head never reaches the target. */
#ifndef SB_TESTS_MTP_MUTANTS_H
#define SB_TESTS_MTP_MUTANTS_H

#include "tests/mtp/play.h"
#include "tools/judge/fault/planted.h"

/* The tap of a game, which is its context. */
sb_status slip_watch(void *ctx, const char *name, float *data, size_t rows, size_t cols,
                     sb_error *err);

/* Replaces *to by a copy of an array; free() releases it. */
void slip_keep(float **to, const float *data, size_t count);

extern const sb_planted slip_list[]; /* mutants.def */

#define SB_PLANTED(kind, where, by, with, words)                                                   \
    void sb_slip_##by(sb_slip_game *game, sb_slip_stage stage);
#define SB_HARMLESS SB_PLANTED
#include "tests/mtp/mutants.def"
#undef SB_PLANTED
#undef SB_HARMLESS

/* The digests at one place: after the prompt, before a round, or after a round. */
typedef struct slip_seen {
    sb_digest of[8]; /* in the order of slip_letters */
} slip_seen;
extern const char slip_letters[]; /* "PKCREHLT" */

enum { SLIP_ROUNDS = 12, SLIP_SEEN = 2 * SLIP_ROUNDS + 1 };

/* Runs the script; s may be NULL. drafted (SLIP_ROUNDS, SB_MAX_DRAFTS): ids of the drafts. */
typedef struct slip_run {
    slip_seen seen[SLIP_SEEN];
    uint32_t drafted[SLIP_ROUNDS][SB_MAX_DRAFTS];
} slip_run;
void slip_play(const sb_model *model, const sb_planted *s, slip_run *run);

/* The letters that differ at the first place with a difference; *place is SLIP_SEEN if there is
 * none. */
const char *slip_differing(const slip_run *a, const slip_run *b, size_t *place);

#endif
