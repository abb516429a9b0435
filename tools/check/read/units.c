#include "tools/check/read/units.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/text.h"
#include "ref/container/show.h"
#include "ref/formats/format.h"
#include "ref/model/eagle3_tensors.h"
#include "ref/model/held.h"
#include "ref/model/probe.h"
#include "ref/model/take.h"

static sb_status no_memory(sb_error *err)
{
    return sb_fail(err, SB_ERR_MEMORY, "out of memory for the layers of a checkpoint");
}

static sb_region region_of(const char *name, const char *prefix)
{
    if (sb_starts(name, "model.visual.") || sb_starts(name, "visual."))
        return SB_REGION_vision;
    if (sb_starts(name, "mtp."))
        return SB_REGION_mtp;
    return (*prefix && sb_starts(name, prefix)) || sb_starts(name, "lm_head.") ? SB_REGION_trunk
                                                                               : SB_REGION_other;
}

static const char *plain_name(const char *name, const char *prefix)
{
    return *prefix && sb_starts(name, prefix) && !sb_starts(name, "model.visual.")
               ? name + strlen(prefix)
               : name;
}

/* --- what the configuration expects ----------------------------------------------------------- */

typedef struct collector {
    sb_units *units;
    size_t room;
} collector;

static sb_status add_expected(void *ctx, const sb_expected *x, sb_error *err)
{
    collector *c = ctx;
    sb_expected *grown =
        sb_grow(c->units->expected, c->units->expected_count, &c->room, sizeof *grown);
    if (!grown)
        return no_memory(err);
    c->units->expected = grown;
    c->units->expected[c->units->expected_count++] = *x;
    return SB_OK;
}

static int expected_order(const void *a, const void *b)
{
    return strcmp(((const sb_expected *)a)->name, ((const sb_expected *)b)->name);
}

/* Collects the expectations for both ways to store experts, with the MTP head whether or not it
 * exists; equal names are kept once. */
static sb_status expect(const sb_config *config, sb_units *u, sb_error *err)
{
    collector c = {u, 0};
    sb_config with_mtp = *config;
    sb_status status = SB_OK;
    for (int fused = 0; fused < 2 && !status; fused++) {
        sb_storage s = {u->prefix, fused, fused, 1};
        status = sb_each_tensor(&with_mtp, &s, add_expected, &c, err);
    }
    if (status || !u->expected_count)
        return status;
    qsort(u->expected, u->expected_count, sizeof *u->expected, expected_order);
    size_t kept = 1;
    for (size_t i = 1; i < u->expected_count; i++)
        if (strcmp(u->expected[i].name, u->expected[kept - 1].name) != 0)
            u->expected[kept++] = u->expected[i];
    u->expected_count = kept;
    return SB_OK;
}

static sb_status add_drafters(void *ctx, const sb_eagle3_tensor *t, sb_error *err)
{
    sb_expected x = {.role = t->role,
                     .layer = t->part == SB_EAGLE3_layer ? 0 : 1,
                     .expert = SB_NO_EXPERT,
                     .rank = t->rank,
                     .shape = {t->shape[0], t->shape[1]}};
    snprintf(x.name, sizeof x.name, "%s", t->name);
    return add_expected(ctx, &x, err);
}

/* M-12: the tensors of a drafter, the optional ones too. */
static sb_status expect_drafter(const sb_eagle3_config *drafter, const sb_checkpoint *checkpoint,
                                sb_units *u, sb_error *err)
{
    collector c = {u, 0};
    sb_status status =
        sb_eagle3_each_tensor(drafter, sb_eagle3_layer_name(checkpoint), add_drafters, &c, err);
    if (!status)
        qsort(u->expected, u->expected_count, sizeof *u->expected, expected_order);
    return status;
}

static int against_expected(const void *key, const void *row)
{
    return strcmp(key, ((const sb_expected *)row)->name);
}

const sb_expected *sb_expected_named(const sb_units *u, const char *name)
{
    return u->expected_count ? bsearch(name, u->expected, u->expected_count, sizeof *u->expected,
                                       against_expected)
                             : NULL;
}

