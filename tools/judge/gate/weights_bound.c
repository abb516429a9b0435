/* weights_bound.c - bounds of the outputs of a layer. */
#include <stdlib.h>

#include "ref/base/mem.h"
#include "ref/formats/wide.h"
#include "ref/math/law.h"
#include "ref/ops/param.h"
#include "ref/ops/rounding.h"
#include "tools/judge/bound/bound.h"
#include "tools/judge/gate/weights.h"

/* The power of two that brings a magnitude to [1, 2); 1 for a magnitude of 0. */
static double scale_of(double magnitude)
{
    double by = 1.0;
    for (; magnitude > 0 && magnitude * by < 1.0; by *= 2.0)
        ;
    for (; magnitude * by >= 2.0; by /= 2.0)
        ;
    return by;
}

/* V-138: "T-50 holds for operands that powers of two have brought to magnitudes of 1 to 2" - a unit
 * that reads bfloat16 behaves the same for scaled operands. Only underflow does not scale. */
static sb_ball reduced(const sb_gate_case *c, const sb_arithmetic *ar, const sb_reduction *r)
{
    if (!ar->atom || c->input == SB_DTYPE_F16)
        return sb_ball_reduced(ar, r);
    const double a = scale_of(r->a), b = scale_of(r->b), both = a * b;
    const sb_reduction scaled = {.sum = r->sum * both,
                                 .magnitude = r->magnitude * both,
                                 .spread = r->spread * both,
                                 .peak = r->peak * both,
                                 .largest = r->largest * both,
                                 .a = r->a * a,
                                 .b = r->b * b,
                                 .n = r->n};
    sb_ball y = sb_ball_reduced(ar, &scaled);
    return (sb_ball){r->sum, y.rad / both + 2.0 * (double)r->n * ar->underflow};
}

sb_status sb_gate_bound_linear(const sb_gate_case *c, const sb_gate_arith *ar, const sb_matrix *w,
                               sb_linear_kind kind, const sb_ball *x, size_t rows, sb_ball *out)
{
    const sb_knobs knobs = sb_gate_given_inputs(&ar->knobs);
    const sb_scalar factor = sb_matrix_factor(w);
    if (sb_param_cast(&knobs, w)) /* the knobs round these weights */
        return sb_bound_linear_of(&ar->ar, &knobs, w, kind, x, rows, out);
    double *row = sb_alloc(w->cols, sizeof *row);
    if (!row)
        return SB_ERR_MEMORY;
    for (uint32_t n = 0; n < w->rows; n++) {
        sb_matrix_wide(w, n, row);
        for (uint32_t k = 0; k < w->cols; k++)
            row[k] = row[k] * (double)factor.mul[0] / (double)factor.div[0];
        for (size_t t = 0; t < rows; t++) {
            sb_reduction r = {0};
            for (uint32_t k = 0; k < w->cols; k++)
                sb_reduce(&r, (sb_ball){row[k], 0}, x[t * w->cols + k]);
            r.n += sb_matrix_quantized(w) && ar->ar.any_order ? 4 : 0; /* T-7 */
            sb_ball y = reduced(c, &ar->ar, &r);
            y = sb_linear_stays_wide(&knobs, kind) ? y : sb_ball_act(&knobs, y);
            out[t * w->rows + n] = sb_gate_known(y);
        }
    }
    free(row);
    return SB_OK;
}
