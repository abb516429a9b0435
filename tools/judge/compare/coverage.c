#include "tools/judge/compare/coverage.h"

#include <stdio.h>
#include <stdlib.h>

#include "ref/base/mem.h"
#include "ref/ops/op.h"
#include "ref/ops/param.h"

enum { CHUNK = 64 };

static const struct {
    const char *name, *words, *unit;
} regimes[] = {
#define SB_REGIME(name, words, unit) {#name, words, unit},
#include "tools/judge/compare/regimes.def"
#undef SB_REGIME
};

const char *sb_regime_name(sb_regime regime)
{
    return regimes[regime].name;
}

const char *sb_regime_words(sb_regime regime)
{
    return regimes[regime].words;
}

const char *sb_regime_unit(sb_regime regime)
{
    return regimes[regime].unit;
}

int sb_coverage_begin(sb_coverage *c, const sb_config *config)
{
    *c = (sb_coverage){.layers = config->layers + 1, .experts = config->experts};
    c->routed = sb_alloc((size_t)c->layers * c->experts + 1, 1);
    return c->routed != NULL;
}

void sb_coverage_free(sb_coverage *c)
{
    free(c->routed);
    *c = (sb_coverage){0};
}

/* --- what ops reach --------------------------------------------------------------------------- */

/* 1 if an expert that was not chosen has the logit of the last one that was. */
static int is_tie(const float *logits, const uint32_t *ids, size_t kept, size_t experts)
{
    float least = logits[ids[0]];
    size_t equal = 0, chosen = 0;
    for (size_t i = 1; i < kept; i++)
        least = logits[ids[i]] < least ? logits[ids[i]] : least;
    for (size_t i = 0; i < kept; i++)
        chosen += logits[ids[i]] == least;
    for (size_t e = 0; e < experts; e++)
        equal += logits[e] == least;
    return equal > chosen;
}

static void see_router(sb_coverage *c, const sb_op_call *call)
{
    const sb_router_args *a = call->args;
    if (call->layer >= c->layers || a->experts != c->experts)
        return;
    unsigned char *routed = c->routed + (size_t)call->layer * c->experts;
    for (size_t row = 0; row < a->rows; row++) {
        const uint32_t *ids = a->ids + row * a->kept;
        for (size_t i = 0; i < a->kept; i++)
            routed[ids[i]] = 1;
        c->reached[SB_REGIME_ties] +=
            (uint64_t)is_tie(a->logits + row * a->experts, ids, a->kept, a->experts);
    }
}

static void see_gates(sb_coverage *c, const sb_op_call *call)
{
    const sb_gates_args *a = call->args;
    const float small = 0x1p-8f, log_small = -5.5451775f; /* log(2^-8) */
    c->has_gates = 1;
    for (size_t t = 0; t < a->rows; t++)
        for (size_t h = 0; h < a->heads; h++) {
            size_t at = t * a->heads + h;
            float x = a->a[at] + sb_param_at(call->knobs, a->dt_bias, 0, h);
            c->reached[SB_REGIME_softplus] += x > 20.0f;
            c->reached[SB_REGIME_beta_low] += a->beta[at] < small;
            c->reached[SB_REGIME_beta_high] += a->beta[at] > 1.0f - small;
            c->reached[SB_REGIME_decay] += a->g[at] < log_small;
        }
    if (a->rows && !call->single)
        c->reached[SB_REGIME_chunk] += (a->rows - 1) / CHUNK;
}

void sb_coverage_op(sb_coverage *c, const sb_op_call *call)
{
    uint64_t last = call->position + call->rows - 1;
    if (call->layer + 1 < c->layers && call->rows && last > c->reached[SB_REGIME_position])
        c->reached[SB_REGIME_position] = last;
    if (call->op == SB_OP_router)
        see_router(c, call);
    else if (call->op == SB_OP_gates)
        see_gates(c, call);
}

