#include "ref/ops/op.h"
#include "ref/ops/param.h"
#include "ref/ops/rounding.h"

/* R-1: "x_t is row token_t of the embedding, unscaled, R" */
sb_status sb_embed_ref(const sb_knobs *knobs, const sb_embed_args *a)
{
    size_t n = a->table->cols;
    for (size_t t = 0; t < a->rows; t++) {
        sb_param_row(knobs, a->table, a->tokens[t], a->out + t * n);
        for (size_t i = 0; i < n; i++)
            a->out[t * n + i] = sb_act(knobs, a->out[t * n + i]);
    }
    return SB_OK;
}

/* R-18: "x = R( RN(x + y) )"; K-48: "Under sum, the norm reads RN(x + y) instead", a second output;
 * K-53: "f32 leaves the sums of R-18, and so the inputs of the norms, in binary32" */
sb_status sb_add_ref(const sb_knobs *knobs, const sb_add_args *a)
{
    for (size_t i = 0; i < a->count; i++) {
        float sum = a->a[i] + a->b[i];
        if (a->sum)
            a->sum[i] = sum;
        a->out[i] = sb_residual(knobs, sum);
    }
    return SB_OK;
}
