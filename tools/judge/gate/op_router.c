/* op_router.c - the choice of experts, and their weights. */
#include <stdlib.h>

#include "ref/base/mem.h"
#include "ref/ops/knob.h"
#include "tools/judge/bound/bound.h"
#include "tools/judge/bound/wide_fn.h"
#include "tools/judge/gate/whole.h"

enum { ROWS, EXPERTS, KEPT, RENORMALISE };
enum { WEIGHTS, IDS };

static const sb_gate_param params[] = {
    {"rows", 9, 1, 4096, "tokens"},
    {"experts", 64, 1, 4096, "experts, E"},
    {"kept", 8, 1, 64, "experts per token, k; at most E"},
    {"renormalise", 1, 0, 1, "1: the kept probabilities are divided by their sum"},
};

static const char *const shapes[] = {"rows=1",
                                     "rows=33,experts=32,kept=4",
                                     "rows=4,experts=256,kept=8",
                                     "rows=4,experts=512,kept=10",
                                     "rows=5,experts=257,kept=7",
                                     "rows=5,experts=31,kept=3",
                                     "experts=8,kept=8",
                                     "experts=16,kept=1",
                                     "experts=1,kept=1",
                                     "renormalise=0",
                                     "rows=4,experts=512,kept=10,renormalise=0",
                                     NULL};

static const sb_op uses[] = {SB_OP_router};

typedef struct shape {
    size_t rows, experts, kept;
    int renormalise;
} shape;

static shape shape_of(const sb_gate_case *c)
{
    return (shape){.rows = c->size[ROWS],
                   .experts = c->size[EXPERTS],
                   .kept = c->size[KEPT],
                   .renormalise = c->size[RENORMALISE] != 0};
}

static sb_status check(const sb_gate_case *c, sb_error *err)
{
    if (c->size[KEPT] <= c->size[EXPERTS])
        return SB_OK;
    return sb_fail(err, SB_ERR_USAGE, "kept=%llu is more than experts=%llu",
                   (unsigned long long)c->size[KEPT], (unsigned long long)c->size[EXPERTS]);
}

static sb_gate_list list(const sb_gate_case *c)
{
    const uint64_t rows = c->size[ROWS], kept = c->size[KEPT];
    return (sb_gate_list){
        .input = {{"logits", "row,expert", .shape = {rows, c->size[EXPERTS]},
                   .role = SB_GATE_LOGIT}},
        .output = {
            [WEIGHTS] = {"", "row,slot", .shape = {rows, kept}},
            [IDS] = {"ids", "row,slot", .shape = {rows, kept}, .choices = 1, .distinct = 1},
        }};
}

/* Regime negative: every second row is so far below 0 that e^l is 0 for each expert. Regime huge:
 * in one row of four, the logits are close and every e^l is infinite. In two of four, the logits
 * are close enough that the second largest counts. */
static void adapt(const sb_gate_case *c, float *const x[])
{
    const shape s = shape_of(c);
    float *logits = x[0];
    for (size_t i = 0; i < s.rows * s.experts; i++) {
        size_t row = i / s.experts;
        if (c->regime == SB_GATE_REGIME_negative && row % 2)
            logits[i] = sb_gate_fit(c, logits[i] * 32.0f - 128.0f);
        if (c->regime == SB_GATE_REGIME_huge && row % 4 == 1)
            logits[i] = sb_gate_fit(c, logits[i] / 1024.0f + 160.0f);
        if (c->regime == SB_GATE_REGIME_huge && row % 4 > 1)
            logits[i] /= 128.0f;
    }
}

/* Arguments of the op, and its ids and weights. */
typedef struct routed {
    float *logits, *weights;
    uint32_t *ids;
    sb_router_args args;
} routed;

static void routed_free(routed *r)
{
    free(r->logits);
    free(r->weights);
    free(r->ids);
}

static sb_status routed_of(const sb_gate_case *c, routed *r)
{
    const shape s = shape_of(c);
    *r = (routed){.logits = sb_gate_values(c, "logits"),
                  .weights = sb_alloc(s.rows * s.kept, sizeof *r->weights),
                  .ids = sb_alloc(s.rows * s.kept, sizeof *r->ids)};
    r->args = (sb_router_args){.logits = r->logits,
                               .rows = s.rows,
                               .experts = s.experts,
                               .kept = s.kept,
                               .renormalise = s.renormalise,
                               .ids = r->ids,
                               .weights = r->weights};
    if (r->logits && r->weights && r->ids)
        return SB_OK;
    routed_free(r);
    return SB_ERR_MEMORY;
}

