#include "ref/base/mem.h"
#include "ref/base/threads.h"
#include "ref/fast/dot/dots.h"
#include "ref/math/fn.h"
#include "ref/fast/dot/fn_array.h"
#include "ref/fast/arrays.h"
#include "ref/fast/fast.h"
#include "ref/ops/knob.h"
#include "ref/ops/rounding.h"

#include <stdlib.h>

enum { BLOCK = 256 /* elements computed together */ };

typedef struct job {
    const sb_knobs *knobs;
    const sb_swiglu_args *a;
    int rounds;
} job;

static void one_block(void *ctx, size_t block, size_t worker)
{
    const job *j = ctx;
    const sb_swiglu_args *a = j->a;
    const size_t i = block * BLOCK, count = a->count - i < BLOCK ? a->count - i : BLOCK;
    float activated[BLOCK];
    (void)worker;
    sb_silu_array(a->gate + i, count, activated);
    if (j->rounds)
        sb_act_many(j->knobs, activated, count, activated);
    for (size_t l = 0; l < count; l++)
        activated[l] = activated[l] * a->up[i + l];
    sb_act_many(j->knobs, activated, count, a->out + i);
}

/* "a = R( RN(silu(gate) up) )" */
sb_status sb_swiglu_fast(const sb_knobs *knobs, const sb_swiglu_args *a)
{
    job j = {knobs, a, sb_rounds_silu(knobs, a->kind)};
    const double values = (double)a->count;
    sb_parallel_for((a->count + BLOCK - 1) / BLOCK, sb_worth_threads(values * SB_COST_exponential),
                    one_block, &j);
    return SB_OK;
}

/* The order in which K-14 adds the slots: by slot number, or by expert number. */
static void order_slots(const sb_knobs *knobs, const sb_moe_combine_args *a, size_t *order)
{
    int by_expert = SB_IS(knobs, moe_sum, eager) && a->ids;
    for (size_t e = 0; e < a->kept; e++) {
        size_t at = e;
        for (; by_expert && at > 0 && a->ids[order[at - 1]] > a->ids[e]; at--)
            order[at] = order[at - 1];
        order[at] = e;
    }
}

static const float one = 1.0f;

/* The scratch for the sum over slots: the order of the slots, and terms and blocks of values for k
 * slots and one more. */
typedef struct room {
    size_t *order;
    sb_dots_term *terms;
    float *products; /* (k, BLOCK) */
} room;

/* "t_i = f_i w_i" and "routed = R( sum(t) )"; K-14: "eager takes the experts by ascending
 * index and rounds after each: routed = R( RN(routed + t_i) ), starting from 0". For `count`
 * elements from i on. */
static void routed_sum(const sb_knobs *knobs, const sb_moe_combine_args *a, const room *r, size_t i,
                       size_t count, float *routed)
{
    for (size_t l = 0; l < count; l++)
        routed[l] = 0.0f;
    for (size_t e = 0; e < a->kept; e++) {
        size_t slot = r->order[e];
        float *t = r->products + e * BLOCK;
        for (size_t l = 0; l < count; l++)
            t[l] = a->expert_out[slot * a->n + i + l] * a->weights[slot];
        if (sb_rounds_slots(knobs))
            sb_act_many(knobs, t, count, t);
        for (size_t l = 0; l < count && SB_IS(knobs, moe_sum, eager); l++)
            routed[l] = sb_act(knobs, routed[l] + t[l]);
        r->terms[e] = (sb_dots_term){.a = t, .b = &one};
    }
    if (SB_IS(knobs, moe_sum, eager))
        return;
    sb_dots(r->terms, a->kept, count, routed);
    sb_act_many(knobs, routed, count, routed);
}

/* "y = R( RN( routed + R( RN( sigmoid(l_shared) f_shared ) ) ) )"; K-52: "fused replaces its
 * last step by R( dot of (1, sigmoid(l_shared)) with (routed, f_shared) )" */
static void add_shared(const sb_knobs *knobs, const float *routed, float open, const float *shared,
                       size_t count, float *out)
{
    if (SB_IS(knobs, shared_gate, fused)) {
        const sb_dots_term terms[2] = {{.a = routed, .b = &one}, {.a = shared, .b = &open}};
        sb_dots(terms, 2, count, out);
    } else {
        open = sb_act(knobs, open);
        for (size_t l = 0; l < count; l++) {
            float gated = sb_act(knobs, open * shared[l]);
            out[l] = routed[l] + gated;
        }
    }
    sb_act_many(knobs, out, count, out);
}

/* "one sum of k+1 terms" */
static void dot_sum(const sb_knobs *knobs, const sb_moe_combine_args *a, const room *r, float open)
{
    for (size_t e = 0; e < a->kept; e++)
        r->terms[e] = (sb_dots_term){.a = a->expert_out + e * a->n, .b = &a->weights[e]};
    r->terms[a->kept] = (sb_dots_term){.a = a->shared_out, .b = &open};
    sb_dots(r->terms, a->kept + 1, a->n, a->out);
    sb_act_many(knobs, a->out, a->n, a->out);
}

/* K-14: "dot is the single sum of R-17; slots is the slot form" */
static void combine(const sb_knobs *knobs, const sb_moe_combine_args *a, const room *r)
{
    const float open = sb_sigmoid(a->shared_logit);
    float routed[BLOCK];
    order_slots(knobs, a, r->order);
    if (SB_IS(knobs, moe_sum, dot))
        dot_sum(knobs, a, r, open);
    else
        for (size_t i = 0, count; i < a->n; i += count) {
            count = a->n - i < BLOCK ? a->n - i : BLOCK;
            routed_sum(knobs, a, r, i, count, routed);
            add_shared(knobs, routed, open, a->shared_out + i, count, a->out + i);
        }
}

sb_status sb_moe_combine_fast(const sb_knobs *knobs, const sb_moe_combine_args *a)
{
    size_t slots = a->kept + 1;
    room r = {.order = sb_alloc(slots, sizeof *r.order),
              .terms = sb_alloc(slots, sizeof *r.terms),
              .products = sb_alloc(slots, BLOCK * sizeof *r.products)};
    sb_status status = r.order && r.terms && r.products ? SB_OK : SB_ERR_MEMORY;
    if (!status)
        combine(knobs, a, &r);
    free(r.order);
    free(r.terms);
    free(r.products);
    return status;
}
