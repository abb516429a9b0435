#include "ref/base/mem.h"
#include "ref/base/threads.h"
#include "ref/math/fn.h"
#include "ref/ops/form.h"
#include "ref/fast/fast.h"
#include "ref/ops/knob.h"
#include "ref/ops/param.h"

#include <stdlib.h>

typedef struct job {
    const sb_knobs *knobs;
    const sb_gates_args *a;
    const float *a_log, *dt_bias;
    sb_knob_value form;
    int rounds;
} job;

static void one_row(void *ctx, size_t t, size_t worker)
{
    const job *j = ctx;
    const sb_gates_args *a = j->a;
    (void)worker;
    for (size_t h = 0; h < a->heads; h++) {
        size_t at = t * a->heads + h;
        float speed = sb_exp(j->a_log[h]);
        float step = sb_softplus_form(j->form, a->a[at] + j->dt_bias[h]);
        a->g[at] = -speed * step;
        a->beta[at] = sb_sigmoid(a->b[at]);
        if (j->rounds)
            a->beta[at] = sb_act(j->knobs, a->beta[at]);
    }
}

/* "g = RN( -exp(A_log) softplus( RN(a + dt_bias) ) )" */
sb_status sb_gates_fast(const sb_knobs *knobs, const sb_gates_args *a)
{
    float *a_log = sb_alloc(2 * a->heads, sizeof *a_log);
    if (!a_log)
        return SB_ERR_MEMORY;
    float *dt_bias = a_log + a->heads;
    job j = {.knobs = knobs, .a = a, .a_log = a_log, .dt_bias = dt_bias};
    j.form = sb_softplus_of(knobs, a->form);
    j.rounds = sb_beta_rounds(knobs, a->form);
    sb_a_log_row(knobs, a->a_log, a_log);
    sb_param_row(knobs, a->dt_bias, 0, dt_bias);
    const double values = 3 * (double)a->rows * (double)a->heads;
    sb_parallel_for(a->rows, sb_worth_threads(values * SB_COST_exponential), one_row, &j);
    free(a_log);
    return SB_OK;
}
