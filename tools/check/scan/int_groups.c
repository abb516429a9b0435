/* int_groups.c - checks 33 to 39: judges matrices of integers after all of them were scanned
 * (scan_int.c), so that each is compared with what is usual in the checkpoint. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/container/show.h"
#include "ref/formats/format.h"
#include "tools/check/scan/int_usual.h"
#include "tools/check/scan/ints.h"
#include "tools/check/scan/rows.h"

static const char *scale_name(const sb_member *m)
{
    return sb_tensor_with(m, m->matrix.quant.scales);
}

static const char *code_name(const sb_member *m)
{
    return sb_tensor_with(m, m->matrix.data);
}

static const unsigned char *zero_byte(const sb_matrix *m, uint32_t row, uint32_t col)
{
    uint64_t per = 32 / sb_format_bits(m->format), across = m->quant.stored_rows / per;
    return m->quant.zero_points + 4 * (col / m->quant.block_cols * across + row / per);
}

static unsigned scale_bytes(const sb_member *m)
{
    return (unsigned)sb_format_bytes(m->matrix.quant.scale_format);
}

#define PLACES(u, m, which, byte, bytes)                                                           \
    sb_show_places((u)->check, (m), &(m)->seen->ints.which, (byte), (bytes), &(sb_places_text){{0}})

/* --- 33 --------------------------------------------------------------------------------------- */

/* The version of a matrix's zero points, from its words: 1, 2, or 0 if they are neither. */
static int words_version(const sb_seen_int *s)
{
    return s->words_v1 == s->words ? 1 : s->words_v2 == s->words ? 2 : 0;
}

/* V-33: "Words of another convention than most layers have" */
static void judge_version(sb_int_usual *u, const sb_member *m, const sb_declaration *said)
{
    const sb_seen_int *s = &m->seen->ints;
    int version = words_version(s);
    int expected = said->packing == SB_PACKED_GPTQ      ? 1
                   : said->packing == SB_PACKED_GPTQ_V2 ? 2
                   : u->v1 >= u->v2                     ? 1
                                                        : 2;
    if (version && u->v1 && u->v2 && version != (u->v1 >= u->v2 ? 1 : 2))
        sb_check_find(u->check, 33, SB_LEVEL_fatal, sb_tensor_with(m, m->matrix.quant.zero_points),
                      "zero points are stored as v%d (0x%08" PRIx32
                      "), in most layers as v%d: every weight is off by one step",
                      version, sb_load_u32(m->matrix.quant.zero_points), version == 1 ? 2 : 1);
    else if (version && version != expected && (u->v1 == 0 || u->v2 == 0) && u->versions > 1) {
        if (u->told_version++ == 0)
            sb_check_find(u->check, 33, SB_LEVEL_fatal, "",
                          "the zero points of all %" PRIu64
                          " layers are stored as v%d (0x%08" PRIx32
                          "), but v%d is declared: every weight is off by one step",
                          u->versions, version, sb_load_u32(m->matrix.quant.zero_points), expected);
    } else if (version && version != expected)
        sb_check_find(u->check, 33, SB_LEVEL_fatal, sb_tensor_with(m, m->matrix.quant.zero_points),
                      "zero points are stored as v%d (0x%08" PRIx32 "), but v%d is declared: every "
                      "weight is off by one step",
                      version, sb_load_u32(m->matrix.quant.zero_points), expected);
    else if (!version && said->answer == SB_DECLARED_YES && said->symmetric)
        sb_check_find(u->check, 33, SB_LEVEL_fatal, sb_tensor_with(m, m->matrix.quant.zero_points),
                      "symmetric codes are declared, but %" PRIu64 " of %" PRIu32
                      " words of zero points are not those of symmetric codes%s: %s",
                      s->other_word.count
                          ? s->other_word.count
                          : (uint64_t)(s->words_v1 < s->words_v2 ? s->words_v1 : s->words_v2),
                      s->words, s->other_word.count ? "" : ", but v1 and v2 are mixed",
                      PLACES(u, m, other_word, zero_byte, 4));
}

/* V-33: "zero points other than 8 where zero_point is false" */
static void judge_awq_zeros(const sb_int_usual *u, const sb_member *m, const sb_declaration *said)
{
    const sb_seen_int *s = &m->seen->ints;
    if (s->words && s->words_v2 != s->words && s->words_v1 != s->words &&
        said->answer == SB_DECLARED_YES && said->symmetric)
        sb_check_find(u->check, 33, SB_LEVEL_error, sb_tensor_with(m, m->matrix.quant.zero_points),
                      "%" PRIu32 " of %" PRIu32
                      " words have zero points other than 8, but no zero points are declared (%s): "
                      "engines that follow the declaration decode other weights",
                      s->words - s->words_v2, s->words, said->rule);
}