/* V-54: "out are the weights of R-15 and out.ids the experts, in descending order" */
static sb_status exact(const sb_gate_case *c, float *const in[], const sb_knobs *knobs,
                       const sb_op_table *ops, float *const out[])
{
    (void)in;
    routed r;
    sb_status status = routed_of(c, &r);
    if (status)
        return status;
    status = ops->router(knobs, &r.args);
    for (size_t i = 0; i < r.args.rows * r.args.kept && !status; i++) {
        out[WEIGHTS][i] = r.weights[i];
        out[IDS][i] = (float)r.ids[i];
    }
    routed_free(&r);
    return status;
}

/* The reference's choice in `rows` rows from `first` on. It is also the choice in real numbers,
 * because the reference compares logits. */
static sb_status choose(const sb_gate_case *c, size_t first, size_t rows, routed *r)
{
    sb_knobs knobs;
    sb_status status = routed_of(c, r);
    if (status)
        return status;
    sb_knobs_exact(&knobs);
    r->args.logits += first * r->args.experts;
    r->args.rows = rows;
    status = sb_router_ref(&knobs, &r->args);
    if (status)
        routed_free(r);
    return status;
}

/* R-15, one row: exponentials of the kept experts, divided by the sum over all experts, or over the
 * kept ones. */
static void weigh(const sb_router_args *a, size_t row, sb_dd *out)
{
    const float *logits = a->logits + row * a->experts;
    const uint32_t *ids = a->ids + row * a->kept;
    sb_dd most = sb_dd_of((double)logits[ids[0]]), total = sb_dd_of(0.0);
    for (size_t i = 0; i < a->kept; i++)
        out[i] = sb_dd_exp(sb_dd_sub(sb_dd_of((double)logits[ids[i]]), most));
    for (size_t i = 0; i < a->kept && a->renormalise; i++)
        total = sb_dd_add(total, out[i]);
    for (size_t e = 0; e < a->experts && !a->renormalise; e++)
        total = sb_dd_add(total, sb_dd_exp(sb_dd_sub(sb_dd_of((double)logits[e]), most)));
    for (size_t i = 0; i < a->kept; i++)
        out[i] = sb_dd_div(out[i], total);
}

static sb_status real(const sb_gate_case *c, float *const in[], sb_dd *const out[])
{
    (void)in;
    routed r;
    sb_status status = choose(c, 0, shape_of(c).rows, &r);
    if (status)
        return status;
    for (size_t row = 0; row < r.args.rows; row++)
        weigh(&r.args, row, out[WEIGHTS] + row * r.args.kept);
    for (size_t i = 0; i < r.args.rows * r.args.kept; i++)
        out[IDS][i] = sb_dd_of((double)r.ids[i]);
    routed_free(&r);
    return SB_OK;
}

/* T-14: "a choice is open where the balls of the probabilities overlap" */
static int overlap(sb_ball a, sb_ball b)
{
    return sb_wide_abs(a.mid - b.mid) <= SB_BOUND_SLACK * (a.rad + b.rad);
}

/* V-55: "The bound of a weight covers every expert that is open in its slot" - p (E) has the balls
 * of the probabilities, kept (k) is scratch. */
static void cover(const sb_gate_arith *ar, const routed *r, size_t row, const sb_ball *p,
                  sb_ball *kept, sb_ball *out)
{
    const sb_router_args *a = &r->args;
    const sb_arithmetic *vector = sb_arithmetic_vector(&ar->ar);
    sb_reduction sum = {0};
    for (size_t i = 0; i < a->kept; i++) {
        sb_ball best = p[a->ids[row * a->kept + i]];
        kept[i] = best;
        for (size_t e = 0; e < a->experts; e++)
            if (overlap(p[e], best))
                kept[i] = sb_ball_hull(kept[i], p[e]);
        sb_reduce(&sum, kept[i], sb_ball_of(1.0f));
    }
    sb_ball total = sb_ball_reduced(vector, &sum);
    for (size_t i = 0; i < a->kept; i++) {
        sb_ball w = a->renormalise ? sb_ball_div(vector, kept[i], total) : kept[i];
        out[i] = SB_IS(&ar->knobs, router_weight, act) ? sb_ball_act(&ar->knobs, w) : w;
    }
}