/* For a layer, the expectation for its weight; the name of a stack has no suffix. */
static const sb_expected *expected_of(const sb_units *u, const char *name, int is_layer)
{
    char full[SB_MAX_TENSOR_NAME + 16];
    const sb_expected *x = sb_expected_named(u, name);
    if (x || !is_layer)
        return x;
    snprintf(full, sizeof full, "%s.weight", name);
    return sb_expected_named(u, full);
}

/* --- units ------------------------------------------------------------------------------------ */

typedef struct maker {
    const sb_checkpoint *checkpoint;
    const sb_declared *declared;
    int headers_only;
    const sb_units *only; /* NULL: all */
    sb_units *units;
    size_t room;
    unsigned char *used; /* one flag per tensor */
} maker;

static int is_wanted(const maker *m, const char *name)
{
    const sb_unit *unit = m->only ? sb_unit_named(m->only, name) : NULL;
    return !m->only || (unit && unit->chosen);
}

static sb_status add_unit(maker *m, const char *name, int is_layer, sb_unit **out, sb_error *err)
{
    sb_units *u = m->units;
    char kind[SB_MAX_TENSOR_NAME];
    sb_unit *grown = sb_grow(u->rows, u->count, &m->room, sizeof *grown);
    if (!grown)
        return no_memory(err);
    u->rows = grown;
    sb_unit *unit = &u->rows[u->count];
    *unit = (sb_unit){.region = u->is_drafter ? SB_REGION_trunk : region_of(name, u->prefix),
                      .expected = expected_of(u, name, is_layer)};
    unit->found.container = SB_CONTAINER_COUNT;
    u->count++;
    unit->name = sb_strdup(name);
    unit->plain = sb_strdup(plain_name(name, u->prefix));
    unit->kind = sb_strdup(sb_layer_kind(name, kind, sizeof kind));
    *out = unit;
    return unit->name && unit->plain && unit->kind ? SB_OK : no_memory(err);
}

/* V-4: "NVFP4 in groups of 32 that are declared" - without a declaration, half of the scales are
 * missing. */
static int is_nvfp4_of_32(const maker *m, const char *name, const sb_found *found)
{
    const sb_tensor *scale = found->part[SB_PART_weight_scale];
    const sb_tensor *codes = found->part[SB_PART_weight];
    sb_declaration d;
    sb_error why;
    return codes && scale && codes->dtype == SB_DTYPE_U8 && scale->dtype == SB_DTYPE_F8_E4M3 &&
           codes->rank == 2 && scale->rank == 2 && scale->shape[1] * 16 == codes->shape[1] &&
           m->declared && sb_declared_for(m->declared, name, &d, &why) == SB_OK &&
           d.answer == SB_DECLARED_YES && d.family == SB_FAMILY_NVFP4 && d.group_size == 32;
}

static sb_status add_layer(void *ctx, const char *name, uint32_t experts, sb_error *err)
{
    maker *m = ctx;
    sb_unit *unit;
    sb_error why;
    if (!is_wanted(m, name))
        return SB_OK;
    sb_status status = add_unit(m, name, 1, &unit, err);
    if (status)
        return status;
    unit->status = m->headers_only
                       ? sb_detect_headers(m->checkpoint, name, experts, &unit->found, &why)
                       : sb_detect_unjudged(m->checkpoint, name, experts, 0, 0, &unit->found, &why);
    if (unit->status == SB_ERR_INPUT && is_nvfp4_of_32(m, name, &unit->found))
        unit->status = sb_fail(&why, SB_ERR_UNSUPPORTED,
                               "layer %s is NVFP4 in groups of 32, which ModelOpt writes for "
                               "W4A8_NVFP4_FP8 and for weights only; this version does not read it",
                               SB_SHOW(name));
    /* W-8: a unit that was laid over and leaves the version open is v1, as it was written */
    if (!unit->status &&
        (unit->found.zeros_open || unit->found.container == SB_CONTAINER_int8_channel) &&
        !sb_found_origin(m->checkpoint, &unit->found))
        unit->status = sb_settle_zeros(m->declared, name, &unit->found, &why);
    if (unit->status == SB_ERR_MEMORY)
        return sb_fail(err, unit->status, "%s", why.text);
    if (unit->status) {
        unit->problem = sb_strdup(sb_show_behind(why.text, sb_checkpoint_path(m->checkpoint)));
        if (!unit->problem)
            return no_memory(err);
    }
    for (unsigned part = 0; part < SB_PART_COUNT; part++)
        if (unit->found.part[part])
            m->used[unit->found.part[part] - sb_checkpoint_at(m->checkpoint, 0)] = 1;
    return SB_OK;
}

