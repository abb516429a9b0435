/* same_format.c - V-14 for layers that are quantized on both sides: what differs, and whether the
 * checkpoint was quantized anew. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/container/show.h"
#include "ref/formats/format.h"
#include "tools/check/scan/across.h"
#include "tools/check/scan/payload_parts.h"
#include "tools/check/judge/same_format.h"

/* V-14: upper bounds of the distance between two quantizations of the same weights, by bits per
 * code. AWQ scales columns and the layer before, which moves weights further. */
static const double FAR_FOUR = 0.35, FAR_EIGHT = 0.1, FAR_SCALED = 1.0;

/* In a layer that was quantized anew, at least one in ANEW codes, scales or values differs. If its
 * codes are the same, its distance is at most NEAR, the relative step from one BF16 amax to the
 * next. */
enum { ANEW = 100, MOST_NUMERATOR = 3, MOST_DENOMINATOR = 4 };
static const double NEAR = 1.0 / 128;

typedef struct totals {
    /* number of layers; of layers that differ all over, or at rounding boundaries */
    size_t compared, anew;
    int is_anew;
    size_t requantized, inputs;
    const char *first_requantized, *first_input;
    double largest; /* largest distance of the layers that count as quantized anew */
} totals;

static int is_input(unsigned part)
{
    return part == SB_PART_input_scale || part == SB_PART_input_global_scale;
}

static sb_model_part codes_of(const sb_unit *unit)
{
    return sb_part_of(&unit->found, unit->found.matrix.data);
}

static uint64_t values_of(const sb_unit *unit)
{
    uint64_t n = 0;
    for (size_t i = 0; i < unit->seen_count; i++)
        n += unit->seen[i].rows * unit->seen[i].cols;
    return n;
}

static uint64_t elements_of(const sb_unit *unit, unsigned row, const sb_part_difference *d)
{
    return row == SB_SAME_VALUES ? values_of(unit) : unit->found.part[row]->bytes * 8 / d->bits;
}

/* The distance of the weights to the original's; below 0: unknown. */
static double distance_of(const sb_unit *unit)
{
    double error2 = 0, master2 = 0;
    for (size_t i = 0; i < unit->seen_count; i++) {
        error2 += unit->seen[i].distance.error2;
        master2 += unit->seen[i].distance.master2;
    }
    return master2 > 0 && error2 >= 0 && error2 < 1e300 ? sb_root(error2 / master2) : -1;
}

static double far_of(const sb_unit *unit)
{
    const sb_found *f = &unit->found;
    if (f->container == SB_CONTAINER_int_awq || f->container == SB_CONTAINER_int4_modelopt ||
        f->part[SB_PART_pre_quant_scale])
        return FAR_SCALED;
    return sb_format_bits(f->matrix.format) <= 4 || unit->same.of_four ? FAR_FOUR : FAR_EIGHT;
}

/* The number of codes or values of the layer that differ, and the number of all. */
static uint64_t codes_differ(const sb_unit *unit, uint64_t *of)
{
    const sb_part_difference *d = unit->same.differences;
    unsigned codes = codes_of(unit);
    unsigned row = unit->same.by_value ? (unsigned)SB_SAME_VALUES : codes;
    *of = values_of(unit);
    if (!d || !d[row].differing)
        return 0;
    *of = elements_of(unit, row, &d[row]);
    return d[row].differing;
}

static int is_compared(const sb_unit *unit)
{
    return sb_unit_quantized(unit) && (unit->same.in_bytes || unit->same.by_value);
}

/* 1 if a part differs all over; scales of inputs are ignored. */
static int all_over(const sb_unit *unit)
{
    const sb_part_difference *d = unit->same.differences;
    for (unsigned p = 0; p < SB_SAME_ROWS && d; p++)
        if (d[p].differing && (p == SB_SAME_VALUES || !is_input(p)) &&
            d[p].differing * ANEW >= elements_of(unit, p, &d[p]))
            return 1;
    return 0;
}

/* 1 if only codes differ, each by at most one step; or only values, and the distance is small. */
static int at_boundaries(const sb_unit *unit, double distance)
{
    const sb_part_difference *d = unit->same.differences;
    unsigned codes = codes_of(unit);
    if (!d)
        return 0;
    for (unsigned p = 0; p < SB_PART_COUNT; p++)
        if (p != codes && d[p].differing && !is_input(p))
            return 0;
    if (unit->same.by_value)
        return d[SB_SAME_VALUES].differing && distance >= 0 && distance <= NEAR;
    return d[codes].differing && !d[codes].apart;
}