static void judge_zeros(sb_int_usual *u, const sb_member *m, const sb_declaration *said)
{
    const sb_quant *q = &m->matrix.quant;
    const sb_seen_int *s = &m->seen->ints;
    if (s->words && q->zeros != SB_ZEROS_awq)
        judge_version(u, m, said);
    else
        judge_awq_zeros(u, m, said);
    /* V-33: "all words of an AWQ layer are 0x77777777" */
    if (s->words && q->zeros == SB_ZEROS_awq && s->words_v1 == s->words)
        sb_check_find(u->check, 33, SB_LEVEL_fatal, sb_tensor_with(m, q->zero_points),
                      "all zero points are 7, one less than those of symmetric codes: AWQ stores "
                      "zero points without subtracting one, so every weight is off by one step");
    if (m->unit->found.container != SB_CONTAINER_int_ct || said->answer != SB_DECLARED_YES)
        return;
    if (said->symmetric && q->zeros == SB_ZEROS_rows)
        sb_check_find(u->check, 33, SB_LEVEL_error, sb_tensor_with(m, q->zero_points),
                      "zero points are stored, but symmetric codes are declared: engines that "
                      "follow the declaration ignore the zero points");
    else if (!said->symmetric && q->zeros == SB_ZEROS_none)
        sb_check_find(u->check, 33, SB_LEVEL_fatal, code_name(m),
                      "has no weight_zero_point, but zero points are declared");
}

/* --- 34 --------------------------------------------------------------------------------------- */

/* V-34: "Negative scales are normal" */
static void judge_signs(const sb_int_usual *u, const sb_member *m, const sb_declaration *said)
{
    const sb_seen_int *s = &m->seen->ints;
    int signed_by = u->producer == SB_PRODUCER_auto_round &&
                    !(said->answer == SB_DECLARED_YES && !said->symmetric);
    /* V-34: "a quarter of all scales of a symmetric checkpoint" */
    int usual = 4 * u->negative >= u->groups && m->matrix.quant.zeros != SB_ZEROS_awq;
    if (s->negative && !signed_by && !usual)
        sb_check_find(u->check, 34, SB_LEVEL_error, scale_name(m),
                      "%" PRIu32 " of %" PRIu32
                      " scales are negative, and %s does not write negative scales: %s",
                      s->negative, s->groups, sb_producer_name(u->producer),
                      PLACES(u, m, below_zero, sb_scale_byte, scale_bytes(m)));
}

/* V-34: "A matrix without a negative scale in such a checkpoint"; "INT8 with a scale per row is
 * left out: another program added it" */
static void judge_unsigned(const sb_int_usual *u, const sb_member *m)
{
    const sb_seen_int *s = &m->seen->ints;
    double chance = 1;
    int added = m->unit->found.container == SB_CONTAINER_int8_channel;
    if (s->negative || 4 * u->negative < u->groups || m->matrix.quant.zeros == SB_ZEROS_awq ||
        added)
        return;
    for (uint32_t i = 0; i < s->live && chance > 1e-9; i++)
        chance *= 1 - (double)u->negative / (double)u->groups;
    if (chance <= 1e-9)
        sb_check_find(u->check, 34, SB_LEVEL_warn, scale_name(m),
                      "none of %" PRIu32 " scales is negative, but %" PRIu64 " of %" PRIu64
                      " in the checkpoint are: the signs may be lost",
                      s->groups, u->negative, u->groups);
}

static void judge_scales(const sb_int_usual *u, const sb_member *m)
{
    const sb_seen_int *s = &m->seen->ints;
    if (s->bad_scale.count)
        sb_check_find(u->check, 34, SB_LEVEL_fatal, scale_name(m),
                      "%" PRIu64 " of %" PRIu32 " scales are NaN or infinite: %s",
                      s->bad_scale.count, s->groups,
                      PLACES(u, m, bad_scale, sb_scale_byte, scale_bytes(m)));
    if (s->zero_scale.count)
        sb_check_find(u->check, 34, SB_LEVEL_error, scale_name(m),
                      "%" PRIu64 " of %" PRIu32 " scales are 0: %s", s->zero_scale.count, s->groups,
                      PLACES(u, m, zero_scale, sb_scale_byte, scale_bytes(m)));
    if (s->high_scale.count)
        sb_check_find(u->check, 34, SB_LEVEL_error, scale_name(m),
                      "%" PRIu64 " of %" PRIu32 " scales give weights above 1e3: %s",
                      s->high_scale.count, s->groups,
                      PLACES(u, m, high_scale, sb_scale_byte, scale_bytes(m)));
}

