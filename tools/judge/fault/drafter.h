/* drafter.h - an engine's EAGLE-3 drafter in a trial: the sound one, or one with a mistake of
 * drafters.def. */
#ifndef SB_FAULT_DRAFTER_H
#define SB_FAULT_DRAFTER_H

#include "ref/run/eagle3_weights.h"
#include "ref/run/hook.h"

enum { SB_DRAFTER_SPARE = 4, SB_DRAFTER_KEPT = 3 };

typedef struct sb_drafter_fault sb_drafter_fault;

typedef struct sb_drafter_game {
    const sb_drafter_fault *fault; /* NULL: none */
    const sb_model *target;
    const sb_eagle3 *sound;
    sb_eagle3 engine; /* a copy of the sound one, with the mistake */
    sb_eagle3_drafts *entries;
    void *spare[SB_DRAFTER_SPARE]; /* allocated by mistakes, freed at the end */
    sb_call_kind kind;             /* of the drafter's current op */
    size_t draft;                  /* number of the current draft */
    /* of the round that has ended; rows 0: the call is no round */
    size_t rows, accepted;
    float *kept[SB_DRAFTER_KEPT]; /* values of drafts: (SB_MAX_DRAFTS, width) */
    size_t width[SB_DRAFTER_KEPT];
    int failed; /* memory ran out */
} sb_drafter_game;

/* A row of drafters.def. The stage decides which function is set. */
struct sb_drafter_fault {
    const char *name, *kind, *origin, *fires, *words; /* name NULL: after the last row */
    const char *engine, *setting;                     /* only of a sound engine */
    int sound;
    void (*open)(sb_drafter_game *game);
    sb_status (*op)(sb_drafter_game *game, const sb_op_call *call); /* runs the op */
    void (*tap)(sb_drafter_game *game, const char *name, float *data, size_t rows, size_t cols);
    /* the entries to make, of the first *n rows: states and tokens of all rows of the call */
    void (*rows)(sb_drafter_game *game, float *states, uint32_t *tokens, size_t *n);
};
extern const sb_drafter_fault sb_drafter_faults[];
const sb_drafter_fault *sb_drafter_fault_find(const char *name); /* NULL: no such row */

/* Begins with game->fault, ->target and ->sound set. session: of the engine, with the states of
 * &game->engine, which sb_drafter_prepare makes. */
sb_status sb_drafter_prepare(sb_drafter_game *game, sb_error *err);
sb_status sb_drafter_begin(sb_drafter_game *game, sb_session *session, sb_error *err);
void sb_drafter_end(sb_drafter_game *game);

/* Makes the entries of the first n of `rows` rows of the session's last call. */
sb_status sb_drafter_follow(sb_drafter_game *game, const sb_session *session,
                            const uint32_t *tokens, size_t rows, size_t n, sb_error *err);
sb_status sb_drafter_draft(sb_drafter_game *game, size_t number, uint32_t token, uint32_t *draft,
                           sb_error *err);

/* The hook and the tap of the session: ctx is the game. */
sb_status sb_drafter_hook(void *game, const sb_op_call *call);
void sb_drafter_tap(sb_drafter_game *game, const char *name, float *data, size_t rows, size_t cols);

#endif
