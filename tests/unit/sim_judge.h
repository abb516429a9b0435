/* sim_judge.h - every op of a run of a simulated engine, held against the balls of the arithmetic
 * that describes it, and against the bits of the reference on the same arguments. */
#ifndef SB_TESTS_UNIT_SIM_JUDGE_H
#define SB_TESTS_UNIT_SIM_JUDGE_H

#include "ref/run/session.h"
#include "tools/compare/ball.h"
#include "tools/sim/sim.h"

typedef struct sim_op_count {
    size_t calls, elements, differ, outside, inherited;
    double worst; /* largest error over radius */
} sim_op_count;

typedef struct sim_judge {
    const sb_sim *sim;
    const sb_arithmetic *arithmetic;
    sim_op_count ops[SB_OP_COUNT];
    char first[200]; /* what lay outside */
} sim_judge;

/* For sb_session_options: .hook = sim_judge_op, .hook_ctx = a judge. */
sb_status sim_judge_op(void *ctx, const sb_op_call *call);

#endif