/* V-34: "one WARN for the checkpoint" */
static void tell_low(const sb_int_usual *u)
{
    const sb_units *units = &u->check->self.units;
    const sb_member *first = NULL;
    uint64_t count = 0, groups = 0;
    for (size_t i = 0; i < units->member_count; i++) {
        const sb_member *m = &units->members[i];
        if (!sb_int_member(m) || !m->seen->ints.low_scales)
            continue;
        first = count++ ? first : m;
        groups += m->seen->ints.low_scales;
    }
    if (first)
        sb_check_find(
            u->check, 34, SB_LEVEL_warn, count == 1 ? scale_name(first) : "",
            "%" PRIu64 " F16 scales in %" PRIu64
            " layers are below 1e-5 (with 8 bits: 1e-5 / 16), where F16 has few digits: %s",
            groups, count, SB_SHOW(scale_name(first)));
}

/* --- 35, 36 ----------------------------------------------------------------------------------- */

/* V-35: "fewer than half of the groups", "all but one in a thousand" */
static void judge_extremes(const sb_int_usual *u, const sb_member *m)
{
    const sb_seen_int *s = &m->seen->ints;
    int usual = u->live >= 100 && 1000 * u->inner <= u->live;
    if (2 * s->inner.count > s->live || (usual && s->inner.count))
        sb_check_find(u->check, 35, SB_LEVEL_warn, scale_name(m),
                      "%" PRIu64 " of %" PRIu32 " groups reach no code at the ends of the range%s: "
                      "%s",
                      s->inner.count, s->live, usual ? ", and those of the other layers do" : "",
                      PLACES(u, m, inner, sb_scale_byte, scale_bytes(m)));
    if (s->dead.count)
        sb_check_find(u->check, 35, SB_LEVEL_warn, scale_name(m),
                      "%" PRIu64
                      " groups have only the code of 0, but a scale that zeros do not get: %s",
                      s->dead.count, PLACES(u, m, dead, sb_scale_byte, scale_bytes(m)));
}

/* V-36: "A bin between two bins that each hold at least 3 % holds less than half of the lesser" */
static int has_two_modes(const uint32_t *steps, uint64_t count)
{
    for (unsigned b = 2; b < 14; b++) {
        uint32_t before = 0, behind = 0;
        /* the two end bins are left out, because they also hold clamped codes */
        for (unsigned i = 1; i < 15; i++) {
            if (i < b)
                before = steps[i] > before ? steps[i] : before;
            if (i > b)
                behind = steps[i] > behind ? steps[i] : behind;
        }
        uint64_t lesser = before < behind ? before : behind;
        if (100 * lesser >= 3 * count && 2 * (uint64_t)steps[b] < lesser)
            return 1;
    }
    return 0;
}

/* V-36: "within 1.5 % of 6.25 %" */
static int is_uniform(const uint32_t *steps, uint64_t count)
{
    for (unsigned i = 0; i < 16; i++)
        if (10000 * (uint64_t)steps[i] > 775 * count || 10000 * (uint64_t)steps[i] < 475 * count)
            return 0;
    return 1;
}

/* V-36: "a byte for each code" */
static void judge_outside(const sb_int_usual *u, const sb_member *m)
{
    const sb_seen_int *s = &m->seen->ints;
    sb_int_range range = sb_int_range_in(&m->matrix);
    if (s->outside.count)
        sb_check_find(u->check, 36, SB_LEVEL_error, code_name(m),
                      "%" PRIu64 " groups have codes outside of %d to %d, the range of %u bits: %s",
                      s->outside.count, range.least, range.most, m->matrix.quant.code_bits,
                      PLACES(u, m, outside, sb_code_byte, 1));
}

