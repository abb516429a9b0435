/* bound.h - per-element bounds: the range of an operation's result, given its inputs.
 *
 * Each function mirrors the clause of its op (docs/spec.md) in balls: `args` are the op's own
 * arguments; the outputs in `args` are not written. out receives a ball per output element. The
 * ball contains the result of every evaluation under the arithmetic and the knobs. So two
 * evaluations, each in its own ball, differ by at most sb_ball_distance. Derivations:
 * docs/tolerances.md, T-6 on.
 *
 * Every function returns SB_OK or SB_ERR_MEMORY. */
#ifndef SB_COMPARE_BOUND_H
#define SB_COMPARE_BOUND_H

#include "ref/ops/op.h"
#include "tools/judge/bound/ball.h"

#ifdef __cplusplus
extern "C" {
#endif

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

/* As above, for inputs that were not recorded: in[i] has the balls of input i in the order of
 * sb_op_values_of, rows * cols of them, or is NULL for the values in `args`. In the delta rule the
 * state cannot be balls (sb_delta_error). */
#define SB_OP(name, clause)                                                                        \
    sb_status sb_bound_##name##_in(const sb_arithmetic *ar, const sb_knobs *knobs,                 \
                                   const sb_##name##_args *args, const sb_ball *const *in,         \
                                   sb_ball *out, sb_ball *second);
#include "ref/ops/ops.def"
#undef SB_OP

/* Element i of an input. */
static inline sb_ball sb_bound_at(const sb_ball *balls, const float *x, size_t i)
{
    return balls ? balls[i] : sb_ball_of(x[i]);
}

/* Elements first .. first + n - 1 of an input. */
static inline void sb_bound_row(const sb_ball *balls, const float *x, size_t first, size_t n,
                                sb_ball *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = sb_bound_at(balls, x, first + i);
}

/* Both sides of a comparison, or only one, in one call: work that does not depend on the arithmetic
 * is done once. */
enum { SB_BOUND_SIDES = 2 };
typedef struct sb_bound_side {
    const sb_arithmetic *ar;
    const sb_ball *in; /* the side's inputs where inputs are balls; else not read */
    sb_ball *out;
} sb_bound_side;
sb_status sb_bound_linear_sides(const sb_knobs *knobs, const sb_linear_args *args,
                                const sb_bound_side *sides, size_t count);

/* As above, for inputs that are balls because they were not recorded. */
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

/* Reads kept, n, weights, ids and shared_logit of args. shared has n balls, expert has kept * n. */
void sb_bound_moe_combine_of(const sb_arithmetic *ar, const sb_knobs *knobs,
                             const sb_moe_combine_args *args, const sb_ball *expert,
                             const sb_ball *shared, sb_ball *out);

/* down( swiglu( gate x, up x ) ): one MLP whose inner values are not known. SB_ERR_UNSUPPORTED if
 * the knobs quantize the input of `down`: that input is not known, and a quantizer turns the
 * smallest difference into a step. */
sb_status sb_bound_feed_forward(const sb_arithmetic *ar, const sb_knobs *knobs, sb_mlp_kind kind,
                                const sb_matrix *gate, const sb_matrix *up, const sb_matrix *down,
                                const float *in, size_t rows, sb_ball *out);

/* The two forms of the delta rule on balls of the normalised q and k (T, nK, dk), with exact g. */
sb_status sb_bound_delta_rule_of(const sb_arithmetic *ar, const sb_knobs *knobs,
                                 const sb_delta_rule_args *args, const sb_ball *q, const sb_ball *k,
                                 sb_ball *out, sb_ball *state);
sb_status sb_bound_delta_rule_chunk_of(const sb_arithmetic *ar, const sb_knobs *knobs,
                                       const sb_delta_rule_args *args, const sb_ball *q,
                                       const sb_ball *k, sb_ball *out, sb_ball *state);

/* The error of the incoming state: the 2-norm for each column (nV, dv) and the bound of each
 * element (nV, dk, dv). NULL: no error. */
typedef struct sb_delta_error {
    const double *column, *element;
} sb_delta_error;
typedef struct sb_delta_side {
    const sb_arithmetic *ar;
    const sb_ball *q, *k;
    /* (T, nV, dv), (T, nV), (T, nV); NULL: the values of the arguments, exactly */
    const sb_ball *v, *g, *beta;
    const sb_delta_error *from; /* error of the incoming state, or NULL */
    sb_ball *out, *state;       /* state may be NULL */
    double *column;             /* receives the norms as in sb_delta_error, without K-35; or NULL */
} sb_delta_side;
sb_status sb_bound_delta_rule_sides(const sb_knobs *knobs, const sb_delta_rule_args *args,
                                    const sb_delta_side *sides, size_t count);
sb_status sb_bound_delta_rule_chunk_side(const sb_knobs *knobs, const sb_delta_rule_args *args,
                                         const sb_delta_side *side);

/* T-67: for a program that may use either form. */
sb_status sb_bound_delta_rule_any_form(const sb_knobs *knobs, const sb_delta_rule_args *args,
                                       const sb_delta_side *side);

/* T-11: softmax of n balls in place. */
void sb_bound_softmax(const sb_arithmetic *ar, sb_ball *s, size_t n);

#ifdef __cplusplus
}
#endif

#endif
