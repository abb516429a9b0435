#include "ref/base/mem.h"
#include "ref/math/dot.h"
#include "ref/ops/op.h"
#include "ref/ops/param.h"

#include <stdlib.h>

/* The rows of a weight that K-2 casts cannot be read in place: decode, cast, then the same dot. */
static sb_status linear_cast(const sb_knobs *knobs, const sb_linear_args *a)
{
    size_t n = a->weight->rows, k = a->weight->cols;
    float *row = sb_alloc(k, sizeof *row);
    if (!row)
        return SB_ERR_MEMORY;
    for (uint32_t i = 0; i < a->weight->rows; i++) {
        sb_param_row(knobs, a->weight, i, row);
        for (size_t t = 0; t < a->rows; t++)
            a->out[t * n + i] = sb_act(knobs, sb_dot(row, a->in + t * k, k));
    }
    free(row);
    return SB_OK;
}

/* "y_t[n] = R( dot(W[n], x_t) )". Outputs are independent, so threads share them freely, where
 * there is enough to share: a region costs as much as some 10^5 products. */
sb_status sb_linear_ref(const sb_knobs *knobs, const sb_linear_args *a)
{
    if (sb_param_cast(knobs, a->weight))
        return linear_cast(knobs, a);
    size_t n = a->weight->rows, k = a->weight->cols;
    int64_t outputs = (int64_t)(a->rows * n);
#pragma omp parallel for schedule(static) if (outputs * (int64_t)k > 1000000)
    for (int64_t o = 0; o < outputs; o++) {
        size_t t = (size_t)o / n;
        uint32_t row = (uint32_t)((size_t)o % n);
        a->out[o] = sb_act(knobs, sb_dot_row(a->weight, row, a->in + t * k));
    }
    return SB_OK;
}