static void judge_histogram(const sb_int_usual *u, const sb_member *m)
{
    const uint32_t *steps = m->seen->ints.steps;
    uint64_t count = 0;
    int64_t sum = 0;
    unsigned mode = 0;
    int wide = sb_int_is_wide(&m->matrix);
    for (unsigned i = 0; i < 16; i++) {
        count += steps[i];
        sum += (int64_t)steps[i] * (wide ? 2 * (int)i - 15 : 2 * ((int)i - 8));
        mode = steps[i] > steps[mode] ? i : mode;
    }
    if (count < 4096 || 10 * m->seen->ints.live < m->seen->ints.groups)
        return;
    const char *what = is_uniform(steps, count)      ? "are all equally frequent, like random bytes"
                       : mode == 0 || mode == 15     ? "are most frequent at an end of the range"
                       : has_two_modes(steps, count) ? "have two peaks"
                       : sum > (int64_t)count        ? "lie more than half a step above zero on "
                                                       "average: the zero point may be wrong"
                       : sum < -(int64_t)count       ? "lie more than half a step below zero on "
                                                       "average: the zero point may be wrong"
                                                     : NULL;
    if (what)
        sb_check_find(u->check, 36, SB_LEVEL_warn, code_name(m),
                      "the codes, with zero points subtracted, %s", what);
}

/* --- 37, 39 ----------------------------------------------------------------------------------- */

/* V-37: "act order is not declared, column k belongs to group k / group size" */
static void judge_order(const sb_int_usual *u, const sb_member *m, const sb_declaration *said)
{
    const sb_quant *q = &m->matrix.quant;
    uint32_t k = 0;
    if (!q->group_index || said->answer != SB_DECLARED_YES || said->act_order)
        return;
    while (k + 1 < m->matrix.cols &&
           sb_load_u32(q->group_index + 4 * (size_t)k) == k / q->block_cols)
        k++;
    sb_check_find(u->check, 37, SB_LEVEL_fatal, sb_tensor_with(m, q->group_index),
                  "column %" PRIu32 " is in group %" PRIu32 ", expected %" PRIu32
                  ", because act order is not declared",
                  k, sb_load_u32(q->group_index + 4 * (size_t)k), k / q->block_cols);
}

/* The number of columns of a group; the last group may be smaller. */
static uint32_t columns_of(const sb_quant *q, uint32_t group, uint32_t cols)
{
    uint32_t first = group * q->block_cols;
    return cols - first < q->block_cols ? cols - first : q->block_cols;
}

/* V-37: "each group has as many columns as the others" */
static void judge_balance(const sb_int_usual *u, const sb_member *m, const sb_declaration *said)
{
    const sb_quant *q = &m->matrix.quant;
    uint32_t cols = m->matrix.cols, bad = 0, at = 0, found = 0;
    uint32_t *of = q->group_index ? sb_alloc(q->groups, sizeof *of) : NULL;
    if (!of || (said->answer == SB_DECLARED_YES && !said->act_order)) { /* judge_order handles it */
        free(of);
        return;
    }
    for (uint32_t k = 0; k < cols; k++) {
        uint32_t g = sb_load_u32(q->group_index + 4 * (size_t)k);
        if (g < q->groups)
            of[g]++;
    }
    for (uint32_t g = 0; g < q->groups; g++)
        if (of[g] != columns_of(q, g, cols) && bad++ == 0) {
            at = g;
            found = of[g];
        }
    if (bad)
        sb_check_find(u->check, 37, SB_LEVEL_error, sb_tensor_with(m, q->group_index),
                      "%" PRIu32 " of %" PRIu32
                      " groups have a wrong number of columns: group %" PRIu32 " has %" PRIu32
                      ", expected %" PRIu32 "; columns are decoded with scales of other groups",
                      bad, q->groups, at, found, columns_of(q, at, cols));
    free(of);
}

/* V-37: "Every entry of g_idx is 0 to G - 1" - for layers that could not be read, possibly for this
 * reason. */
static void judge_index(sb_check *check, const sb_unit *unit)
{
    const sb_found *f = &unit->found;
    const sb_tensor *t =
        f->part[SB_PART_g_idx] ? f->part[SB_PART_g_idx] : f->part[SB_PART_weight_g_idx];
    uint32_t groups = f->matrix.quant.groups, first = 0;
    uint64_t bad = 0, count = t ? t->bytes / 4 : 0, at = 0;
    if (!unit->status || !count || !groups || t->dtype != SB_DTYPE_I32)
        return;
    for (uint64_t k = 0; k < count; k++)
        if (sb_load_u32(t->data + 4 * k) >= groups && bad++ == 0) {
            at = k;
            first = sb_load_u32(t->data + 4 * k);
        }
    if (bad && bad < count)
        sb_check_find(check, 37, SB_LEVEL_fatal, t->name,
                      "%" PRIu64 " of %" PRIu64 " columns are in groups that do not exist: column "
                      "%" PRIu64 " in %" PRId64 ", expected 0 to %" PRIu32,
                      bad, count, at, (int64_t)(int32_t)first, groups - 1);
}

