/* states.h - which states of a model a session keeps for a drafter. */
#ifndef SB_RUN_STATES_H
#define SB_RUN_STATES_H

#include <stddef.h>
#include <stdint.h>

/* The residual stream after these numbers of layers, in ascending order; 0: the embedding. */
typedef struct sb_session_states {
    const uint32_t *after; /* (count) */
    size_t count;          /* 0: none */
} sb_session_states;

#endif