/* The balls of all probabilities (rows, E), followed by scratch for k; *r gets the reference's
 * choice. */
static sb_status probabilities(const sb_gate_case *c, const sb_gate_arith *ar, size_t first,
                               size_t rows, routed *r, sb_ball **out)
{
    sb_status status = choose(c, first, rows, r);
    if (status)
        return status;
    const sb_router_args *a = &r->args;
    sb_ball *p = sb_alloc(a->rows * (a->experts + a->kept), sizeof *p);
    status =
        p ? sb_bound_router(&ar->ar, &ar->knobs, a, p + a->rows * a->experts, p) : SB_ERR_MEMORY;
    *out = p;
    if (status) {
        free(p);
        routed_free(r);
    }
    return status;
}

static sb_status bound(const sb_gate_case *c, float *const in[], const sb_gate_arith *ar,
                       sb_ball *const out[])
{
    (void)in;
    routed r;
    sb_ball *p;
    sb_status status = probabilities(c, ar, 0, shape_of(c).rows, &r, &p);
    if (status)
        return status;
    const sb_router_args *a = &r.args;
    for (size_t row = 0; row < a->rows; row++)
        cover(ar, &r, row, p + row * a->experts, p + a->rows * a->experts,
              out[WEIGHTS] + row * a->kept);
    for (size_t i = 0; i < a->rows * a->kept; i++)
        out[IDS][i] = sb_ball_of((float)r.ids[i]);
    free(p);
    routed_free(&r);
    return SB_OK;
}

static int may_stand(const sb_gate_case *c, const sb_gate_arith *ar, size_t output, size_t i,
                     double got)
{
    const shape s = shape_of(c);
    if (output != IDS || ar->exact || !(got >= 0.0 && got < (double)s.experts) ||
        got != (double)(uint32_t)got)
        return 0;
    routed r;
    sb_ball *p;
    if (probabilities(c, ar, i / s.kept, 1, &r, &p))
        return 0;
    int yes = overlap(p[(uint32_t)got], p[r.ids[i % s.kept]]);
    free(p);
    routed_free(&r);
    return yes;
}

/* V-55: "no expert of the row, and none that is left out, is certainly above an expert that stands
 * before it"
 */
static int stand_together(const sb_gate_case *c, const sb_gate_arith *ar, size_t output,
                          size_t first, const double *got)
{
    const shape s = shape_of(c);
    routed r;
    sb_ball *p;
    for (size_t i = 0; i < s.kept; i++)
        if (!(got[i] >= 0.0 && got[i] < (double)s.experts) || got[i] != (double)(uint32_t)got[i])
            return 0;
    if (output != IDS || probabilities(c, ar, first / s.kept, 1, &r, &p))
        return 0;
    int yes = 1;
    for (size_t i = 0; i < s.kept && yes; i++)
        for (size_t e = 0; e < s.experts && yes; e++) {
            size_t before = 0; /* earlier slots do not count */
            while (before < i && (size_t)got[before] != e)
                before++;
            sb_ball kept = p[(size_t)got[i]];
            yes = before < i || p[e].mid <= kept.mid || overlap(p[e], kept);
        }
    free(p);
    routed_free(&r);
    return yes;
}

const sb_gate_op *sb_gate_op_router(void)
{
    static const sb_gate_op op = {.name = "router",
                                  .clause = "V-54",
                                  .what =
                                      "softmax over the experts; the k largest and their weights",
                                  .params = params,
                                  .param_count = sizeof params / sizeof *params,
                                  .shapes = shapes,
                                  .not_regimes = "subnormal cancellation padding",
                                  .uses = uses,
                                  .use_count = sizeof uses / sizeof *uses,
                                  .check = check,
                                  .list = list,
                                  .adapt = adapt,
                                  .exact = exact,
                                  .real = real,
                                  .bound = bound,
                                  .open = may_stand,
                                  .together = stand_together,
                                  .row_arrays = "logits",
                                  .rows_independent = 1};
    return &op;
}
