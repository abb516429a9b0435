/* slips.h - mistakes between the calls of a session: what a round leaves of each piece of the
 * state, and what the head is fed (slips.def).
 *
 * Whoever drives the session stops at every stage and lets the mistake in. */
#ifndef SB_FAULT_SLIPS_H
#define SB_FAULT_SLIPS_H

#include "ref/run/round.h"

typedef enum sb_slip_stage {
    SB_SLIP_open,    /* options are as they will be given to the session */
    SB_SLIP_start,   /* the session is new */
    SB_SLIP_prompt,  /* between two calls of the prompt */
    SB_SLIP_primed,  /* behind the prompt */
    SB_SLIP_begin,   /* before a round */
    SB_SLIP_draft,   /* before each draft */
    SB_SLIP_drafted, /* behind it */
    SB_SLIP_kept     /* behind a round, its rejected rows undone */
} sb_slip_stage;

enum { SB_SLIP_LAYERS = 9 };

typedef struct sb_slip_game {
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
    float *g[SB_SLIP_LAYERS]; /* (rows, nV) of linear-attention layers, in the last call */
    float *stream;            /* (rows, H) of the head before mtp.norm */
    float *head;              /* (rows, H) behind it: where the session keeps it */
    float *embedded, *last;   /* (rows, H) of the trunk's call, and (H) the last row before it */
    size_t rows;              /* of the trunk's call */
    float *stored;            /* states of a snapshot */
    float *recycled;          /* keys, then values, of the head's layer behind the drafts */
    int holds;                /* what is kept from a round for the next is there */
} sb_slip_game;

/* The functions, one per row. */
#define SB_PLANTED(kind, where, by, with, words)                                                   \
    void sb_slip_##by(sb_slip_game *game, sb_slip_stage stage);
#define SB_HARMLESS(kind, where, by, with, words) SB_PLANTED(kind, where, by, with, words)
#include "tools/fault/lists/slips.def"
#undef SB_PLANTED
#undef SB_HARMLESS

#endif