static void census(const sb_units *u, totals *t)
{
    for (size_t i = 0; i < u->count; i++) {
        if (!is_compared(&u->rows[i]))
            continue;
        t->compared++;
        t->anew += all_over(&u->rows[i]) || at_boundaries(&u->rows[i], distance_of(&u->rows[i]));
    }
    t->is_anew = t->compared > 0 && t->anew * MOST_DENOMINATOR >= t->compared * MOST_NUMERATOR;
}

/* --- one element ------------------------------------------------------------------------------ */

/* Describes an element of a stored tensor: "expert 3, row 17, column 4 (byte 1234 of FILE)". */
static void place_text(const sb_check *check, const sb_tensor *t, const sb_part_difference *d,
                       char *text, size_t size)
{
    char which[48] = "";
    uint64_t cols = t->rank ? t->shape[t->rank - 1] * sb_dtype_bits(t->dtype) / d->bits : 1;
    uint64_t row = cols ? d->first / cols : 0, column = cols ? d->first % cols : 0;
    if (t->rank == 3 && t->shape[1]) {
        snprintf(which, sizeof which, "expert %" PRIu64 ", ", row / t->shape[1]);
        row %= t->shape[1];
    }
    snprintf(text, size, "%srow %" PRIu64 ", column %" PRIu64 " (byte %" PRIu64 " of %s)", which,
             row, column, sb_checkpoint_offset(check->self.checkpoint, t) + d->first * d->bits / 8,
             SB_SHOW(sb_checkpoint_shard_name(check->self.checkpoint, t->shard)));
}

static const char *noun_of(const sb_unit *unit, unsigned part)
{
    if (part == (unsigned)codes_of(unit))
        return unit->found.matrix.quant.packing == SB_PACKING_rows ? "codes" : "words of codes";
    switch (part) {
    case SB_PART_qzeros:
    case SB_PART_weight_zero_point:
        return "words of zero points";
    case SB_PART_g_idx:
    case SB_PART_weight_g_idx:
        return "group indices";
    case SB_PART_weight_global_scale:
    case SB_PART_weight_scale_2:
        return "global scales";
    case SB_PART_weight_shape:
        return "numbers";
    default:
        return "scales";
    }
}

static void tell_part(sb_check *check, const sb_unit *unit, unsigned part)
{
    const sb_part_difference *d = &unit->same.differences[part];
    const sb_tensor *t = unit->found.part[part];
    char place[600];
    place_text(check, t, d, place, sizeof place);
    sb_check_find(check, 14, SB_LEVEL_error, t->name,
                  "%" PRIu64 " of %" PRIu64
                  " %s differ from the original, first at %s: 0x%0*" PRIx64
                  ", expected 0x%0*" PRIx64,
                  d->differing, elements_of(unit, part, d), noun_of(unit, part), place,
                  (int)(d->bits + 3) / 4, d->own, (int)(d->bits + 3) / 4, d->other);
}

static void tell_values(sb_check *check, const sb_unit *unit)
{
    const sb_part_difference *d = &unit->same.differences[SB_SAME_VALUES];
    const sb_seen *seen = &unit->seen[d->piece];
    uint64_t cols = seen->cols ? seen->cols : 1;
    char piece[64] = "";
    if (unit->found.experts)
        snprintf(piece, sizeof piece, "piece %" PRIu32 " of the stack, ", d->piece);
    sb_check_find(check, 14, SB_LEVEL_error, sb_unit_tensor(unit, SB_PART_COUNT),
                  "%" PRIu64 " of %" PRIu64 " values differ from the original, which is stored in "
                  "another format, first at %srow %" PRIu64 ", column %" PRIu64
                  ": %g before the global scale, expected %g",
                  d->differing, values_of(unit), piece, d->first / cols, d->first % cols,
                  sb_f64_from_bits(d->own), sb_f64_from_bits(d->other));
}

/* --- one layer -------------------------------------------------------------------------------- */

