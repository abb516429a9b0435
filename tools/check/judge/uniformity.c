/* uniformity.c - check 6: all experts of a layer are stored alike. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/show.h"
#include "ref/formats/format.h"
#include "tools/check/scan/group.h"
#include "tools/check/judge/structure.h"

/* How an expert's matrix is stored, as far as engines assume that all experts equal expert 0. */
typedef struct storage {
    sb_container container;
    uint32_t block_rows, block_cols;
    uint32_t parts; /* a bit for each existing part */
    sb_format format, scale_format;
} storage;

/* One projection of one layer: the ways of storage, and how often each occurs. */
enum { STORAGES = 4, PROJECTIONS = 3 };
typedef struct row {
    storage seen[STORAGES];
    uint32_t count[STORAGES];
    uint32_t first[STORAGES]; /* the lowest expert with this storage */
} row;

static storage storage_of(const sb_unit *unit)
{
    const sb_matrix *m = &unit->found.matrix;
    storage s = {.container = unit->found.container,
                 .block_rows = m->quant.scales ? m->quant.block_rows : 0,
                 .block_cols = m->quant.scales ? m->quant.block_cols : 0,
                 .format = m->format,
                 .scale_format = m->quant.scales ? m->quant.scale_format : m->format};
    for (unsigned p = 0; p < SB_PART_COUNT; p++)
        s.parts |= unit->found.part[p] ? 1u << p : 0;
    return s;
}

static int same(const storage *a, const storage *b)
{
    return a->container == b->container && a->block_rows == b->block_rows &&
           a->block_cols == b->block_cols && a->parts == b->parts && a->format == b->format &&
           a->scale_format == b->scale_format;
}

/* 0, 1, 2 for gate, up, down; -1: not a matrix of one expert, or not readable. */
static int projection_of(const sb_unit *unit)
{
    const sb_expected *x = unit->expected;
    if (!x || x->expert == SB_NO_EXPERT || unit->tensor || unit->status ||
        unit->found.container == SB_CONTAINER_COUNT)
        return -1;
    return x->role == SB_ROLE_expert_gate ? 0 : x->role == SB_ROLE_expert_up ? 1 : 2;
}

static void count_storage(row *r, const storage *s, uint32_t expert)
{
    for (unsigned i = 0; i < STORAGES; i++) {
        if (r->count[i] && !same(&r->seen[i], s))
            continue;
        if (!r->count[i] || expert < r->first[i])
            r->first[i] = expert;
        r->seen[i] = *s;
        r->count[i]++;
        return;
    }
}

/* The storage of most experts; with equal counts, that of the lower expert. */
static unsigned usual(const row *r)
{
    unsigned best = 0;
    for (unsigned i = 1; i < STORAGES; i++)
        if (r->count[i] > r->count[best] ||
            (r->count[i] == r->count[best] && r->count[i] && r->first[i] < r->first[best]))
            best = i;
    return best;
}

typedef struct storage_text {
    char text[320];
} storage_text;

static const char *show(const storage *s, const storage *other, storage_text *room)
{
    int used = snprintf(room->text, sizeof room->text, "%s", sb_container_name(s->container));
    if (s->block_cols)
        used += snprintf(room->text + used, sizeof room->text - (size_t)used,
                         ", %u x %u per %s scale", (unsigned)s->block_rows, (unsigned)s->block_cols,
                         sb_format_name(s->scale_format));
    for (unsigned p = 0; p < SB_PART_COUNT && used < 250; p++)
        if (s->parts >> p & 1u && !(other->parts >> p & 1u))
            used += snprintf(room->text + used, sizeof room->text - (size_t)used, ", with %s",
                             sb_part_suffix((sb_model_part)p));
    return room->text;
}

/* V-6: "Each expert is compared with the storage of most experts" */
static void tell_odd(sb_check *check, sb_groups *groups, const row *rows)
{
    const sb_units *u = &check->self.units;
    for (size_t i = 0; i < u->count; i++) {
        const sb_unit *unit = &u->rows[i];
        storage_text a, b;
        char key[SB_MAX_TENSOR_NAME + 64];
        int p = projection_of(unit);
        if (p < 0)
            continue;
        const row *r = &rows[unit->expected->layer * PROJECTIONS + (unsigned)p];
        const storage *most = &r->seen[usual(r)], own = storage_of(unit);
        if (same(&own, most))
            continue;
        snprintf(key, sizeof key, "%s: stored differently from the others of layer %u", unit->kind,
                 (unsigned)unit->expected->layer);
        sb_group_find(groups, check, 6, SB_LEVEL_error, sb_unit_tensor(unit, SB_PART_COUNT), key,
                      "is %s, but %u experts of the layer are %s", show(&own, most, &a),
                      (unsigned)r->count[usual(r)], show(most, &own, &b));
    }
}

/* V-6: "gate and up, which engines fuse, must agree, too" */
static void tell_pairs(sb_check *check, sb_groups *groups, const row *rows, uint32_t layers)
{
    for (uint32_t layer = 0; layer < layers; layer++) {
        const row *gate = &rows[layer * PROJECTIONS], *up = gate + 1, *down = gate + 2;
        const storage *g = &gate->seen[usual(gate)], *o = &up->seen[usual(up)],
                      *d = &down->seen[usual(down)];
        storage_text a, b;
        char name[SB_NAME_MAX];
        int head = layer >= check->self.config.layers;
        snprintf(name, sizeof name, "%slayers.%u.mlp.experts",
                 head ? "mtp." : check->self.units.prefix,
                 (unsigned)(head ? layer - check->self.config.layers : layer));
        if (gate->count[0] && up->count[0] && !same(g, o))
            sb_group_find(groups, check, 6, SB_LEVEL_error, name, "gate and up stored differently",
                          "gate_proj is %s, but up_proj is %s", show(g, o, &a), show(o, g, &b));
        if (gate->count[0] && down->count[0] && g->container != d->container)
            sb_group_find(groups, check, 6, SB_LEVEL_warn, name, "gate and down stored differently",
                          "gate_proj is %s, but down_proj is %s; vLLM uses one method for both",
                          show(g, d, &a), show(d, g, &b));
    }
}

void sb_check_uniformity(sb_check *check)
{
    const sb_units *u = &check->self.units;
    uint32_t layers = check->self.config.layers + check->self.config.mtp_layers;
    if (!check->self.has_config || !check->self.config.experts)
        return;
    row *rows = sb_alloc((size_t)layers * PROJECTIONS, sizeof *rows);
    sb_groups groups = {0};
    if (!rows) {
        check->findings.lost = 1;
        return;
    }
    for (size_t i = 0; i < u->count; i++) {
        int p = projection_of(&u->rows[i]);
        if (p < 0)
            continue;
        storage s = storage_of(&u->rows[i]);
        const sb_expected *x = u->rows[i].expected;
        count_storage(&rows[x->layer * PROJECTIONS + (unsigned)p], &s, x->expert);
    }
    tell_odd(check, &groups, rows);
    tell_pairs(check, &groups, rows, layers);
    sb_groups_end(&groups, check);
    free(rows);
}
