/* envelope_router.c - the experts of a sequence: its own, the reference's, or another program's. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/rng.h"
#include "ref/base/root.h"
#include "ref/ops/knob.h"
#include "tools/judge/compare/envelope_parts.h"

static int among(const uint32_t *ids, size_t k, uint32_t id)
{
    for (size_t i = 0; i < k; i++)
        if (ids[i] == id)
            return 1;
    return 0;
}

static int same_set(const uint32_t *a, const uint32_t *b, size_t k)
{
    for (size_t i = 0; i < k; i++)
        if (!among(b, k, a[i]))
            return 0;
    return 1;
}

static int is_set(const uint32_t *ids, size_t k, size_t experts)
{
    for (size_t i = 0; i < k; i++)
        if (ids[i] >= experts || among(ids, i, ids[i]))
            return 0;
    return 1;
}

/* The weights of R-15 for a given set of experts, from the probabilities of all experts. */
static sb_status weigh(const sb_envelope *e, const sb_op_call *call, size_t row,
                       const uint32_t *ids)
{
    const sb_router_args *a = call->args;
    size_t E = a->experts, k = a->kept;
    uint32_t *order = sb_alloc(E, sizeof *order);
    float *p = sb_alloc(2 * E, sizeof *p), *weights = a->weights + row * k;
    sb_knobs knobs = *call->knobs;
    sb_router_args all = {.logits = a->logits + row * E,
                          .rows = 1,
                          .experts = E,
                          .kept = E,
                          .ids = order,
                          .weights = p};
    sb_op_call one = *call;
    sb_status status = order && p ? SB_OK : SB_ERR_MEMORY;
    knobs.value[SB_KNOB_router_weight] = SB_router_weight_f32;
    one.args = &all;
    one.knobs = &knobs;
    if (!status)
        status = sb_envelope_run(e, &one);
    double total = 0;
    for (size_t i = 0; i < E && !status; i++)
        p[E + order[i]] = p[i];
    for (size_t i = 0; i < k && !status; i++)
        total += (double)p[E + ids[i]];
    for (size_t i = 0; i < k && !status; i++) {
        float w = a->renormalise ? p[E + ids[i]] / (float)total : p[E + ids[i]];
        a->ids[row * k + i] = ids[i];
        weights[i] = SB_IS(call->knobs, router_weight, act) ? sb_act(call->knobs, w) : w;
    }
    free(order);
    free(p);
    return status;
}

/* T-43: "The margin of a choice of experts is the largest logit of an expert that only one side
 * has, less the smallest logit of an expert that only the other side has" */
static double margin_of(const float *logits, const uint32_t *ours, const uint32_t *theirs, size_t k,
                        sb_adopted *out)
{
    double most = -INFINITY, least = INFINITY;
    for (size_t i = 0; i < k; i++) {
        if (!among(theirs, k, ours[i]) && (double)logits[ours[i]] > most) {
            most = (double)logits[ours[i]];
            out->ours = ours[i];
        }
        if (!among(ours, k, theirs[i]) && (double)logits[theirs[i]] < least) {
            least = (double)logits[theirs[i]];
            out->theirs = theirs[i];
        }
    }
    return most - least;
}

static sb_status note(sb_envelope *e, const sb_adopted *adopted)
{
    sb_adopted *list = sb_grow(e->adopted, e->adopted_count, &e->adopted_room, sizeof *list);
    if (!list)
        return SB_ERR_MEMORY;
    e->adopted = list;
    e->adopted[e->adopted_count++] = *adopted;
    return SB_OK;
}

/* Replaces the reference's experts by another program's. */
static sb_status adopt_row(sb_envelope *e, const sb_op_call *call, size_t row)
{
    const sb_router_args *a = call->args;
    size_t k = a->kept;
    uint32_t *ours = a->ids + row * k, *theirs = sb_alloc(k, sizeof *theirs);
    sb_adopted found = {.layer = call->layer, .row = row};
    sb_status status = theirs ? SB_OK : SB_ERR_MEMORY;
    if (!status && e->source(e->source_ctx, call->layer, row, theirs, k)) {
        if (!is_set(theirs, k, a->experts)) {
            found.margin = INFINITY;
            status = note(e, &found);
        } else if (!same_set(ours, theirs, k)) {
            found.margin = margin_of(a->logits + row * a->experts, ours, theirs, k, &found);
            status = note(e, &found);
            if (!status)
                status = weigh(e, call, row, theirs);
        }
    }
    free(theirs);
    return status;
}

static uint32_t *ids_on_record(const sb_envelope *e, const sb_op_call *call, size_t row)
{
    const sb_router_args *a = call->args;
    return e->ids + ((size_t)call->layer * e->rows + row) * a->kept;
}

static sb_status route_reference(sb_envelope *e, const sb_op_call *call)
{
    const sb_router_args *a = call->args;
    int trunk = call->layer < e->model->config.layers;
    sb_status status = sb_envelope_run(e, call);
    for (size_t row = 0; row < a->rows && !status; row++) {
        uint32_t *held = ids_on_record(e, call, row);
        if (trunk && e->replaying && !same_set(held, a->ids + row * a->kept, a->kept))
            status = weigh(e, call, row, held);
        else if (trunk && !e->replaying && e->source)
            status = adopt_row(e, call, row);
        memcpy(held, a->ids + row * a->kept, a->kept * sizeof *held);
    }
    memcpy(e->router + (size_t)call->layer * e->rows * a->experts, a->logits,
           a->rows * a->experts * sizeof *a->logits);
    return status;
}

