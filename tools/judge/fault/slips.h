/* slips.h - mistakes between the calls of a session, in the pieces of the state that a round leaves
 * and in the inputs of the head (slips.def).
 *
 * The driver of the session calls the mistake at every stage. */
#ifndef SB_FAULT_SLIPS_H
#define SB_FAULT_SLIPS_H

#include "ref/run/round.h"

typedef enum sb_slip_stage {
    SB_SLIP_open,    /* before the session is opened; options may change */
    SB_SLIP_start,   /* the session is new */
    SB_SLIP_prompt,  /* between two calls of the prompt */
    SB_SLIP_primed,  /* after the prompt */
    SB_SLIP_begin,   /* before a round */
    SB_SLIP_draft,   /* before each draft */
    SB_SLIP_drafted, /* after each draft */
    SB_SLIP_kept     /* after a round, with rejected rows undone */
} sb_slip_stage;

enum { SB_SLIP_LAYERS = 9 };

typedef struct sb_slip_game {
    const sb_model *model;
    sb_session_options options;
    sb_knobs knobs;
    sb_backend backend;
    sb_rollback rollback;
    sb_session *session;
    sb_state *live; /* state of the session */
    int by_rounds;  /* sb_rounds_next runs the rounds instead of the driver */
    sb_rounds *rounds;
    size_t prompt_call; /* tokens of the first call of the prompt */
    /* of the current round; between rounds, of the last round */
    size_t drafts, accepted, before; /* before: accepted in the round before */
    size_t draft;                    /* number of the current draft */
    int drafting;
    sb_state *slot[SB_MAX_DRAFTS + 2]; /* slot[n]: the state if n rows are kept */
    /* values of taps */
    float *g[SB_SLIP_LAYERS]; /* (rows, nV) of each linear-attention layer, in the last call */
    float *stream;            /* (rows, H) of the head before mtp.norm */
    float *head; /* trial.c: (V) logits; tests/mtp: the session's own (rows, H) after mtp.norm */
    float *embedded, *last; /* (rows, H) of the trunk's call; (H) the last row of the call before */
    size_t rows;            /* rows of the trunk's call */
    float *stored;          /* conv and recurrent states of a snapshot */
    float *recycled;        /* keys, then values, that the drafts left in the head's layer */
    int holds;              /* `recycled` has an entry for the next round */
} sb_slip_game;

/* The functions, one per row. */
#define SB_PLANTED(kind, where, by, with, words)                                                   \
    void sb_slip_##by(sb_slip_game *game, sb_slip_stage stage);
#define SB_HARMLESS(kind, where, by, with, words) SB_PLANTED(kind, where, by, with, words)
#include "tools/judge/fault/lists/slips.def"
#undef SB_PLANTED
#undef SB_HARMLESS

#endif