int sb_tensor_matrix(const sb_tensor *t, sb_matrix *out)
{
    sb_format format;
    if (!sb_plain_format(t->dtype, &format) || t->bytes == 0)
        return 0;
    uint64_t cols = t->rank ? t->shape[t->rank - 1] : 1;
    uint64_t rows = t->bytes / sb_format_bytes(format) / cols;
    if (rows > UINT32_MAX || cols > UINT32_MAX / 2)
        return 0;
    *out = (sb_matrix){
        .data = t->data, .format = format, .rows = (uint32_t)rows, .cols = (uint32_t)cols};
    return 1;
}

static sb_status add_single(maker *m, const sb_tensor *tensor, sb_error *err)
{
    sb_unit *unit;
    sb_status status = add_unit(m, tensor->name, 0, &unit, err);
    if (!status)
        unit->tensor = tensor;
    return status;
}

static int unit_order(const void *a, const void *b)
{
    const sb_unit *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : (x->tensor != NULL) - (y->tensor != NULL);
}

static sb_status make_rows(maker *m, sb_error *err)
{
    sb_status status = sb_each_layer_name(m->checkpoint, add_layer, m, err);
    for (size_t i = 0; i < sb_checkpoint_count(m->checkpoint) && !status; i++)
        if (!m->used[i] && is_wanted(m, sb_checkpoint_at(m->checkpoint, i)->name))
            status = add_single(m, sb_checkpoint_at(m->checkpoint, i), err);
    if (!status && m->units->count)
        qsort(m->units->rows, m->units->count, sizeof *m->units->rows, unit_order);
    return status;
}

/* --- members ---------------------------------------------------------------------------------- */

typedef struct member_maker {
    sb_units *units;
    size_t room;
    sb_unit *unit;
    size_t piece;
} member_maker;

static sb_status add_member(void *ctx, const sb_piece *piece, sb_error *err)
{
    member_maker *m = ctx;
    sb_units *u = m->units;
    sb_member *grown = sb_grow(u->members, u->member_count, &m->room, sizeof *grown);
    if (!grown)
        return no_memory(err);
    u->members = grown;
    sb_member *member = &u->members[u->member_count];
    *member = (sb_member){.unit = m->unit, .matrix = piece->matrix};
    u->member_count++;
    member->seen = &m->unit->seen[m->piece++];
    member->seen->rows = piece->matrix.rows;
    member->seen->cols = piece->matrix.cols;
    member->name = sb_strdup(piece->name);
    member->plain = sb_strdup(plain_name(piece->name, u->prefix));
    return member->name && member->plain ? SB_OK : no_memory(err);
}

static int member_order(const void *a, const void *b)
{
    return strcmp(((const sb_member *)a)->plain, ((const sb_member *)b)->plain);
}

