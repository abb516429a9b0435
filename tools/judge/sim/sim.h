/* sim.h - engines made of plain binary32 operations, with other orders of summation and other
 * accumulators, as correct engines may have. A fault can be planted in them. */
#ifndef SB_SIM_SIM_H
#define SB_SIM_SIM_H

#include "ref/run/backend.h"
#include "ref/run/hook.h"

/* A row of sims.def: a backend, and its arithmetic. */
typedef struct sb_sim {
    const char *name; /* "sequential" of --engine sim:sequential */
    const char *help;
    sb_backend backend;
    const char *const *settings; /* knobs that it needs ("delta_rule=chunk64"), NULL at the end */
    const char *arithmetic;      /* its row of tools/judge/bound/ball.c */
} sb_sim;

size_t sb_sim_count(void);
const sb_sim *sb_sim_at(size_t i);

/* By name; SB_ERR_USAGE lists the names. */
sb_status sb_sim_find(const char *name, const sb_sim **out, sb_error *err);

/* True if the reference runs this op of the sim, because a knob has a value that the sim does not
 * know. The op's result then says nothing about the sim (INHERITED). */
int sb_sim_inherits(const sb_sim *sim, sb_op op, const sb_knobs *knobs);

/* True if `act` and `params` are the only knobs of this op with another value than in profile
 * exact: the op then rounds to the activation type only as it reads parameters and as it writes its
 * outputs. */
int sb_op_rounds_at_ends(sb_op op, const sb_knobs *knobs);

#endif
