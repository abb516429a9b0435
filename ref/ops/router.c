#include <stdlib.h>

#include "ref/base/mem.h"
#include "ref/math/exact.h"
#include "ref/math/fn.h"
#include "ref/ops/knob.h"
#include "ref/ops/op.h"

/* "over the logits l of all E experts, e_i = exp( RN(l_i - max l) ), p_i = RN( e_i / sum(e)
 * )"
 */
static void softmax(const float *logits, size_t n, float *p)
{
    float largest = logits[0];
    for (size_t i = 1; i < n; i++)
        largest = logits[i] > largest ? logits[i] : largest;
    for (size_t i = 0; i < n; i++)
        p[i] = sb_exp(logits[i] - largest);
    float total = sb_exact_sum(p, 1, n);
    for (size_t i = 0; i < n; i++)
        p[i] = p[i] / total;
}

/* Returns the number of experts that come before expert i. R-15: "the k experts with the largest l
 * are kept, the lowest index first among equals, in descending order"; K-50: "highest keeps the
 * highest index first among equals" */
static size_t rank_of(const sb_knobs *knobs, const float *logits, size_t n, size_t i)
{
    size_t before = 0;
    for (size_t j = 0; j < n; j++) {
        int first = SB_IS(knobs, router_tie, highest) ? j > i : j < i;
        before += logits[j] > logits[i] || (logits[j] == logits[i] && first);
    }
    return before;
}

/* "w_i = RN( p_i / sum of the kept p ) where the model renormalises, else p_i; K-13 rounds
 * w."
 */
sb_status sb_router_ref(const sb_knobs *knobs, const sb_router_args *a)
{
    float *p = sb_alloc(a->experts, sizeof *p);
    for (size_t t = 0; p && t < a->rows; t++) {
        const float *logits = a->logits + t * a->experts;
        uint32_t *ids = a->ids + t * a->kept;
        float *w = a->weights + t * a->kept;
        softmax(logits, a->experts, p);
        for (size_t s = 0; s < a->kept; s++)
            ids[s] =
                0; /* NaN logits have no order, so slots may stay empty; the session refuses NaN */
        for (size_t i = 0; i < a->experts; i++) {
            size_t rank = rank_of(knobs, logits, a->experts, i);
            if (rank < a->kept)
                ids[rank] = (uint32_t)i;
        }
        for (size_t s = 0; s < a->kept; s++)
            w[s] = p[ids[s]];
        float total = a->renormalise ? sb_exact_sum(w, 1, a->kept) : 1.0f;
        for (size_t s = 0; s < a->kept; s++) {
            float share = w[s] / total;
            w[s] = SB_IS(knobs, router_weight, act) ? sb_act(knobs, share) : share;
        }
    }
    free(p);
    return p ? SB_OK : SB_ERR_MEMORY;
}
