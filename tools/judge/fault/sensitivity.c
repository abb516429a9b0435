#include "tools/judge/fault/sensitivity.h"

#include <stdio.h>
#include <string.h>

#include "ref/base/rng.h"

const double sb_sensitivity_steps[SB_SENSITIVITY_STEPS] = {0.5, 1, 1.5, 2, 5, 10, 100};

static const struct {
    const char *op, *tap;
    uint32_t layer;
    const char *setting;
} taps[] = {
    {"embed", "embed", SB_NO_LAYER, ""},
    {"linear", "layers.2.linear_attn.in_proj_qkv", 2, ""},
    {"rmsnorm", "layers.2.input_layernorm", 2, ""},
    {"conv", "layers.2.linear_attn.conv", 2, ""},
    {"gates", "layers.2.linear_attn.g", 2, ""},
    {"l2norm", "layers.2.linear_attn.q", 2, ""},
    {"rope", "layers.3.self_attn.q_rope", 3, ""},
    {"delta_rule", "layers.2.linear_attn.core_out", 2, ""},
    {"delta_rule_chunk", "layers.2.linear_attn.core_out", 2, "delta_rule=chunk64"},
    {"gated_rmsnorm", "layers.2.linear_attn.norm", 2, ""},
    {"attention", "layers.3.self_attn.core_out", 3, ""},
    {"split_gate", "layers.3.self_attn.query", 3, ""},
    {"attn_gate", "layers.3.self_attn.gated", 3, ""},
    {"router", "layers.2.mlp.router_weights", 2, ""},
    {"swiglu", "layers.2.mlp.experts.swiglu", 2, ""},
    {"moe_combine", "layers.2.mlp.out", 2, ""},
    {"add", "layers.2.output", 2, ""},
};

enum { FIRST = 6, DECODE = 2 }; /* rows of the first call; decode steps */

/* An element to be changed in a tap. */
typedef struct mover {
    const char *tap;
    size_t row, element; /* in the first call, where the row is the token's position */
    uint64_t draw;       /* random number that selects the element once cols is known */
    double value;
    int add, done;
} mover;

static sb_status move(void *ctx, const char *name, float *data, size_t rows, size_t cols,
                      sb_error *err)
{
    mover *m = ctx;
    (void)err;
    if (m->done || strcmp(name, m->tap) != 0 || rows <= m->row)
        return SB_OK;
    m->done = 1;
    m->element = (size_t)(m->draw % cols);
    float *at = &data[m->row * cols + m->element];
    *at = (float)(m->add ? (double)*at + m->value : m->value);
    return SB_OK;
}

/* True if the first failure names the element. */
static int is_named(const sb_verdicts *v, size_t i, const mover *m)
{
    const sb_place *p = &v->first_failure;
    return v->has_failure && p->token == m->row && p->layer == taps[i].layer &&
           strcmp(p->op, taps[i].op) == 0 && strcmp(p->name, taps[i].tap) == 0 && p->rank > 0 &&
           p->element[p->rank - 1] == m->element;
}

static sb_status try_mover(sb_trial *t, mover *m, sb_outcome *out, sb_error *err)
{
    m->done = 0;
    t->tap = move;
    t->tap_ctx = m;
    return sb_trial_run(t, out, err);
}

/* First plants a large fault, whose finding gives the expected value and the bound. Then moves the
 * element by each multiple of the bound. */
static sb_status one_element(sb_trial *t, size_t i, mover m, sb_sensitivity *out, sb_error *err)
{
    sb_outcome o;
    m.value = 1;
    m.add = 1;
    sb_status status = try_mover(t, &m, &o, err);
    int seen = !status && is_named(&o.forced, i, &m);
    sb_place place = o.forced.first_failure;
    sb_outcome_clear(&o);
    if (status)
        return status;
    out->elements++;
    if (!seen)
        return SB_OK; /* not named at any size, as the counts show */
    out->bound = place.bound > out->bound ? place.bound : out->bound;
    if (place.bound <= 0) {
        out->exact++;
        return SB_OK;
    }
    m.add = 0;
    for (size_t step = 0; step < SB_SENSITIVITY_STEPS && !status; step++) {
        m.value = place.expected + sb_sensitivity_steps[step] * place.bound;
        status = try_mover(t, &m, &o, err);
        out->named[step] += !status && is_named(&o.forced, i, &m);
        sb_outcome_clear(&o);
    }
    return status;
}

sb_status sb_sensitivity_of(sb_campaign *c, size_t i, size_t elements, uint64_t seed,
                            sb_sensitivity *out, int *more, sb_error *err)
{
    *out = (sb_sensitivity){.elements = 0};
    *more = i < sizeof taps / sizeof *taps;
    if (!*more)
        return SB_OK;
    *out = (sb_sensitivity){.op = taps[i].op, .tap = taps[i].tap};
    sb_trial t = {.script = {.prompt = FIRST + FIRST / 2, .decode = DECODE, .sequences = 1},
                  .with_forced = 1,
                  .seed = seed};
    sb_status status = sb_campaign_model(c, "T1:4 bf16 mistakes", &t.reference, err);
    sb_knobs_exact(&t.knobs);
    if (!status && *taps[i].setting)
        status = sb_knobs_set(&t.knobs, taps[i].setting, err);
    t.engine_knobs = t.knobs;
    if (!status)
        status = sb_sim_find("sequential", &t.sim, err);
    uint64_t key = sb_rng_key(seed, taps[i].op);
    for (size_t e = 0; e < elements && !status; e++)
        status = one_element(&t, i,
                             (mover){.tap = taps[i].tap,
                                     .row = 1 + sb_rng_below(key, 2 * e, FIRST - 1),
                                     .draw = sb_rng_u64(key, 2 * e + 1) >> 8},
                             out, err);
    return status;
}
