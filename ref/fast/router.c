#include "ref/base/mem.h"
#include "ref/fast/dot/dot.h"
#include "ref/fast/dot/fn_array.h"
#include "ref/fast/fast.h"
#include "ref/ops/knob.h"

#include <stdlib.h>

/* K-13: "f32, or act to round w" */
static float round_weight(const sb_knobs *knobs, float w)
{
    return SB_IS(knobs, router_weight, act) ? sb_act(knobs, w) : w;
}

/* "e_i = exp( RN(l_i - max l) ), p_i = RN( e_i / sum(e) )" */
static void softmax(const float *logits, size_t n, float *p)
{
    float largest = sb_largest_of(logits, n);
    for (size_t i = 0; i < n; i++)
        p[i] = logits[i] - largest;
    sb_exp_array(p, n, p);
    float total = sb_sum(p, n);
    for (size_t i = 0; i < n; i++)
        p[i] = p[i] / total;
}

/* "the k experts with the largest l are kept, the lowest index first among equals": finds the
 * next expert after expert last_id with the logit `last` in this order. The first call passes
 * last_id = n. K-50: "highest keeps the highest index first among equals": with `behind`, the
 * search runs from the highest index down. */
static uint32_t next_best(const float *logits, uint32_t n, float last, uint32_t last_id, int behind)
{
    uint32_t best = n;
    for (uint32_t step = 0; step < n; step++) {
        uint32_t i = behind ? n - 1 - step : step;
        int passed = behind ? i >= last_id : i <= last_id;
        int taken = last_id < n && (logits[i] > last || (logits[i] == last && passed));
        if (!taken && (best == n || logits[i] > logits[best]))
            best = i;
    }
    return best;
}

sb_status sb_router_fast(const sb_knobs *knobs, const sb_router_args *a)
{
    float *p = sb_alloc(a->experts, sizeof *p);
    if (!p)
        return SB_ERR_MEMORY;
    uint32_t n = (uint32_t)a->experts;
    int behind = SB_IS(knobs, router_tie, highest);
    for (size_t t = 0; t < a->rows; t++) {
        const float *logits = a->logits + t * a->experts;
        uint32_t *ids = a->ids + t * a->kept;
        float *weights = a->weights + t * a->kept;
        softmax(logits, a->experts, p);
        for (size_t i = 0; i < a->kept; i++) {
            uint32_t last = i ? ids[i - 1] : n;
            uint32_t best = next_best(logits, n, i ? logits[last] : 0.0f, last, behind);
            ids[i] = best < n ? best : 0; /* only NaN logits are left; the session refuses them */
            weights[i] = p[ids[i]];
        }
        float total = a->renormalise ? sb_sum(weights, a->kept) : 1.0f;
        for (size_t i = 0; i < a->kept; i++)
            weights[i] = round_weight(knobs, weights[i] / total);
    }
    free(p);
    return SB_OK;
}
