/* delta.h - inputs of the delta rule's two cases, as kernels take them and as the op does. */
#ifndef SB_GATE_DELTA_H
#define SB_GATE_DELTA_H

#include "tools/gate/gate.h"

/* Behind "rows", the parameters of both. */
#define SB_GATE_DELTA_REST                                                                         \
    {"k_heads", 2, 1, 256, "query and key heads"},                                                 \
        {"v_heads", 4, 1, 256, "value heads; a multiple of k_heads"},                              \
        {"dk", 32, 1, 256, "channels of a query or key"},                                          \
        {"dv", 32, 1, 256, "channels of a value"},                                                 \
        {"l2norm", 0, 0, 1, "1: q and k come before their norm, which the kernel computes"},       \
    {                                                                                              \
        "state", 1, 0, 1, "0: the initial state is zero"                                           \
    }
enum { SB_GATE_DELTA_PARAMS = 7 };

typedef struct sb_gate_delta {
    size_t rows, k_heads, v_heads, dk, dv;
    int norm; /* l2norm=1 */
} sb_gate_delta;
sb_gate_delta sb_gate_delta_of(const sb_gate_case *c);

/* The inputs q, k, v, g, beta, initial_state (V-142), and what a file must have of them. */
sb_status sb_gate_delta_make(sb_gate_case *c, sb_error *err);
sb_status sb_gate_delta_need(sb_gate_case *c, sb_error *err);

/* The arguments of the op, q and k normalised and q scaled: by the ops of a table, or as balls. */
typedef struct sb_gate_delta_inputs {
    float *v, *g, *beta, *state, *q, *k;
    sb_ball *q_balls, *k_balls; /* or NULL */
    sb_delta_rule_args args;
} sb_gate_delta_inputs;
sb_status sb_gate_delta_open(const sb_gate_case *c, const sb_knobs *knobs, const sb_op_table *ops,
                             sb_gate_delta_inputs *in);
sb_status sb_gate_delta_balls(const sb_gate_case *c, const sb_gate_arith *ar,
                              sb_gate_delta_inputs *in);
void sb_gate_delta_close(sb_gate_delta_inputs *in);

/* The same unrounded. */
typedef struct sb_gate_delta_real {
    sb_dd *q, *k;
    float *v, *g, *beta, *state;
} sb_gate_delta_real;
sb_status sb_gate_delta_real_open(const sb_gate_case *c, sb_gate_delta_real *r);
void sb_gate_delta_real_close(sb_gate_delta_real *r);

#endif
