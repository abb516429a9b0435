#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/container/show.h"
#include "ref/formats/format.h"
#include "tools/check/scan/across.h"
#include "tools/check/read/norms.h"
#include "tools/check/scan/recipe.h"
#include "tools/check/judge/same_format.h"
#include "tools/check/scan/scaled.h"

enum { FEW = 64 }; /* with fewer values, it is unclear how they were rounded */

typedef struct totals {
    size_t rounded_norms; /* norms that are rounded as llm-compressor writes them back */
    /* tensors of another dtype: with the original's values rounded; with exact values */
    size_t narrowed, retyped;
    size_t scaled;    /* scaled as AWQ and similar tools scale the layers before quantized layers */
    size_t rerounded; /* tensors of another dtype, where neither side is the other rounded */
    size_t caches;    /* scales of the KV cache */
    const char *first_cache;
    const char *first_norm, *first_narrowed, *first_retyped, *first_rerounded, *first_scaled;
    int awq;
} totals;

typedef struct sums {
    uint64_t compared, differing, unrounded, far;
    size_t piece;
} sums;

static sums add_up(const sb_unit *unit)
{
    sums s = {0};
    for (size_t i = 0; i < unit->seen_count; i++) {
        const sb_seen_plain *p = &unit->seen[i].plain;
        if (!s.differing && p->differing)
            s.piece = i;
        s.compared += p->compared;
        s.differing += p->differing;
        s.unrounded += p->unrounded;
        s.far += p->far;
    }
    return s;
}

static void note(size_t *count, const char **first, const sb_unit *unit)
{
    if (!(*count)++)
        *first = sb_unit_tensor(unit, SB_PART_COUNT);
}

static int there_and_back(const float *w, const float *rounded, uint64_t n)
{
    uint64_t k = 0;
    while (k < n && rounded[k] == sb_round_to(SB_FORMAT_bf16,
                                              sb_round_to(SB_FORMAT_bf16, 1.0f + w[k]) - 1.0f))
        k++;
    return n > 0 && k == n;
}

/* V-14: "bf16(bf16(1 + w) - 1) of the original's w", or the other way round: then the original went
 * through such a tool. */
static int is_rounded_norm(const sb_unit *unit, const sb_unit *master)
{
    uint64_t n = 0, m = 0;
    if (!unit->tensor || !master || !master->tensor || sb_norm_of(unit) == SB_NORM_none)
        return 0;
    float *own = sb_floats_of(unit->tensor, &n), *other = sb_floats_of(master->tensor, &m);
    int is =
        n == m && own && other && (there_and_back(other, own, n) || there_and_back(own, other, n));
    free(own);
    free(other);
    return is;
}

/* V-14: "AWQ may scale norms, and layers that are not quantized" */
static int may_be_scaled(sb_check *check, const sb_unit *unit)
{
    return unit->region != SB_REGION_vision && strcmp(unit->kind, "embed_tokens") != 0 &&
           (sb_norm_of(unit) != SB_NORM_none || !unit->tensor) &&
           sb_is_beside_quantized(check, unit) && (unit->tensor || sb_is_scaled(check, unit));
}

static void tell_difference(sb_check *check, const sb_unit *unit, const sums *s)
{
    sb_spot_buffer room;
    const sb_seen_plain *p = &unit->seen[s->piece].plain;
    sb_check_find(
        check, 14, SB_LEVEL_error, sb_unit_tensor(unit, SB_PART_COUNT),
        "%" PRIu64 " of %" PRIu64 " values differ from the original, first at %s: 0x%0*" PRIx32
        ", expected 0x%0*" PRIx32,
        s->differing, s->compared, sb_spot_text(check, unit, s->piece, p->first, &room),
        p->first.bits >> 16 ? 8 : 4, p->first.bits, p->first_master >> 16 ? 8 : 4, p->first_master);
}

/* V-14: "scales of the KV cache may be calibrated anew" */
static int is_cache_scale(const sb_unit *unit)
{
    size_t n = strlen(unit->kind);
    return n > 8 && (strcmp(unit->kind + n - 8, ".k_scale") == 0 ||
                     strcmp(unit->kind + n - 8, ".v_scale") == 0);
}

static const sb_tensor *tensor_of(const sb_unit *unit)
{
    return !unit ? NULL : unit->tensor ? unit->tensor : unit->found.part[SB_PART_weight];
}

