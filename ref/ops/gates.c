#include "ref/math/fn.h"
#include "ref/ops/form.h"
#include "ref/ops/knob.h"
#include "ref/ops/op.h"
#include "ref/ops/param.h"

/* RN( log( RN(1 + exp(x)) ) ) */
static float log_exp(float x)
{
    float sum = 1.0f + sb_exp(x);
    return sb_log(sum);
}

/* K-4: "single is the function of A-4. log1p_exp is x for x > 20, else log1p( exp(x) ), with both
 * functions rounded. log_exp is the same with log( RN(1 + exp(x)) ) in place of log1p( exp(x) ).
 * log_exp_abs is RN( x + log( RN(1 + exp(-x)) ) ) for x > 0, else log( RN(1 + exp(x)) )" */
float sb_softplus_form(sb_knob_value form, float x)
{
    if (form == SB_softplus_single)
        return sb_softplus(x);
    if (x > 20.0f)
        return x;
    if (form == SB_softplus_log1p_exp)
        return sb_log1p(sb_exp(x));
    return form == SB_softplus_log_exp_abs && x > 0.0f ? x + log_exp(-x) : log_exp(x);
}

/* "beta = sigmoid(b), rounded as K-5 says; g = RN( -exp(A_log) softplus( RN(a + dt_bias) ) ),
 * where exp(A_log) and softplus are each rounded by A-4 and K-4 chooses the form of softplus; g
 * stays binary32. K-34 excepts A_log from K-2." */
sb_status sb_gates_ref(const sb_knobs *knobs, const sb_gates_args *a)
{
    const sb_knob_value form = sb_softplus_of(knobs, a->form);
    for (size_t t = 0; t < a->rows; t++)
        for (size_t h = 0; h < a->heads; h++) {
            const size_t at = t * a->heads + h;
            float a_log = SB_IS(knobs, a_log, stored) ? sb_stored_at(a->a_log, 0, h)
                                                      : sb_param_at(knobs, a->a_log, 0, h);
            float step = sb_softplus_form(form, a->a[at] + sb_param_at(knobs, a->dt_bias, 0, h));
            float beta = sb_sigmoid(a->b[at]);
            a->g[at] = -sb_exp(a_log) * step;
            a->beta[at] = sb_beta_rounds(knobs, a->form) ? sb_act(knobs, beta) : beta;
        }
    return SB_OK;
}
