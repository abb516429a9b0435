/* ball.h - balls (numbers known up to a radius) and binary32 arithmetic on them.
 *
 * A computation written with balls covers every evaluation that an arithmetic allows: each possible
 * result lies within rad of mid. The lemmas are T-1 to T-4 of docs/tolerances.md. Everything is
 * binary64; T-5 says why its own rounding does not matter. */
#ifndef SB_COMPARE_BALL_H
#define SB_COMPARE_BALL_H

#include <stddef.h>

#include "ref/formats/atoms.h"
#include "ref/ops/knobs.h"
#include "tools/judge/sim/functions.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SB_UNIT 0x1p-24 /* u: a binary32 operation errs by at most u times its result */

/* T-5: "Every comparison allows one part in a hundred more" */
#define SB_BOUND_SLACK 1.01

typedef struct sb_ball {
    double mid, rad; /* a ball of radius 0 holds a binary32 value exactly */
} sb_ball;

/* The freedom that an evaluation has. */
typedef struct sb_arithmetic {
    const char *name;
    int any_order; /* reductions add in any order and blocking; 0: they are correctly rounded */
    const sb_functions *functions; /* errors of its functions (T-81) */
    double underflow;              /* absolute error of any operation by underflow */
    const sb_atom *atom;           /* matrix products may use this unit (T-50); NULL: they do not */
    int in_order;                  /* that unit adds the terms in their order */
    /* units for codes of quantized inputs (T-52); NULL: `atom` is used */
    const sb_atom *fp8, *fp4;
    unsigned chunk; /* rows of a chunk of the delta rule (T-87); 0: 64, as in R-10 */
} sb_arithmetic;

enum { SB_CHUNK_SHORTEST = 16, SB_CHUNK_USUAL = 64, SB_CHUNK_LONGEST = 512 };

/* T-87: "a power of two from 16 to 512" */
int sb_chunk_is_bounded(uint64_t rows);
size_t sb_arithmetic_chunk(const sb_arithmetic *ar);

extern const sb_arithmetic sb_arithmetic_reference; /* section A of docs/spec.md */
extern const sb_arithmetic sb_arithmetic_library;   /* any order, functions of any library */

/* Finds an arithmetic by name; NULL if the name is unknown. The names are "reference"; "library";
 * "library@16" and other lengths, for chunks of 16 rows in the delta rule (T-87); "sm120", which
 * has a unit for each kind of operands; and the name of every ungrouped row of atoms.def with
 * binary32 sums. With such a name the order of the terms is unknown. With "+order" after the name,
 * the terms are added in the order of their numbers. */
const sb_arithmetic *sb_arithmetic_of(const char *name);
size_t sb_arithmetic_count(void);
const sb_arithmetic *sb_arithmetic_at(size_t i);

/* T-51: "Only linear, attention and delta_rule_chunk use the matrix unit". Returns the arithmetic
 * of the other ops: vector units with the same functions. */
const sb_arithmetic *sb_arithmetic_vector(const sb_arithmetic *ar);

/* T-88: the radius of a ball that may hold any value. Sums of such radii stay finite. */
#define SB_BALL_ANYTHING 0x1p1000

/* Balls of radius 0. */
sb_ball sb_ball_of(float x);
void sb_balls_of(const float *x, size_t n, sb_ball *out);

/* Sets *own to `ar` with the functions of a row of functions.def and with chunks of `chunk` rows
 * (T-87). functions: the name of the row; NULL: the functions of `ar`. chunk 0: the chunks of `ar`.
 */
sb_status sb_arithmetic_with(const sb_arithmetic *ar, const char *functions, uint64_t chunk,
                             sb_arithmetic *own, sb_error *err);

/* T-1: one operation, rounded once. Operands of radius 0 give a result of radius 0. */
sb_ball sb_ball_add(const sb_arithmetic *ar, sb_ball a, sb_ball b);
sb_ball sb_ball_sub(const sb_arithmetic *ar, sb_ball a, sb_ball b);
sb_ball sb_ball_mul(const sb_arithmetic *ar, sb_ball a, sb_ball b);
sb_ball sb_ball_div(const sb_arithmetic *ar, sb_ball a, sb_ball b); /* b may hold 0: T-88 */

/* The R of the specification: rounds a ball of binary32 values to the activation type. */
sb_ball sb_ball_act(const sb_knobs *knobs, sb_ball x);
sb_ball sb_ball_round_to(sb_format format, sb_ball x); /* rounds to any format */

/* T-2: a reduction, gathered term by term. */
typedef struct sb_reduction {
    double sum, magnitude, spread;
    double peak, largest; /* largest magnitude of a partial sum, and of a product (T-50) */
    double a, b;          /* largest magnitude of the left and right operands */
    size_t n;
} sb_reduction;

static inline double sb_larger(double a, double b)
{
    return a > b ? a : b;
}

static inline void sb_reduce(sb_reduction *r, sb_ball a, sb_ball b)
{
    double x = a.mid < 0 ? -a.mid : a.mid, y = b.mid < 0 ? -b.mid : b.mid;
    r->sum += a.mid * b.mid;
    r->spread += x * b.rad + a.rad * y + a.rad * b.rad;
    double product = (x + a.rad) * (y + b.rad);
    r->magnitude += product;
    r->largest = sb_larger(r->largest, product);
    r->a = sb_larger(r->a, x + a.rad);
    r->b = sb_larger(r->b, y + b.rad);
    r->peak = sb_larger(r->peak, r->sum < 0 ? -r->sum : r->sum);
    r->n++;
}
sb_ball sb_ball_reduced(const sb_arithmetic *ar, const sb_reduction *r);
/* As sb_ball_reduced, with this error of the sum. */
sb_ball sb_ball_summed(const sb_arithmetic *ar, const sb_reduction *r, double error);
sb_ball sb_ball_dot(const sb_arithmetic *ar, const sb_ball *a, const sb_ball *b, size_t n);

/* T-50: the error of a reduction on the unit of ar->atom. */
double sb_atom_error(const sb_arithmetic *ar, const sb_reduction *r);

/* T-2, T-50: the relative error of a sum of n terms of the same sign. */
double sb_gamma(const sb_arithmetic *ar, size_t n);

/* T-3, T-80: functions of one argument. */
sb_ball sb_ball_exp(const sb_arithmetic *ar, sb_ball x);
double sb_exp_error(const sb_arithmetic *ar, double x);    /* relative error of e^y, |y| <= x */
sb_ball sb_ball_log(const sb_arithmetic *ar, sb_ball x);   /* x > 0 throughout */
sb_ball sb_ball_rsqrt(const sb_arithmetic *ar, sb_ball x); /* x > 0 throughout */
sb_ball sb_ball_sqrt(const sb_arithmetic *ar, sb_ball x);  /* values below 0 count as 0 */
sb_ball sb_ball_sigmoid(const sb_arithmetic *ar, sb_ball x);
sb_ball sb_ball_silu(const sb_arithmetic *ar, sb_ball x);
sb_ball sb_ball_softplus(const sb_arithmetic *ar, sb_ball x); /* the first two forms of K-4 */
sb_ball sb_ball_cos(const sb_arithmetic *ar, sb_ball x);
sb_ball sb_ball_sin(const sb_arithmetic *ar, sb_ball x);

/* The smallest ball around both. */
sb_ball sb_ball_hull(sb_ball a, sb_ball b);

/* The largest possible difference of two evaluations of one quantity. */
double sb_ball_distance(sb_ball a, sb_ball b);

#ifdef __cplusplus
}
#endif

#endif