static int same_dtype(const sb_unit *unit, const sb_unit *master)
{
    const sb_tensor *own = tensor_of(unit), *other = tensor_of(master);
    return !own || !other || own->dtype == other->dtype;
}

static void judge_unit(sb_check *check, const sb_unit *unit, totals *t)
{
    const sb_unit *master = sb_master_unit(check, unit);
    sums s = add_up(unit);
    int retyped = !same_dtype(unit, master);
    if (!s.compared)
        return;
    if (!s.differing) {
        if (retyped)
            note(&t->retyped, &t->first_retyped, unit);
    } else if (retyped && !s.unrounded) {
        note(&t->narrowed, &t->first_narrowed, unit);
    } else if (retyped && !s.far && (s.unrounded * 4 > s.compared || s.compared < FEW)) {
        note(&t->rerounded, &t->first_rerounded, unit);
    } else if (is_rounded_norm(unit, master)) {
        note(&t->rounded_norms, &t->first_norm, unit);
    } else if (is_cache_scale(unit)) {
        note(&t->caches, &t->first_cache, unit);
    } else if (t->awq && may_be_scaled(check, unit)) {
        note(&t->scaled, &t->first_scaled, unit);
    } else {
        tell_difference(check, unit, &s);
    }
}

/* Reports a tensor that has another shape in the original, so that nothing could be compared. */
static void judge_shape(sb_check *check, const sb_unit *unit)
{
    const sb_tensor *own = tensor_of(unit), *other = tensor_of(sb_master_unit(check, unit));
    if (!own || !other || own->rank != other->rank || unit->seen->plain.compared)
        return;
    for (unsigned d = 0; d < own->rank; d++)
        if (own->shape[d] != other->shape[d]) {
            sb_check_find(check, 14, SB_LEVEL_error, own->name,
                          "dimension %u is %" PRIu64 ", in the original %" PRIu64, d, own->shape[d],
                          other->shape[d]);
            return;
        }
}

static void tell_totals(sb_check *check, const totals *t)
{
    if (t->rounded_norms)
        sb_check_find(check, 14, SB_LEVEL_info, t->first_norm,
                      "%zu norms are bf16(bf16(1 + w) - 1) of the original's w, as llm-compressor "
                      "writes them, or the other way round",
                      t->rounded_norms);
    if (t->narrowed)
        sb_check_find(check, 14, SB_LEVEL_info, t->first_narrowed,
                      "%zu tensors are the original's rounded to another dtype", t->narrowed);
    if (t->rerounded)
        sb_check_find(check, 14, SB_LEVEL_warn, t->first_rerounded,
                      "%zu tensors have another dtype; they are equal to the original's within the "
                      "precision of that dtype, but were not made from them",
                      t->rerounded);
    if (t->retyped)
        sb_check_find(check, 14, SB_LEVEL_warn, t->first_retyped,
                      "%zu tensors have the original's values in another dtype", t->retyped);
    if (t->caches)
        sb_check_find(
            check, 14, SB_LEVEL_warn, t->first_cache,
            "%zu scales of the KV cache differ from the original: they were calibrated again",
            t->caches);
    if (t->scaled)
        sb_check_find(check, 14, SB_LEVEL_info, t->first_scaled,
                      "%zu tensors differ from the original, as AWQ scales them", t->scaled);
}

static int has_awq(const sb_units *u)
{
    for (size_t i = 0; i < u->count; i++)
        if (u->rows[i].found.part[SB_PART_pre_quant_scale] ||
            (sb_unit_quantized(&u->rows[i]) &&
             (u->rows[i].found.container == SB_CONTAINER_int_awq ||
              u->rows[i].found.container == SB_CONTAINER_int4_modelopt)))
            return 1;
    return 0;
}

void sb_check_untouched(sb_check *check)
{
    totals t = {0};
    if (!check->master.checkpoint)
        return;
    t.awq = has_awq(&check->self.units) || (sb_recipe_of(check) & SB_RECIPE_smoothed) != 0;
    for (size_t i = 0; i < check->self.units.count; i++) {
        const sb_unit *unit = &check->self.units.rows[i];
        if (!sb_unit_is_plain(unit) || !unit->seen_count || !unit->seen->done)
            continue;
        judge_unit(check, unit, &t);
        judge_shape(check, unit);
    }
    tell_totals(check, &t);
    sb_check_same_format(check);
}