void sb_coverage_round(sb_coverage *c, size_t drafted, size_t accepted)
{
    if (!drafted || accepted > SB_MAX_DRAFTS)
        return;
    c->drafted = drafted > c->drafted ? drafted : c->drafted;
    c->accepted[accepted] = 1;
    c->reached[SB_REGIME_rejected] += accepted < drafted;
}

/* --- the answer ------------------------------------------------------------------------------- */

static size_t count_of(const unsigned char *marks, size_t count)
{
    size_t marked = 0;
    for (size_t i = 0; i < count; i++)
        marked += marks[i];
    return marked;
}

/* Counts the routed experts of the layers whose router ran, and names the layer that lacks the
 * most. */
static void experts_of(const sb_coverage *c, sb_regime_seen *out)
{
    size_t most = 0;
    uint32_t at = 0;
    for (uint32_t layer = 0; layer < c->layers; layer++) {
        size_t has = count_of(c->routed + (size_t)layer * c->experts, c->experts);
        if (!has)
            continue;
        out->reached += has;
        out->of += c->experts;
        if (c->experts - has > most)
            most = c->experts - has, at = layer;
    }
    out->applies = out->of > 0;
    if (most && at + 1 == c->layers)
        snprintf(out->detail, sizeof out->detail, "mtp.0 lacks %u of %u", (unsigned)most,
                 (unsigned)c->experts);
    else if (most)
        snprintf(out->detail, sizeof out->detail, "layer %u lacks %u of %u", (unsigned)at,
                 (unsigned)most, (unsigned)c->experts);
}

static void accepted_of(const sb_coverage *c, sb_regime_seen *out)
{
    size_t used = 0;
    out->of = c->drafted + 1;
    out->reached = count_of(c->accepted, SB_MAX_DRAFTS + 1);
    for (size_t i = 0; i <= c->drafted && used < sizeof out->detail; i++)
        if (!c->accepted[i]) {
            int n = snprintf(out->detail + used, sizeof out->detail - used, "%s%zu",
                             used ? ", " : "no round accepted ", i);
            used += n > 0 ? (size_t)n : sizeof out->detail;
        }
}

sb_regime_seen sb_coverage_seen(const sb_coverage *c, sb_regime regime)
{
    sb_regime_seen out = {.applies = 1, .reached = c->reached[regime]};
    switch (regime) {
    case SB_REGIME_experts:
        experts_of(c, &out);
        break;
    case SB_REGIME_ties:
        out.applies = count_of(c->routed, (size_t)c->layers * c->experts) > 0;
        break;
    case SB_REGIME_accepted:
        accepted_of(c, &out);
        out.applies = c->drafted > 0;
        break;
    case SB_REGIME_rejected:
        out.applies = c->drafted > 0;
        break;
    case SB_REGIME_position:
        break;
    default:
        out.applies = c->has_gates;
    }
    return out;
}

int sb_regime_missed(const sb_regime_seen *seen)
{
    return seen->applies && (!seen->reached || seen->reached < seen->of);
}

size_t sb_coverage_add(sb_coverage *c, const sb_coverage *other)
{
    size_t added = 0;
    for (size_t i = 0; i < (size_t)c->layers * c->experts; i++) {
        added += other->routed[i] && !c->routed[i];
        c->routed[i] |= other->routed[i];
    }
    for (size_t i = 0; i <= SB_MAX_DRAFTS; i++) {
        added += other->accepted[i] && !c->accepted[i];
        c->accepted[i] |= other->accepted[i];
    }
    for (int r = 0; r < SB_REGIMES; r++) {
        added += other->reached[r] && !c->reached[r] && r != SB_REGIME_position;
        if (r != SB_REGIME_position)
            c->reached[r] += other->reached[r];
        else if (other->reached[r] > c->reached[r])
            c->reached[r] = other->reached[r];
    }
    c->drafted = other->drafted > c->drafted ? other->drafted : c->drafted;
    c->has_gates |= other->has_gates;
    return added;
}
