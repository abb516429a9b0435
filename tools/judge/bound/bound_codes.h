/* bound_codes.h - linear layers whose inputs are quantized, on units that multiply codes (T-52). */
#ifndef SB_COMPARE_BOUND_CODES_H
#define SB_COMPARE_BOUND_CODES_H

#include "ref/ops/act_quant.h"
#include "tools/judge/bound/ball.h"

/* A layer with its inputs. */
typedef struct sb_bound_codes {
    const sb_matrix *weight;
    sb_act_scheme scheme;
    float *scales;        /* (T, groups) of the inputs */
    size_t group, groups; /* columns that share a scale; groups in a row */
    double factor;        /* magnitude of the factor of whole sums */
} sb_bound_codes;

/* The unit of this arithmetic for inputs of the scheme; NULL: none, T-50 holds. */
const sb_atom *sb_bound_unit(const sb_arithmetic *ar, sb_act_scheme scheme);

/* Collects the data of the quantized input that the bound needs. The scales of `in` move to *codes,
 * where the caller frees them. Leaves *codes empty if T-52 does not cover the knobs. */
void sb_bound_codes_of(const sb_knobs *knobs, const sb_matrix *weight, sb_input *in,
                       sb_bound_codes *codes);

/* T-52: the error of the sum for row n of the weight and input t. r has the magnitude of the exact
 * products. */
double sb_bound_codes_error(const sb_bound_codes *codes, const sb_atom *unit, size_t n, size_t t,
                            const sb_reduction *r);

#endif
