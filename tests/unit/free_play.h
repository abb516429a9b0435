/* free_play.h - an engine that decodes in rounds, compared with the reference during the run. The
 * engine is a session with captured calls and with another arithmetic or a mistake of
 * tools/judge/fault/lists/slips.def. */
#ifndef SB_TESTS_UNIT_FREE_PLAY_H
#define SB_TESTS_UNIT_FREE_PLAY_H

#include "tests/mtp/mutants.h"
#include "tools/judge/compare/free.h"

enum { FREE_TOKENS = 512 };

typedef struct free_play {
    const sb_model *model;
    const sb_knobs *knobs;  /* of the reference; NULL: the exact ones */
    const sb_knobs *engine; /* of the engine; NULL: those of the reference */
    const sb_backend *backend;
    const sb_arithmetic *arithmetic; /* of the backend; NULL: library */
    const char *slip;                /* a mistake, or NULL */
    sb_op_hook hook;                 /* of the engine, or NULL */
    void *hook_ctx;
    void (*spoil)(struct free_play *play, sb_step *step); /* changes the recorded step, or NULL */
    double amount;                                        /* the parameter of spoil */
    unsigned level;                                       /* 0 .. 3, or 4: with expert ids */
    size_t rounds;                                        /* after a prompt of 9 tokens */
    int drafts;             /* up to 3 per round; 0: one token per call */
    const uint32_t *oracle; /* (FREE_TOKENS) source of the drafts; some are then changed */
    int external;           /* declare that the drafts do not come from the head */
    int explain;
    size_t perturbed;
    /* out */
    uint32_t tokens[FREE_TOKENS];
    size_t count; /* with the prompt */
    sb_verdicts v;
} free_play;

/* Runs both sides. Asserts that nothing fails; the verdicts of the comparison are in v. The caller
 * releases v with sb_verdicts_free. */
void free_play_run(free_play *p);

/* The engine of sims.def with this name, for `backend`. */
const sb_backend *free_play_sim(const char *name);

/* The largest error over bound among all tokens. */
double free_play_worst(const sb_verdicts *v);

#endif
