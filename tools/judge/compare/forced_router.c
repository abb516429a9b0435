/* forced_router.c - the choice of experts: judged by its margin, then adopted. */
#include "tools/judge/compare/forced_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "tools/judge/bound/bound.h"
#include "tools/judge/bound/wide_fn.h"

typedef struct choice {
    const sb_router_args *a;
    const char *name;       /* the tap of the ids */
    const float *recorded;  /* (T, k) ids as recorded */
    uint32_t *ids;          /* (T, k) the recorded ids as integers */
    sb_ball *p;             /* (T, E) probabilities in the engine's arithmetic */
    sb_ball *ours, *theirs; /* (T, k) weights of the recorded experts */
    int chained;            /* the logits were not recorded */
    uint32_t value;         /* number of the choice among the values of the call */
} choice;

static int chosen(const uint32_t *ids, size_t k, uint32_t id)
{
    for (size_t i = 0; i < k; i++)
        if (ids[i] == id)
            return 1;
    return 0;
}

/* Recorded ids have to be whole numbers below E, each once in a row. Returns the number of valid
 * ids before the first invalid one. */
static size_t read_ids(const sb_router_args *a, const float *recorded, uint32_t *ids)
{
    for (size_t i = 0; i < a->rows * a->kept; i++) {
        float id = recorded[i];
        const uint32_t *row = ids + i / a->kept * a->kept;
        if (!(id >= 0.0f && id < (float)a->experts) || id != (float)(uint32_t)id)
            return i;
        if (chosen(row, i % a->kept, (uint32_t)id))
            return i;
        ids[i] = (uint32_t)id;
    }
    return a->rows * a->kept;
}

/* The difference between the engine's and the reference's choice in one row. */
typedef struct parting {
    size_t strange;        /* number of the engine's experts that the reference did not choose */
    size_t slot;           /* slot of the least probable of them */
    uint32_t missing;      /* the reference's most probable expert that the engine did not choose */
    double apart, allowed; /* difference of their probabilities; and its bound */
} parting;

static double allowed(const sb_ball *p, uint32_t a, uint32_t b)
{
    return SB_BOUND_SLACK * (p[a].rad + p[b].rad);
}

static parting part(const choice *c, size_t row)
{
    size_t k = c->a->kept;
    const uint32_t *ids = c->ids + row * k, *best = c->a->ids + row * k;
    const sb_ball *p = c->p + row * c->a->experts;
    parting at = {.strange = 0};
    for (size_t i = 0; i < k; i++)
        if (!chosen(best, k, ids[i])) {
            at.slot = !at.strange || p[ids[i]].mid < p[ids[at.slot]].mid ? i : at.slot;
            at.strange++;
        }
    int found = 0;
    for (size_t i = 0; i < k && at.strange; i++)
        if (!chosen(ids, k, best[i]) && (!found || p[best[i]].mid > p[at.missing].mid)) {
            at.missing = best[i];
            found = 1;
        }
    if (found) {
        /* a reference with a mistake may choose less probable experts */
        at.apart = sb_wide_abs(p[at.missing].mid - p[ids[at.slot]].mid);
        at.allowed = allowed(p, at.missing, ids[at.slot]);
    }
    return at;
}

/* D-20: "The bound of an id is 0 or, where the arithmetic leaves the choice open, the number of".
 * If the recorded choice is wrong, every expert of its row has a bound of 0. */
static void bound_row(const choice *c, size_t row, double *bound)
{
    size_t k = c->a->kept, E = c->a->experts;
    const uint32_t *ids = c->ids + row * k, *best = c->a->ids + row * k;
    const sb_ball *p = c->p + row * E;
    parting at = part(c, row);
    uint32_t next = (uint32_t)E;
    for (uint32_t e = 0; e < E; e++)
        if (!chosen(best, k, e) && (next == E || p[e].mid > p[next].mid))
            next = e;
    for (size_t i = 0; i < k && at.apart <= at.allowed; i++)
        if (!chosen(ids, k, best[i]) ||
            (next < E && p[best[i]].mid - p[next].mid <= allowed(p, best[i], next)))
            bound[row * k + i] = (double)E;
}

static void bundle(sb_forced *f, const choice *c, const sb_place *place)
{
    size_t count = c->a->rows * c->a->kept;
    double *bound = sb_alloc(count, sizeof *bound);
    for (size_t row = 0; row < c->a->rows && bound && c->p; row++)
        bound_row(c, row, bound);
    f->broken = bound ? forced_bundle_choice(f, place, c->a, c->recorded, bound, &f->why)
                      : sb_fail(&f->why, SB_ERR_MEMORY, "out of memory for a bundle");
    free(bound);
}