/* V-14: "A layer more than half of whose codes differ is one finding" */
static void tell_layer(sb_check *check, const sb_unit *unit, double distance)
{
    uint64_t of, n = codes_differ(unit, &of);
    char far[128] = "";
    if (distance >= 0)
        snprintf(far, sizeof far,
                 "; the relative distance is %.3g, two quantizations of the same weights have at "
                 "most %.3g",
                 distance, far_of(unit));
    sb_check_find(check, 14, SB_LEVEL_error, sb_unit_tensor(unit, SB_PART_COUNT),
                  "is not the layer of the original: %" PRIu64 " of %" PRIu64 " %s differ%s", n, of,
                  unit->same.by_value ? "values" : noun_of(unit, (unsigned)codes_of(unit)), far);
}

static void note(size_t *count, const char **first, const char *name)
{
    if (!(*count)++)
        *first = name;
}

/* 1 if anything differs except input scales, which are counted. */
static int differs(const sb_unit *unit, totals *t)
{
    int found = 0;
    for (unsigned p = 0; p < SB_SAME_ROWS; p++) {
        if (!unit->same.differences[p].differing)
            continue;
        if (p < SB_PART_COUNT && is_input(p))
            note(&t->inputs, &t->first_input, unit->found.part[p]->name);
        else
            found = 1;
    }
    return found;
}

static void judge_unit(sb_check *check, const sb_unit *unit, totals *t)
{
    uint64_t of, n;
    if (!unit->same.differences || !differs(unit, t))
        return;
    double distance = distance_of(unit);
    n = codes_differ(unit, &of);
    if (t->is_anew && distance >= 0 && distance <= (n ? far_of(unit) : NEAR)) {
        note(&t->requantized, &t->first_requantized, sb_unit_tensor(unit, SB_PART_COUNT));
        t->largest = distance > t->largest ? distance : t->largest;
        return;
    }
    if (n > of / 2) {
        tell_layer(check, unit, distance);
        return;
    }
    for (unsigned p = 0; p < SB_PART_COUNT; p++)
        if (unit->same.differences[p].differing && !is_input(p))
            tell_part(check, unit, p);
    if (unit->same.differences[SB_SAME_VALUES].differing)
        tell_values(check, unit);
}

/* Judges a single tensor without floats. */
static void judge_single(sb_check *check, const sb_unit *unit)
{
    const sb_part_difference *d = unit->same.differences;
    char place[600];
    if (!d || !d->differing)
        return;
    place_text(check, unit->tensor, d, place, sizeof place);
    sb_check_find(check, 14, SB_LEVEL_error, unit->tensor->name,
                  "%" PRIu64 " of %" PRIu64
                  " numbers differ from the original, first at %s: 0x%" PRIx64
                  ", expected 0x%" PRIx64,
                  d->differing, unit->tensor->bytes * 8 / d->bits, place, d->own, d->other);
}

void sb_check_same_format(sb_check *check)
{
    totals t = {0};
    const sb_units *u = &check->self.units;
    census(u, &t);
    for (size_t i = 0; i < u->count; i++) {
        if (u->rows[i].tensor)
            judge_single(check, &u->rows[i]);
        else if (is_compared(&u->rows[i]))
            judge_unit(check, &u->rows[i], &t);
    }
    if (t.requantized)
        sb_check_find(
            check, 14, SB_LEVEL_warn, t.first_requantized,
            "%zu layers were quantized again: their codes differ from the original's, but are as "
            "near as two quantizations of the same weights (relative distance up to %.3g)",
            t.requantized, t.largest);
    if (t.inputs)
        sb_check_find(check, 14, SB_LEVEL_warn, t.first_input,
                      "%zu input scales differ from the original: they were calibrated again",
                      t.inputs);
}

/* --- what was compared ------------------------------------------------------------------------ */

static int all_pieces(const sb_unit *unit, int plain)
{
    for (size_t i = 0; i < unit->seen_count; i++)
        if (plain ? !unit->seen[i].plain.compared : !unit->seen[i].matched)
            return 0;
    return unit->seen_count > 0;
}

/* V-14: "It counts every tensor without a counterpart or a law" */
int sb_was_compared(const sb_unit *unit, unsigned part)
{
    if (unit->tensor)
        return unit->same.compared & 1 || unit->seen->plain.compared > 0;
    if (sb_unit_is_plain(unit))
        return all_pieces(unit, 1);
    if (!sb_unit_quantized(unit) || unit->same.compared >> part & 1)
        return sb_unit_quantized(unit);
    return !is_input(part) && part != SB_PART_pre_quant_scale && all_pieces(unit, 0);
}
