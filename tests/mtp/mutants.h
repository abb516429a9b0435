/* mutants.h - a driver of rounds that stops at every stage and lets a mistake in (mutants.def).
 *
 * The drafts that are verified, and how many are accepted, stand in a script; the head's own are
 * asked for and recorded, but decide nothing. So a mistake in the head never reaches the target. */
#ifndef SB_TESTS_MTP_MUTANTS_H
#define SB_TESTS_MTP_MUTANTS_H

#include "tests/mtp/play.h"

typedef enum slip_stage {
    SLIP_open,    /* options are as they will be given to the session */
    SLIP_start,   /* the session is new */
    SLIP_prompt,  /* between two calls of the prompt */
    SLIP_primed,  /* behind the prompt */
    SLIP_begin,   /* before a round */
    SLIP_draft,   /* before each draft */
    SLIP_drafted, /* behind it */
    SLIP_kept     /* behind a round, its rejected rows undone */
} slip_stage;

enum { SLIP_LAYERS = 9 };

typedef struct slip_game {
    const sb_model *model;
    sb_session_options options;
    sb_knobs knobs;
    sb_backend backend;
    sb_rollback rollback;
    sb_session *session;
    sb_state *live; /* of the session */
    int by_rounds;  /* sb_rounds_next does what the driver does otherwise */
    sb_rounds *rounds;
    size_t prompt_call; /* tokens of the first call of the prompt */
    /* of the round, or of the last one */
    size_t drafts, accepted, before; /* before: accepted in the round before */
    size_t draft;                    /* the one that is being made */
    int drafting;
    sb_state *slot[SB_MAX_DRAFTS + 2]; /* [n]: n rows kept */
    /* what taps showed */
    float *g[SLIP_LAYERS];  /* (rows, nV) of linear-attention layers, in the last call */
    float *stream;          /* (rows, H) of the head before mtp.norm */
    float *head;            /* (rows, H) behind it: where the session keeps it */
    float *embedded, *last; /* (rows, H) of the trunk's call, and (H) the last row before it */
    size_t rows;            /* of the trunk's call */
    float *recycled;        /* keys, then values, of the head's layer behind the drafts */
} slip_game;

typedef struct slip {
    const char *name, *fault, *differs, *ids, *what;
    int same; /* harmless */
    void (*at)(slip_game *game, slip_stage stage);
} slip;

/* The tap of a game, which is its context. */
sb_status slip_watch(void *ctx, const char *name, float *data, size_t rows, size_t cols,
                     sb_error *err);

/* A copy of an array in place of the last; free() releases it. */
void slip_keep(float **to, const float *data, size_t count);

size_t slip_count(void);
const slip *slip_at(size_t i);

#define SB_SLIP(name, fault, differs, ids, what)                                                   \
    void slip_##name(slip_game *game, slip_stage stage);
#define SB_SAME(name, what) SB_SLIP(name, "", "", "stay", what)
#include "tests/mtp/mutants.def"
#undef SB_SLIP
#undef SB_SAME

/* What can be seen behind the prompt, before a round, and behind it. */
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
void slip_play(const sb_model *model, const slip *s, slip_run *run);

/* The letters that differ in the first place where any does; *place is SLIP_SEEN if none does. */
const char *slip_differing(const slip_run *a, const slip_run *b, size_t *place);

#endif