static sb_place place_of(const sb_forced *f, const choice *c, size_t row, size_t slot)
{
    size_t at = forced_step_row(f, c->name, row, c->a->rows);
    sb_place place = {.sequence = f->at->id,
                      .token = f->step->rows[at].position,
                      .layer = f->layer,
                      .op = "router",
                      .rank = 1,
                      .element = {slot},
                      .found = (double)c->recorded[row * c->a->kept + slot]};
    snprintf(place.name, sizeof place.name, "%s", c->name);
    return place;
}

/* Fails element `at`, which is no expert or is twice in its row. */
static void fail_id(sb_forced *f, const choice *c, size_t at)
{
    const sb_router_args *a = c->a;
    size_t row = at / a->kept, slot = at % a->kept;
    sb_place place = place_of(f, c, row, slot);
    int twice = place.found >= 0 && place.found < (double)a->experts &&
                chosen(c->ids + row * a->kept, slot, (uint32_t)place.found);
    place.expected = (double)a->ids[at];
    forced_failing(f, &place, SB_OP_router, f->layer, (const uint64_t[2]){0, 0}, 0, 0);
    snprintf(place.words, sizeof place.words, "%s: sequence %u, token %llu, slot %zu is %.9g: %s",
             c->name, (unsigned)place.sequence, (unsigned long long)place.token, slot, place.found,
             twice ? "the row already contains this expert" : "the model has no such expert");
    int first = forced_fail(f, &place, forced_step_row(f, c->name, row, a->rows), 0x1p1000);
    if (first && f->options.bundle && !f->broken)
        bundle(f, c, &place);
}

static void fail_row(sb_forced *f, const choice *c, size_t row, const parting *p, uint32_t found)
{
    size_t at = forced_step_row(f, c->name, row, c->a->rows);
    sb_place place = place_of(f, c, row, p->slot);
    place.expected = (double)p->missing;
    place.bound = p->allowed;
    forced_failing(f, &place, SB_OP_router, f->layer, (const uint64_t[2]){0, 0}, 0, 0);
    snprintf(place.words, sizeof place.words,
             "%s: sequence %u, token %llu, slot %zu is expert %u, expected %u, whose probability "
             "is %.3g larger; the arithmetic allows %.3g",
             c->name, (unsigned)place.sequence, (unsigned long long)place.token, p->slot,
             (unsigned)found, (unsigned)p->missing, p->apart, p->allowed);
    int first = forced_fail(f, &place, at, p->allowed > 0.0 ? p->apart / p->allowed : 0x1p1000);
    if (first && f->options.bundle && !f->broken)
        bundle(f, c, &place);
}

/* T-14: "a choice is open where the balls of the probabilities overlap": those of the least
 * probable recorded expert and of the most probable other expert. The engine may use any order of
 * the slots. */
static void judge_row(sb_forced *f, const choice *c, size_t row)
{
    size_t k = c->a->kept;
    sb_op_verdict *v = &f->options.verdicts->ops[SB_OP_router];
    parting at = part(c, row);
    v->compared += k;
    v->identical += k - at.strange;
    for (size_t i = 0; i < k; i++)
        forced_count_value(&f->counts[SB_OP_router], (float)c->ids[row * k + i]);
    if (!at.strange)
        return;
    if (at.apart <= at.allowed) {
        v->near_ties++;
        f->options.verdicts->near_ties++;
        return;
    }
    v->worst = sb_wide_max(v->worst, at.allowed > 0.0 ? at.apart / at.allowed : 0x1p1000);
    fail_row(f, c, row, &at, c->ids[row * k + at.slot]);
}

/* Adopts the recorded experts. If the reference chose the same experts, their weights are the
 * reference's own; else they are the centres of the weights' balls. */
static void adopt_row(const choice *c, size_t row)
{
    size_t k = c->a->kept;
    uint32_t *ids = c->a->ids + row * k;
    float *weights = c->a->weights + row * k;
    int same = 1;
    for (size_t i = 0; i < k; i++)
        same = same && chosen(ids, k, c->ids[row * k + i]);
    for (size_t i = 0; i < k && same; i++) {
        size_t j = i;
        while (ids[j] != c->ids[row * k + i])
            j++;
        uint32_t id = ids[j];
        float weight = weights[j];
        ids[j] = ids[i], weights[j] = weights[i];
        ids[i] = id, weights[i] = weight;
    }
    for (size_t i = 0; i < k && !same; i++) {
        ids[i] = c->ids[row * k + i];
        weights[i] = (float)c->ours[row * k + i].mid;
    }
}

