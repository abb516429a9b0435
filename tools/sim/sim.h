/* sim.h - engines made of plain binary32 operations: other orders of summation, other accumulators,
 * and the same with one fault planted. What a correct engine may do, and what a broken one does. */
#ifndef SB_SIM_SIM_H
#define SB_SIM_SIM_H

#include "ref/run/backend.h"
#include "ref/run/hook.h"

/* A row of sims.def: a backend of its own, and what it is allowed to do. */
typedef struct sb_sim {
    const char *name; /* "sequential" of --engine sim:sequential */
    const char *help;
    sb_backend backend;
    const char *const *settings; /* knobs that it wants ("delta_rule=chunk64"), NULL at the end */
    const char *arithmetic;      /* its row of tools/compare/ball.c */
} sb_sim;

size_t sb_sim_count(void);
const sb_sim *sb_sim_at(size_t i);

/* By name; SB_ERR_USAGE lists what there is. */
sb_status sb_sim_find(const char *name, const sb_sim **out, sb_error *err);

/* True if under these knobs an op of a sim is the reference's, because a knob has a value that the
 * sim does not know: its result says nothing (INHERITED). */
int sb_sim_inherits(const sb_sim *sim, sb_op op, const sb_knobs *knobs);

#endif
