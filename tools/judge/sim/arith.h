/* arith.h - the arithmetic of a simulated engine, and its ops. They use no function of ref/math. */
#ifndef SB_SIM_ARITH_H
#define SB_SIM_ARITH_H

#include "ref/formats/atoms.h"
#include "ref/ops/op.h"
#include "tools/judge/sim/functions.h"

typedef enum sb_sim_order {
    SUM_lanes,    /* term i goes to accumulator i mod lanes, which are folded in halves */
    SUM_backward, /* one accumulator, the last term first */
    SUM_pairwise  /* recursively, the sum of one half plus the sum of the other */
} sb_sim_order;

typedef enum sb_sim_form {
    FORM_plain,
    FORM_late,    /* attention: sum of e v, then the division by sum of e */
    FORM_batched, /* linear: 1, 2, 4, ... lanes if the call has 1, 2, 3, ... rows */
    FORM_any      /* the atom takes any binary32 operands, not only those that its unit can read */
} sb_sim_form;

typedef enum sb_sim_fn {
    FN_wide,     /* binary64 polynomials, rounded to binary32, and compositions of them */
    FN_ex2,      /* e^x is 2^(x log2 e) in binary32, log x is ln 2 log2 x, x / y is x (1 / y) */
    FN_published /* + row of functions.def: errors close to those of that row */
} sb_sim_fn;

typedef struct sb_sim_arith {
    sb_sim_order order;
    unsigned lanes; /* a power of two, at most SB_SIM_LANES */
    int fused;
    unsigned atom; /* row of atoms.def for matrix products; NO_ATOM: they are like other sums */
    sb_sim_form form;
    unsigned fn;    /* sb_sim_fn */
    unsigned chunk; /* rows of a chunk of the delta rule */
} sb_sim_arith;

enum { SB_SIM_LANES = 32, SB_SIM_CHUNK = 512, NO_ATOM = SB_ATOM_COUNT };

/* --- reductions: sum of a[i step_a] b[i step_b] ----------------------------------------------- */

/* Adds as a vector unit does. */
float sb_sim_dot(const sb_sim_arith *s, const float *a, size_t step_a, const float *b,
                 size_t step_b, size_t n);
float sb_sim_sum(const sb_sim_arith *s, const float *a, size_t n);

/* Adds as a matrix unit does, if the engine has one and all operands are bfloat16 values (FORM_any:
 * any operands, as if the unit could read them); else as a vector unit. */
float sb_sim_product(const sb_sim_arith *s, const float *a, size_t step_a, const float *b,
                     size_t step_b, size_t n);

/* sb_atom_dot on binary32 operands, with the same bits; uses binary64 if a sum is finite and
 * normal. */
float sb_sim_atom_dot(const sb_atom *atom, const float *a, size_t step_a, const float *b,
                      size_t step_b, size_t n);

/* --- many reductions: out[j] is the reduction of x and column j of b, bit by bit -------------- */

enum { SB_SIM_COLUMNS = 16 }; /* columns that are computed together */

void sb_sim_dots(const sb_sim_arith *s, const float *x, size_t step, const float *b, size_t stride,
                 size_t n, size_t count, float *out);
void sb_sim_products(const sb_sim_arith *s, const float *x, size_t step, const float *b,
                     size_t stride, size_t n, size_t count, float *out);

/* sum[j] = x b[j] + sum[j] */
void sb_sim_multiply_adds(const sb_sim_arith *s, float x, const float *b, float *sum, size_t count);

/* F-2: "the upper half of a binary32 code whose lower half is zero" */
int sb_sim_all_bf16(const float *a, size_t step, size_t n);

/* a b + c: two roundings, or one if the engine fuses. */
float sb_sim_multiply_add(const sb_sim_arith *s, float a, float b, float c);

/* --- functions, those of s->fn, and compositions of them -------------------------------------- */

float sb_sim_exp(const sb_sim_arith *s, float x);
float sb_sim_log(const sb_sim_arith *s, float x); /* x > 0 */
float sb_sim_log1p(const sb_sim_arith *s, float x);
float sb_sim_sqrt(const sb_sim_arith *s, float x);
float sb_sim_rsqrt(const sb_sim_arith *s, float x);
float sb_sim_sin(const sb_sim_arith *s, float x);
float sb_sim_cos(const sb_sim_arith *s, float x);
float sb_sim_divide(const sb_sim_arith *s, float x, float y);
float sb_sim_power(const sb_sim_arith *s, double base, double exponent);
float sb_sim_root(double base, double exponent);       /* for constants: rounded once */
float sb_sim_sigmoid(const sb_sim_arith *s, float x);  /* 1 / (1 + e^-x) */
float sb_sim_silu(const sb_sim_arith *s, float x);     /* x / (1 + e^-x) */
float sb_sim_softplus(const sb_sim_arith *s, float x); /* log1p(e^x); x from 20 on */

/* --- the ops ---------------------------------------------------------------------------------- */

#define SB_OP(name, clause)                                                                        \
    sb_status sb_sim_##name(const sb_sim_arith *s, const sb_knobs *knobs,                          \
                            const sb_##name##_args *a);
#include "ref/ops/ops.def"
#undef SB_OP

/* Rounds to the activation type if `rounds` (the test of a knob) is true. */
static inline float sb_sim_act_if(const sb_knobs *knobs, int rounds, float x)
{
    return rounds ? sb_act(knobs, x) : x;
}

#endif
