#include "tools/judge/compare/verdict.h"

#include <float.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"

const char *sb_verdict_name(sb_verdict verdict)
{
    /* none is reported as SKIPPED: not compared */
    static const char *const names[] = {"SKIPPED",   "IDENTICAL", "WITHIN",     "NEAR_TIE",
                                        "INHERITED", "SKIPPED",   "MISTRUSTED", "FAIL"};
    return names[verdict];
}

sb_verdict sb_verdict_worse(sb_verdict a, sb_verdict b)
{
    return a > b ? a : b;
}

const char *sb_state_part_name(sb_state_part part)
{
    static const char *const names[] = {"kv", "conv", "recurrent", "mtp"};
    return names[part];
}

void sb_verdicts_free(sb_verdicts *verdicts)
{
    free(verdicts->tokens);
    free(verdicts->rounds);
    free(verdicts->hits);
    free(verdicts->taps);
    free(verdicts->hidden);
    free(verdicts->failing);
    free(verdicts->cells.worst);
    sb_coverage_free(&verdicts->coverage);
    *verdicts = (sb_verdicts){0};
}

sb_token_verdict *sb_verdicts_token(sb_verdicts *v)
{
    sb_token_verdict *tokens = sb_grow(v->tokens, v->token_count, &v->token_room, sizeof *tokens);
    if (!tokens)
        return NULL;
    v->tokens = tokens;
    v->tokens[v->token_count] = (sb_token_verdict){0};
    return &v->tokens[v->token_count++];
}

sb_round_verdict *sb_verdicts_round(sb_verdicts *v)
{
    sb_round_verdict *rounds = sb_grow(v->rounds, v->round_count, &v->round_room, sizeof *rounds);
    if (!rounds)
        return NULL;
    v->rounds = rounds;
    v->rounds[v->round_count] = (sb_round_verdict){0};
    return &v->rounds[v->round_count++];
}

sb_hit_verdict *sb_verdicts_hit(sb_verdicts *v)
{
    sb_hit_verdict *hits = sb_grow(v->hits, v->hit_count, &v->hit_room, sizeof *hits);
    if (!hits)
        return NULL;
    v->hits = hits;
    v->hits[v->hit_count] = (sb_hit_verdict){0};
    return &v->hits[v->hit_count++];
}

sb_hit_verdict *sb_verdicts_hit_of(const sb_verdicts *v, uint32_t sequence)
{
    for (size_t i = v->hit_count; i-- > 0;)
        if (v->hits[i].sequence == sequence)
            return &v->hits[i];
    return NULL;
}

void sb_verdicts_name_parent(const sb_verdicts *v, sb_place *place)
{
    const sb_hit_verdict *hit = sb_verdicts_hit_of(v, place->sequence);
    size_t used = strlen(place->words);
    if (hit)
        snprintf(place->words + used, sizeof place->words - used,
                 "; sequence %u continues sequence %u at position %" PRIu64,
                 (unsigned)hit->sequence, (unsigned)hit->parent, hit->position);
}

void sb_verdicts_reason(sb_verdicts *v, uint32_t layers)
{
    const sb_place *p = &v->first_failure;
    char token[40], layer[24] = "", sequence[32] = "";
    snprintf(token, sizeof token, "token %" PRIu64, p->token);
    if (p->layer < layers)
        snprintf(layer, sizeof layer, ", layer %u", (unsigned)p->layer);
    else if (p->layer == layers)
        snprintf(layer, sizeof layer, ", mtp.0");
    else if (p->layer == layers + 1)
        snprintf(layer, sizeof layer, ", drafter.0");
    if (p->sequence)
        snprintf(sequence, sizeof sequence, "sequence %u, ", (unsigned)p->sequence);
    if (strstr(p->words, token))
        snprintf(v->reason, sizeof v->reason, "%s", p->words);
    else
        snprintf(v->reason, sizeof v->reason, "%s%s%s: %.*s", sequence, token, layer,
                 SB_WORDS - 110, p->words);
}

static void count_way(sb_judged *values, sb_way way)
{
    values->alone += way == SB_WAY_alone;
    values->inside += way == SB_WAY_inside;
    values->not_judged += way == SB_WAY_not;
}

