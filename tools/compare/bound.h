/* bound.h - per-element bounds: where the result of an operation may lie, given its inputs.
 *
 * Each function mirrors the clause of its op (docs/spec.md) in balls: `args` is what the op itself
 * would get, its outputs are not touched, and out receives a ball per output element. The ball
 * contains the result of every evaluation under the arithmetic and the knobs, so that two
 * evaluations, each in its own ball, differ by no more than sb_ball_distance. Derivations:
 * docs/tolerances.md, T-6 on.
 *
 * Every function returns SB_OK or SB_ERR_MEMORY. */
#ifndef SB_COMPARE_BOUND_H
#define SB_COMPARE_BOUND_H

#include "ref/ops/op.h"
#include "tools/compare/ball.h"

/* out and second are the outputs in the order of the argument struct, in its shapes; second may be
 * NULL:
 *
 *   gates        g, beta             l2norm    q, k          split_gate  query, gate
 *   delta_rule   out, state          conv      out, state    rope        x
 *   add          out, sum
 *   router       the weights of the experts in args->ids, and the probabilities (T, E) of all
 */
#define SB_OP(name, clause)                                                                        \
    sb_status sb_bound_##name(const sb_arithmetic *ar, const sb_knobs *knobs,                      \
                              const sb_##name##_args *args, sb_ball *out, sb_ball *second);
#include "ref/ops/ops.def"
#undef SB_OP

/* Two sides of a comparison at once, or one alone: what does not depend on the arithmetic is
 * computed once. */
enum { SB_BOUND_SIDES = 2 };
typedef struct sb_bound_side {
    const sb_arithmetic *ar;
    const sb_ball *in; /* a side's own, where inputs are balls; else not read */
    sb_ball *out;
} sb_bound_side;
sb_status sb_bound_linear_sides(const sb_knobs *knobs, const sb_linear_args *args,
                                const sb_bound_side *sides, size_t count);

/* The same for inputs that are balls themselves, because nobody recorded them. */
sb_status sb_bound_linear_of_sides(const sb_knobs *knobs, const sb_matrix *weight,
                                   sb_linear_kind kind, size_t rows, const sb_bound_side *sides,
                                   size_t count);
sb_status sb_bound_linear_of(const sb_arithmetic *ar, const sb_knobs *knobs,
                             const sb_matrix *weight, sb_linear_kind kind, const sb_ball *in,
                             size_t rows, sb_ball *out);
void sb_bound_swiglu_of(const sb_arithmetic *ar, const sb_knobs *knobs, sb_mlp_kind kind,
                        const sb_ball *gate, const sb_ball *up, size_t count, sb_ball *out);

/* In place, as rope is; args->x is not read. */
void sb_bound_rope_of(const sb_arithmetic *ar, const sb_knobs *knobs, const sb_rope_args *args,
                      sb_ball *x);

/* args gives kept, n, weights, ids and shared_logit; shared has n balls, expert kept n. */
void sb_bound_moe_combine_of(const sb_arithmetic *ar, const sb_knobs *knobs,
                             const sb_moe_combine_args *args, const sb_ball *expert,
                             const sb_ball *shared, sb_ball *out);

/* down( swiglu( gate x, up x ) ): one MLP, of which only the ends are known. SB_ERR_UNSUPPORTED
 * where the knobs quantize the input of `down`: nobody knows it, and a quantizer turns the smallest
 * difference into a step. */
sb_status sb_bound_feed_forward(const sb_arithmetic *ar, const sb_knobs *knobs, sb_mlp_kind kind,
                                const sb_matrix *gate, const sb_matrix *up, const sb_matrix *down,
                                const float *in, size_t rows, sb_ball *out);

/* The two forms of the delta rule on normalised q and k (T, nK, dk) known up to their balls. */
sb_status sb_bound_delta_rule_of(const sb_arithmetic *ar, const sb_knobs *knobs,
                                 const sb_delta_rule_args *args, const sb_ball *q, const sb_ball *k,
                                 sb_ball *out, sb_ball *state);
sb_status sb_bound_delta_rule_chunk_of(const sb_arithmetic *ar, const sb_knobs *knobs,
                                       const sb_delta_rule_args *args, const sb_ball *q,
                                       const sb_ball *k, sb_ball *out, sb_ball *state);

/* The same from a state that a computed one differs from: by these 2-norms of its columns (nV, dv),
 * and of its elements (nV, dk, dv). NULL: by nothing. */
typedef struct sb_delta_error {
    const double *column, *element;
} sb_delta_error;
typedef struct sb_delta_side {
    const sb_arithmetic *ar;
    const sb_ball *q, *k;
    const sb_delta_error *from; /* or NULL */
    sb_ball *out, *state;       /* state may be NULL */
    double *column;             /* or NULL: gets the norms as in sb_delta_error, without K-35 */
} sb_delta_side;
sb_status sb_bound_delta_rule_sides(const sb_knobs *knobs, const sb_delta_rule_args *args,
                                    const sb_delta_side *sides, size_t count);
sb_status sb_bound_delta_rule_chunk_side(const sb_knobs *knobs, const sb_delta_rule_args *args,
                                         const sb_delta_side *side);

/* T-67: of a program that may have either form. */
sb_status sb_bound_delta_rule_any_form(const sb_knobs *knobs, const sb_delta_rule_args *args,
                                       const sb_delta_side *side);

/* T-11: softmax of n balls in place. */
void sb_bound_softmax(const sb_arithmetic *ar, sb_ball *s, size_t n);

#endif
