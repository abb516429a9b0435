/* delta.h - inputs of the two cases of the delta rule, as kernels and as the op take them. */
#ifndef SB_GATE_DELTA_H
#define SB_GATE_DELTA_H

#include "tools/judge/gate/gate.h"

/* The parameters of both cases after "rows". */
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

/* The inputs q, k, v, g, beta, initial_state (V-142), the outputs of both cases, and their
 * functions of sb_gate_op. */
enum {
    SB_GATE_DELTA_q,
    SB_GATE_DELTA_k,
    SB_GATE_DELTA_v,
    SB_GATE_DELTA_g,
    SB_GATE_DELTA_beta,
    SB_GATE_DELTA_state
};
sb_gate_list sb_gate_delta_list(const sb_gate_case *c);
sb_status sb_gate_delta_check(const sb_gate_case *c, sb_error *err);
void sb_gate_delta_adapt(const sb_gate_case *c, float *const x[]);
sb_status sb_gate_delta_need(const sb_gate_case *c, sb_error *err);

/* The arguments of the op. The ops of a table normalise q and k and scale q in place. */
sb_status sb_gate_delta_args(const sb_gate_case *c, float *const in[], const sb_knobs *knobs,
                             const sb_op_table *ops, sb_delta_rule_args *out);

/* The same as balls; the caller frees q. */
typedef struct sb_gate_delta_balls {
    sb_ball *q, *k;
    sb_delta_rule_args args;
} sb_gate_delta_balls;
sb_status sb_gate_delta_balls_of(const sb_gate_case *c, float *const in[], const sb_gate_arith *ar,
                                 sb_gate_delta_balls *out);

/* The same for q or for k, unrounded, as a new array; NULL if memory is out. */
sb_dd *sb_gate_delta_real(const sb_gate_delta *s, const float *x, int query);

#endif
