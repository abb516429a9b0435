/* sim_judge.h - compares every op in a run of a simulated engine with the balls of the arithmetic
 * that describes the engine, and with the bits of the reference on the same arguments. */
#ifndef SB_TESTS_UNIT_SIM_JUDGE_H
#define SB_TESTS_UNIT_SIM_JUDGE_H

#include "ref/run/session.h"
#include "tools/judge/bound/ball.h"
#include "tools/judge/sim/sim.h"

typedef struct sim_op_count {
    size_t calls, elements, differ, outside, inherited;
    double worst; /* largest error over radius */
} sim_op_count;

typedef struct sim_judge {
    const sb_sim *sim;
    const sb_arithmetic *arithmetic;
    sim_op_count ops[SB_OP_COUNT];
    char first[200]; /* describes the first element outside its ball */
} sim_judge;

/* For sb_session_options: .hook = sim_judge_op, .hook_ctx = a sim_judge. */
sb_status sim_judge_op(void *ctx, const sb_op_call *call);

#endif
