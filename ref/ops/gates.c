#include "ref/base/mem.h"
#include "ref/math/fn.h"
#include "ref/ops/op.h"
#include "ref/ops/param.h"

#include <stdlib.h>

/* K-4: "log1p_exp is x for x > 20, else log1p( exp(x) ) with both rounded" */
static float softplus(const sb_knobs *knobs, float x)
{
    if (SB_IS(knobs, softplus, single))
        return sb_softplus(x);
    return x > 20.0f ? x : sb_log1p(sb_exp(x));
}

/* K-5: "act to round beta to the activation type" */
static float round_beta(const sb_knobs *knobs, float beta)
{
    return SB_IS(knobs, beta, act) ? sb_act(knobs, beta) : beta;
}

/* "g = RN( -exp(A_log) softplus( RN(a + dt_bias) ) )" */
sb_status sb_gates_ref(const sb_knobs *knobs, const sb_gates_args *a)
{
    float *a_log = sb_alloc(2 * a->heads, sizeof *a_log);
    if (!a_log)
        return SB_ERR_MEMORY;
    float *dt_bias = a_log + a->heads;
    sb_param_row(knobs, a->a_log, 0, a_log);
    sb_param_row(knobs, a->dt_bias, 0, dt_bias);
    for (size_t t = 0; t < a->rows; t++)
        for (size_t h = 0; h < a->heads; h++) {
            size_t at = t * a->heads + h;
            float speed = sb_exp(a_log[h]);
            float step = softplus(knobs, a->a[at] + dt_bias[h]);
            a->g[at] = -speed * step;
            a->beta[at] = round_beta(knobs, sb_sigmoid(a->b[at]));
        }
    free(a_log);
    return SB_OK;
}