int sb_verdicts_count(sb_verdicts *v, const char *name, const char *where, sb_op op, sb_way way)
{
    size_t i = 0;
    while (i < v->tap_count &&
           (strcmp(v->taps[i].name, name) != 0 || strcmp(v->taps[i].where, where) != 0))
        i++;
    if (i == v->tap_count) {
        sb_tap_judged *taps = sb_grow(v->taps, v->tap_count, &v->tap_room, sizeof *taps);
        if (!taps)
            return 0;
        v->taps = taps;
        taps[i] = (sb_tap_judged){.where = where, .op = op};
        snprintf(taps[i].name, sizeof taps[i].name, "%s", name);
        v->tap_count++;
    }
    count_way(&v->taps[i].values, way);
    count_way(&v->ops[op].values, way);
    return 1;
}

sb_verdict sb_hidden_judged(const sb_hidden_verdict *h)
{
    if (h->worst > 1.0)
        return SB_VERDICT_FAIL;
    if (h->wide == h->rows)
        return SB_VERDICT_SKIPPED;
    return h->worst > 0.0 ? SB_VERDICT_WITHIN : SB_VERDICT_IDENTICAL;
}

int sb_verdicts_hidden(sb_verdicts *v, size_t count)
{
    if (!v->hidden)
        v->hidden = sb_alloc(count, sizeof *v->hidden);
    v->hidden_count = v->hidden ? count : 0;
    return v->hidden != NULL;
}

sb_judged sb_verdicts_judged(const sb_verdicts *v)
{
    sb_judged all = {0};
    for (size_t op = 0; op < SB_OP_COUNT; op++) {
        all.alone += v->ops[op].values.alone;
        all.inside += v->ops[op].values.inside;
        all.not_judged += v->ops[op].values.not_judged;
    }
    return all;
}

int sb_cells_rows(sb_cells *c, uint32_t layers, size_t rows)
{
    c->layers = (size_t)layers + 2;
    if (rows > c->room) {
        size_t room = 2 * c->rows > rows ? 2 * c->rows : rows;
        float *worst = room <= SIZE_MAX / c->layers
                           ? sb_realloc(c->worst, room * c->layers, sizeof *worst)
                           : NULL;
        if (!worst)
            return 0;
        c->worst = worst;
        c->room = room;
    }
    for (size_t i = c->rows * c->layers; i < rows * c->layers; i++)
        c->worst[i] = SB_CELL_EMPTY;
    c->rows = rows;
    return 1;
}

static void raise_to(float *cell, float ratio)
{
    *cell = ratio > *cell ? ratio : *cell;
}

void sb_cells_mark(sb_cells *c, size_t row, uint32_t layer, double ratio)
{
    size_t at = layer < c->layers - 1 ? layer : c->layers - 1;
    raise_to(&c->worst[row * c->layers + at], ratio < (double)FLT_MAX ? (float)ratio : FLT_MAX);
}

int sb_cells_any(const sb_cells *c, size_t row)
{
    for (size_t i = 0; i < c->layers && row < c->rows; i++)
        if (c->worst[row * c->layers + i] >= 0)
            return 1;
    return 0;
}

void sb_cells_add(sb_cells *c, size_t row, const sb_cells *other, size_t other_row)
{
    for (size_t i = 0; i < c->layers; i++)
        raise_to(&c->worst[row * c->layers + i], other->worst[other_row * c->layers + i]);
}

static void widen(uint64_t range[2], const uint64_t other[2])
{
    range[0] = other[0] < range[0] ? other[0] : range[0];
    range[1] = other[1] > range[1] ? other[1] : range[1];
}

void sb_verdicts_failing(sb_verdicts *v, const sb_failing *one)
{
    size_t i = 0;
    while (i < v->failing_count && strcmp(v->failing[i].name, one->name) != 0)
        i++;
    if (!v->failing)
        v->failing = sb_alloc(SB_FAILING, sizeof *v->failing);
    if (!v->failing || i == SB_FAILING)
        return;
    if (i == v->failing_count)
        v->failing[v->failing_count++] = *one;
    sb_failing *f = &v->failing[i];
    f->kinds |= one->kinds;
    widen(f->token, one->token);
    widen(f->column, one->column);
}

int sb_verdicts_fail(sb_verdicts *v, const sb_place *place)
{
    v->failures++;
    if (v->has_failure &&
        (v->first_failure.sequence < place->sequence ||
         (v->first_failure.sequence == place->sequence && v->first_failure.token <= place->token)))
        return 0;
    v->has_failure = 1;
    v->first_failure = *place;
    sb_verdicts_name_parent(v, &v->first_failure);
    v->around.count = 0;
    return 1;
}
