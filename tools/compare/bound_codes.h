/* bound_codes.h - linear layers whose inputs are quantized, on units that multiply codes (T-52). */
#ifndef SB_COMPARE_BOUND_CODES_H
#define SB_COMPARE_BOUND_CODES_H

#include "ref/ops/act_quant.h"
#include "tools/compare/ball.h"

/* A layer with its inputs. */
typedef struct sb_bound_codes {
    const sb_matrix *weight;
    sb_act_scheme scheme;
    float *scales;        /* (T, groups) of the inputs */
    size_t group, groups; /* columns that share a scale; how many of these a row has */
    double factor;        /* what multiplies whole sums, as magnitude */
} sb_bound_codes;

/* The unit that a program of this arithmetic has for inputs of the scheme; NULL: T-50 holds. */
const sb_atom *sb_bound_unit(const sb_arithmetic *ar, sb_act_scheme scheme);

/* What of the quantized input the bound needs: takes its scales, which are then the caller's to
 * free. Nothing under knobs that T-52 is not about. */
void sb_bound_codes_of(const sb_knobs *knobs, const sb_matrix *weight, sb_input *in,
                       sb_bound_codes *codes);

/* T-52: how far a sum is from that of the exact products, of which r has the magnitude; of row n of
 * the weight and input t. */
double sb_bound_codes_error(const sb_bound_codes *codes, const sb_atom *unit, size_t n, size_t t,
                            const sb_reduction *r);

#endif