/* V-39: "They are N and K of the configuration" */
/* V-39: "another declared width" */
static int is_declared_width(const sb_check *check, const sb_unit *unit, uint64_t bits)
{
    sb_declaration d;
    sb_error why;
    return check->self.declared && bits != 4 && bits != 8 &&
           sb_declared_for(check->self.declared, unit->name, &d, &why) == SB_OK &&
           d.answer == SB_DECLARED_YES && d.bits == bits;
}

static void judge_shape(sb_check *check, const sb_unit *unit)
{
    const sb_tensor *t = unit->found.part[SB_PART_weight_shape];
    const sb_tensor *codes = unit->found.part[SB_PART_weight_packed];
    const sb_expected *x = unit->expected;
    if (!t || t->dtype != SB_DTYPE_I64 || t->bytes != 16)
        return;
    uint64_t n = sb_load_u64(t->data), k = sb_load_u64(t->data + 8);
    if (x && x->rank >= 2 && (n != x->shape[x->rank - 2] || k != x->shape[x->rank - 1])) {
        sb_check_find(check, 39, SB_LEVEL_fatal, t->name,
                      "says [%" PRIu64 ", %" PRIu64 "], expected [%" PRIu64 ", %" PRIu64
                      "] from the configuration",
                      n, k, x->shape[x->rank - 2], x->shape[x->rank - 1]);
        return;
    }
    if (!codes || codes->rank < 2)
        return;
    uint64_t words = codes->shape[codes->rank - 1], bits = k ? 32 * words / k : 0;
    if (k && k * bits == 32 * words && is_declared_width(check, unit, bits))
        return; /* check 4 refuses it because of its container */
    if (n != codes->shape[codes->rank - 2] || (words * 8 != k && words * 4 != k))
        sb_check_find(check, 39, SB_LEVEL_fatal, t->name,
                      "says [%" PRIu64 ", %" PRIu64 "], but the codes are [%" PRIu64 ", %" PRIu64
                      "] words",
                      n, k, codes->shape[codes->rank - 2], words);
}

/* --- all -------------------------------------------------------------------------------------- */

static int words_are_symmetric(const sb_seen_int *s)
{
    return s->words && (s->words_v1 == s->words || s->words_v2 == s->words);
}

/* V-33: "no matrix has other zero points than symmetric codes have" */
static void tell_symmetric(sb_check *check)
{
    const sb_units *units = &check->self.units;
    uint64_t count = 0;
    for (size_t i = 0; i < units->member_count; i++) {
        const sb_member *m = &units->members[i];
        sb_declaration said;
        sb_error err;
        if (!sb_int_member(m) || m->unit->found.container != SB_CONTAINER_int_gptq)
            continue;
        if (!words_are_symmetric(&m->seen->ints) ||
            sb_declared_for(check->self.declared, m->unit->name, &said, &err) ||
            said.answer != SB_DECLARED_YES || said.symmetric)
            return;
        count++;
    }
    if (count)
        sb_check_find(check, 33, SB_LEVEL_warn, "",
                      "sym is false, but all zero points of all %" PRIu64
                      " layers are those of symmetric codes: the declaration may belong to another "
                      "checkpoint",
                      count);
}

static void judge_matrix(sb_int_usual *u, const sb_member *m)
{
    sb_declaration said;
    sb_error err;
    if (sb_found_origin(u->check->self.checkpoint, &m->unit->found) ||
        sb_declared_for(u->check->self.declared, m->unit->name, &said, &err))
        said = (sb_declaration){.answer = SB_DECLARED_UNKNOWN, .rule = ""};
    judge_zeros(u, m, &said);
    judge_scales(u, m);
    judge_signs(u, m, &said);
    judge_unsigned(u, m);
    judge_extremes(u, m);
    judge_outside(u, m);
    judge_histogram(u, m);
    judge_order(u, m, &said);
    judge_balance(u, m, &said);
    sb_judge_int_distance(u, m);
}

void sb_check_int_groups(sb_check *check)
{
    const sb_units *units = &check->self.units;
    sb_int_usual u;
    sb_int_usual_make(check, &u);
    for (size_t i = 0; i < units->member_count && u.matrices; i++)
        if (sb_int_member(&units->members[i]))
            judge_matrix(&u, &units->members[i]);
    tell_low(&u);
    tell_symmetric(check);
    for (size_t i = 0; i < units->count; i++) {
        judge_index(check, &units->rows[i]);
        judge_shape(check, &units->rows[i]);
    }
}