static sb_status bound_choice(sb_forced *f, const sb_op_call *call, choice *c)
{
    sb_router_args args = *c->a;
    const sb_arithmetic *const sides[2] = {&sb_arithmetic_reference, f->options.arithmetic};
    size_t count = args.rows * args.experts;
    sb_ball *logits = c->chained ? sb_alloc(count, sizeof *logits) : NULL;
    sb_status status = c->chained && !logits ? SB_ERR_MEMORY : SB_OK;
    args.ids = c->ids;
    for (int i = 0; i < 2 && !status; i++) {
        const sb_ball *const in[SB_OP_INPUTS] = {logits};
        if (logits)
            sb_known_balls(&f->known, args.logits, count, i, logits);
        status = sb_bound_router_in(sides[i], call->knobs, &args, in, i ? c->theirs : c->ours,
                                    i ? c->p : NULL);
    }
    free(logits);
    return status;
}

static sb_status make_weights(sb_forced *f, const sb_op_call *call, choice *c)
{
    sb_known made = {.base = c->a->weights,
                     .count = c->a->rows * c->a->kept,
                     .kind = c->ours ? SB_KNOWN_balls : SB_KNOWN_not,
                     .op = SB_OP_router,
                     .layer = call->layer,
                     .name = call->name,
                     .ours = c->ours,
                     .theirs = c->theirs,
                     .value = SB_NO_VALUE,
                     .chained = c->chained,
                     .bias = sb_bias_rule_of(f->options.arithmetic, call)};
    c->ours = c->theirs = NULL;
    sb_status status = forced_trace_back(f, call, &made);
    sb_status one = sb_known_make(&f->known, &made);
    return status ? status : one;
}

void forced_tap_name(const sb_forced *f, const sb_op_call *call, char *name, size_t size)
{
    uint32_t trunk = f->model->config.layers;
    if (call->layer == SB_NO_LAYER)
        snprintf(name, size, "%s", call->name);
    else if (call->layer >= trunk)
        snprintf(name, size, "mtp.layers.%u.%s", (unsigned)(call->layer - trunk), call->name);
    else
        snprintf(name, size, "layers.%u.%s", (unsigned)call->layer, call->name);
}

/* Computes bounds and judges if the logits are known; then adopts the recorded choice. */
static sb_status judge_choice(sb_forced *f, const sb_op_call *call, choice *c)
{
    const sb_router_args *a = c->a;
    sb_status status = SB_OK;
    sb_knowledge kind = sb_known_of(&f->known, a->logits, a->rows * a->experts);
    int known = kind != SB_KNOWN_not;
    c->chained = kind == SB_KNOWN_balls;
    if (known) {
        c->p = sb_alloc(a->rows * a->experts, sizeof *c->p);
        c->ours = sb_alloc(a->rows * a->kept, sizeof *c->ours);
        c->theirs = sb_alloc(a->rows * a->kept, sizeof *c->theirs);
        status = c->p && c->ours && c->theirs ? bound_choice(f, call, c) : SB_ERR_MEMORY;
    }
    if (c->chained && !status && forced_too_wide(c->p, c->p, a->rows * a->experts)) {
        free(c->ours);
        free(c->theirs);
        c->ours = c->theirs = NULL;
        known = 0;
    }
    const int judged = known && !f->replay && forced_is_judged(f, SB_OP_router, call->layer);
    if (judged)
        forced_set_way(f, c->value, c->chained ? SB_WAY_inside : SB_WAY_alone);
    for (size_t row = 0; row < a->rows && judged && !status; row++)
        judge_row(f, c, row);
    for (size_t row = 0; row < a->rows && !status; row++)
        if (known)
            adopt_row(c, row);
        else
            memcpy(a->ids + row * a->kept, c->ids + row * a->kept, a->kept * sizeof *a->ids);
    return status;
}

sb_status forced_route(sb_forced *f, const sb_op_call *call)
{
    const sb_router_args *a = call->args;
    char name[96];
    forced_tap_name(f, call, name, sizeof name);
    choice c = {.a = a, .name = name, .ids = sb_alloc(a->rows * a->kept, sizeof *c.ids)};
    sb_status status = c.ids ? forced_run(f, call) : SB_ERR_MEMORY;
    const float *recorded = forced_recorded(f, name, a->rows, a->kept);
    c.recorded = recorded;
    size_t read = !status && recorded ? read_ids(a, recorded, c.ids) : 0;
    f->experts = read == a->rows * a->kept;
    if (!status && !f->replay)
        status = forced_add_value(f, name, SB_OP_router, call->layer, SB_WAY_not, &c.value);
    if (!status && f->experts)
        status = judge_choice(f, call, &c);
    else if (!status && recorded && !f->replay)
        fail_id(f, &c, read);
    else if (!recorded && !f->replay)
        f->options.verdicts->skipped_taps++;
    if (!status)
        status = make_weights(f, call, &c);
    free(c.ids);
    free(c.p);
    free(c.ours);
    free(c.theirs);
    return status;
}