/* The best expert outside the set; *weakest is the slot of the worst expert in it. */
static uint32_t runner_up(const float *logits, size_t E, const uint32_t *set, size_t k,
                          size_t *weakest)
{
    uint32_t best = UINT32_MAX;
    *weakest = 0;
    for (size_t i = 1; i < k; i++)
        if (logits[set[i]] < logits[set[*weakest]])
            *weakest = i;
    for (uint32_t i = 0; i < E; i++)
        if (!among(set, k, i) && (best == UINT32_MAX || logits[i] > logits[best]))
            best = i;
    return best;
}

double sb_envelope_router_bound(const sb_envelope *e, uint32_t layer, size_t row)
{
    double squares[2] = {0}, lanes[2] = {0};
    for (size_t j = 1; j < e->count; j++) {
        int loose = !sb_envelope_is_tight(e, j);
        squares[loose] += e->lanes[j].spread[(size_t)layer * e->rows + row];
        lanes[loose]++;
    }
    for (int loose = 0; loose < 2; loose++)
        squares[loose] /= lanes[loose] > 0 ? lanes[loose] : 1;
    const double most = sb_envelope_loose(e, squares[0], squares[1]);
    return e->factor * sb_sqrt64(2 * most / e->model->config.experts);
}

/* The smallest margin of another choice: *other replaces the expert in slot *weakest of `held`.
 * Returns 0 if all experts are held. */
static int least_margin(const sb_envelope *e, const uint32_t *held, const float *logits,
                        double *margin, size_t *weakest, uint32_t *other)
{
    size_t k = e->model->config.experts_per_token, E = e->model->config.experts;
    if (k >= E)
        return 0;
    *other = runner_up(logits, E, held, k, weakest);
    *margin = (double)logits[held[*weakest]] - (double)logits[*other];
    return 1;
}

int sb_envelope_find_open(sb_envelope *e, size_t rows)
{
    const sb_config *c = &e->model->config;
    int any = 0;
    for (uint32_t layer = 0; layer < c->layers; layer++)
        for (size_t row = 0; row < rows && sb_config_layer_experts(c, layer); row++) {
            size_t at = (size_t)layer * e->rows + row, weakest;
            double margin;
            uint32_t other;
            e->open[at] = least_margin(e, e->ids + at * c->experts_per_token,
                                       e->router + at * c->experts, &margin, &weakest, &other) &&
                          margin <= sb_envelope_router_bound(e, layer, row);
            any |= e->open[at];
        }
    return any;
}

/* T-43: "Each other run takes the runner-up in every second open case, the next such run in the
 * remaining cases; a single such run takes it in all cases"; T-85: "the runner-up in all open
 * choices" if the engine fed the row again. */
static void choose_row(sb_envelope_lane *lane, const sb_op_call *call, size_t row, double squares,
                       uint32_t *ids)
{
    const sb_envelope *e = lane->of;
    const sb_router_args *a = call->args;
    size_t k = a->kept, at = (size_t)call->layer * e->rows + row, weakest = 0;
    const uint32_t *held = ids_on_record(e, call, row), *own = a->ids + row * k;
    uint32_t other;
    double margin;
    int trunk = call->layer < e->model->config.layers;
    int anew = trunk && e->replaying && e->anew && lane->number % 2 == 0;
    memcpy(ids, held, k * sizeof *ids);
    if (trunk && sb_envelope_keeps_experts(e, lane->number) && !anew)
        return;
    if (!least_margin(e, held, e->router + at * a->experts, &margin, &weakest, &other))
        return;
    int was_open = anew && e->open[at];
    if (!was_open && margin > e->factor * sb_sqrt64(2 * squares / (double)a->experts))
        return;
    if (!same_set(own, held, k))
        memcpy(ids, own, k * sizeof *ids);
    else if (anew ? was_open : sb_envelope_takes(lane, "open choices", at))
        ids[weakest] = other;
    lane->strayed |= trunk && !same_set(ids, held, k);
}

static sb_status route_other(sb_envelope_lane *lane, const sb_op_call *call)
{
    sb_envelope *e = lane->of;
    const sb_router_args *a = call->args;
    size_t k = a->kept, E = a->experts;
    sb_status status = sb_envelope_run(e, call);
    for (size_t row = 0; row < a->rows && !status; row++) {
        size_t at = (size_t)call->layer * e->rows + row;
        double squares = 0;
        for (size_t i = 0; i < E; i++) {
            double d = (double)a->logits[row * E + i] - (double)e->router[at * E + i];
            squares += d * d;
        }
        lane->spread[at] = squares;
        choose_row(lane, call, row, squares, lane->ids + row * k);
        status = weigh(e, call, row, lane->ids + row * k);
        sb_envelope_move(e, sb_envelope_key(lane), a->weights + row * k, 1, k, k);
    }
    return status;
}

sb_status sb_envelope_route(sb_envelope_lane *lane, const sb_op_call *call)
{
    return lane->number ? route_other(lane, call) : route_reference(lane->of, call);
}