/* Allocates seen for each unit; a stack that cannot be split becomes unreadable. */
static sb_status make_members(const sb_checkpoint *checkpoint, sb_units *u, sb_error *err)
{
    member_maker m = {.units = u};
    for (size_t i = 0; i < u->count; i++) {
        sb_unit *unit = &u->rows[i];
        sb_error why;
        int broken = unit->status || unit->found.container == SB_CONTAINER_COUNT;
        unit->seen_count = unit->found.experts && !broken ? (size_t)unit->found.experts * 2 : 1;
        unit->seen = sb_alloc(unit->seen_count, sizeof *unit->seen);
        if (!unit->seen)
            return no_memory(err);
        if (unit->tensor || broken)
            continue;
        m.unit = unit;
        m.piece = 0;
        unit->status = sb_each_piece(checkpoint, unit->name, &unit->found, add_member, &m, &why);
        if (unit->status == SB_ERR_MEMORY)
            return sb_fail(err, unit->status, "%s", why.text);
        unit->seen_count = m.piece;
        if (unit->status &&
            !(unit->problem = sb_strdup(sb_show_behind(why.text, sb_checkpoint_path(checkpoint)))))
            return no_memory(err);
    }
    if (u->member_count)
        qsort(u->members, u->member_count, sizeof *u->members, member_order);
    return SB_OK;
}

sb_status sb_units_make(const sb_checkpoint *checkpoint, const sb_config *config,
                        const sb_eagle3_config *drafter, const sb_declared *declared,
                        int headers_only, const sb_units *only, sb_units *out, sb_error *err)
{
    maker m = {.checkpoint = checkpoint,
               .declared = declared,
               .headers_only = headers_only,
               .only = only,
               .units = out};
    *out = (sb_units){.prefix = drafter ? "" : sb_text_prefix(checkpoint),
                      .is_drafter = drafter != NULL};
    m.used = sb_alloc(sb_checkpoint_count(checkpoint), 1);
    sb_status status = m.used ? SB_OK : no_memory(err);
    if (!status && config)
        status = drafter ? expect_drafter(drafter, checkpoint, out, err) : expect(config, out, err);
    if (!status)
        status = make_rows(&m, err);
    if (!status)
        status = make_members(checkpoint, out, err);
    free(m.used);
    return status;
}

void sb_units_free(sb_units *u)
{
    for (size_t i = 0; i < u->count; i++) {
        free(u->rows[i].name);
        free(u->rows[i].plain);
        free(u->rows[i].kind);
        free(u->rows[i].problem);
        free(u->rows[i].seen);
        free(u->rows[i].zeros);
        free(u->rows[i].marks.rows);
        free(u->rows[i].same.differences);
    }
    for (size_t i = 0; i < u->member_count; i++) {
        free(u->members[i].plain);
        free(u->members[i].name);
    }
    free(u->rows);
    free(u->members);
    free(u->expected);
    *u = (sb_units){0};
}

uint64_t sb_unit_bytes(const sb_unit *unit)
{
    uint64_t bytes = unit->tensor ? unit->tensor->bytes : 0;
    for (unsigned p = 0; p < SB_PART_COUNT; p++)
        bytes += unit->found.part[p] ? unit->found.part[p]->bytes : 0;
    return bytes;
}

/* --- finding ---------------------------------------------------------------------------------- */

static int against_unit(const void *key, const void *row)
{
    return strcmp(key, ((const sb_unit *)row)->name);
}

const sb_unit *sb_unit_named(const sb_units *u, const char *name)
{
    return u->count ? bsearch(name, u->rows, u->count, sizeof *u->rows, against_unit) : NULL;
}

static int against_member(const void *key, const void *row)
{
    return strcmp(key, ((const sb_member *)row)->plain);
}

const sb_member *sb_member_plain(const sb_units *u, const char *plain)
{
    return u->member_count
               ? bsearch(plain, u->members, u->member_count, sizeof *u->members, against_member)
               : NULL;
}

const char *sb_unit_tensor(const sb_unit *unit, sb_model_part part)
{
    static const sb_model_part codes[] = {SB_PART_weight_packed, SB_PART_qweight, SB_PART_weight};
    if (unit->tensor)
        return unit->tensor->name;
    if (part < SB_PART_COUNT && unit->found.part[part])
        return unit->found.part[part]->name;
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (unit->found.part[codes[i]])
            return unit->found.part[codes[i]]->name;
    return unit->name;
}
