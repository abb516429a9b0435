/* free_play.h - an engine that decodes in rounds, held against the reference as it goes: a session
 * whose calls are captured, with another arithmetic or a mistake of tools/fault/lists/slips.def in
 * it. */
#ifndef SB_TESTS_UNIT_FREE_PLAY_H
#define SB_TESTS_UNIT_FREE_PLAY_H

#include "tests/mtp/mutants.h"
#include "tools/compare/free.h"

enum { FREE_TOKENS = 512 };

typedef struct free_play {
    const sb_model *model;
    const sb_knobs *knobs;  /* of the reference; NULL: exact */
    const sb_knobs *engine; /* of the engine; NULL: the same */
    const sb_backend *backend;
    const sb_arithmetic *arithmetic; /* of the backend; NULL: library */
    const char *slip;                /* a mistake, or NULL */
    sb_op_hook hook;                 /* of the engine, or NULL */
    void *hook_ctx;
    void (*spoil)(struct free_play *play, sb_step *step); /* changes what is recorded, or NULL */
    double amount;                                        /* for it */
    unsigned level;                                       /* 0 .. 3, or 4: with the experts */
    size_t rounds;                                        /* behind a prompt of 9 tokens */
    int drafts;             /* up to 3 a round; else one token a call */
    const uint32_t *oracle; /* (FREE_TOKENS) drafts are taken from it, some of them changed */
    int external;           /* these drafts are declared as not the head's */
    int explain;
    size_t perturbed;
    /* out */
    uint32_t tokens[FREE_TOKENS];
    size_t count; /* the prompt, too */
    sb_verdicts v;
} free_play;

/* Runs both sides; asserts that nothing but the comparison fails. sb_verdicts_free releases v. */
void free_play_run(free_play *p);

/* An engine of sims.def by its name, for `backend`. */
const sb_backend *free_play_sim(const char *name);

/* The largest error over bound of any token. */
double free_play_worst(const sb_verdicts *v);

#endif
