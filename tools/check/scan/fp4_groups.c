/* fp4_groups.c - compares FP4 matrices: layers that engines fuse, and traces of several tools. */
#include "tools/check/scan/fp4.h"

#include <float.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/container/show.h"

const sb_member *sb_fused_sibling(const sb_units *units, const sb_member *member, const char *last)
{
    char plain[SB_MAX_TENSOR_NAME + 32];
    const char *dot = strrchr(member->plain, '.');
    if (!dot)
        return NULL;
    snprintf(plain, sizeof plain, "%.*s%s", (int)(dot + 1 - member->plain), member->plain, last);
    return sb_member_plain(units, plain);
}

unsigned sb_fused_group(const sb_units *units, const sb_member *member, unsigned set,
                        const sb_member *group[SB_FUSED_MOST])
{
    const char *const *names = sb_fused_sets[set];
    const char *dot = strrchr(member->plain, '.');
    unsigned count = 0, in = 0;
    for (unsigned i = 0; i < SB_FUSED_MOST && names[i] && dot; i++)
        in |= strcmp(dot + 1, names[i]) == 0;
    for (unsigned i = 0; i < SB_FUSED_MOST && names[i] && in; i++) {
        const sb_member *m = sb_fused_sibling(units, member, names[i]);
        if (m && m->seen->done)
            group[count++] = m;
    }
    return count > 1 && group[0] == member ? count : 0;
}

int sb_member_fp4(const sb_member *m)
{
    return m->matrix.format == SB_FORMAT_e2m1 && m->matrix.quant.scales && m->seen->done;
}

int sb_member_has_global(const sb_member *m)
{
    const sb_factor *f = &m->matrix.quant.factor;
    return f->kind != SB_NO_FACTOR && f->value >= FLT_MIN && f->value <= FLT_MAX &&
           m->matrix.quant.scale_format == SB_FORMAT_e4m3;
}

const char *sb_member_global(const sb_member *m)
{
    int ct = m->unit->found.part[SB_PART_weight_global_scale] != NULL;
    return sb_unit_tensor(m->unit, ct ? SB_PART_weight_global_scale : SB_PART_weight_scale_2);
}

/* --- 26 --------------------------------------------------------------------------------------- */

static int equal(const sb_member *a, const sb_member *b)
{
    return sb_bits_f32(a->matrix.quant.factor.value) == sb_bits_f32(b->matrix.quant.factor.value);
}

/* Fills group with the fused matrices and returns their number, if all have a global scale in the
 * same direction; else returns 0. */
static unsigned comparable(const sb_units *u, const sb_member *m, unsigned set,
                           const sb_member *group[SB_FUSED_MOST])
{
    unsigned count =
        sb_member_fp4(m) && sb_member_has_global(m) ? sb_fused_group(u, m, set, group) : 0;
    for (unsigned i = 0; i < count; i++)
        if (!sb_member_fp4(group[i]) || !sb_member_has_global(group[i]) ||
            group[i]->matrix.quant.factor.kind != m->matrix.quant.factor.kind)
            return 0;
    return count;
}

static int all_equal(const sb_member *const *group, unsigned count)
{
    for (unsigned i = 1; i < count; i++)
        if (!equal(group[0], group[i]))
            return 0;
    return 1;
}

static int float_order(const void *a, const void *b)
{
    float x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

/* The median global scale of the matrices with this name; 0 if there are too few. */
static double typical(const sb_units *u, const sb_member *of)
{
    size_t count = 0;
    const char *last = strrchr(of->plain, '.');
    float *values = sb_alloc(u->member_count, sizeof *values);
    for (size_t i = 0; i < u->member_count && values && last; i++) {
        const sb_member *m = &u->members[i];
        const char *dot = strrchr(m->plain, '.');
        if (sb_member_fp4(m) && sb_member_has_global(m) && dot && strcmp(dot, last) == 0 &&
            strcmp(m->unit->kind, of->unit->kind) == 0)
            values[count++] = m->matrix.quant.factor.value;
    }
    double median = 0;
    if (count >= 8) {
        qsort(values, count, sizeof *values, float_order);
        median = (double)values[count / 2];
    }
    free(values);
    return median;
}

/* How much a global scale differs from the others of its name, as a factor. */
static double unlike(const sb_units *u, const sb_member *m)
{
    double median = typical(u, m), v = (double)m->matrix.quant.factor.value;
    return median > 0 ? v > median ? v / median : median / v : 1;
}

/* The member to blame: the odd one of three, the one far from its original, or the one that differs
 * more from the others of its name. */
static const sb_member *odd_one(const sb_units *u, const sb_member *const *group, unsigned count,
                                int thorough)
{
    const sb_member *worst = group[count - 1];
    double most = 0;
    for (unsigned i = 0; i < count && count == 3; i++)
        if (equal(group[(i + 1) % 3], group[(i + 2) % 3]))
            return group[i];
    for (unsigned i = 0; i < count; i++)
        if (sb_fp4_distance(group[i]->seen) > 0.15)
            return group[i];
    for (unsigned i = 0; i < count && thorough; i++) {
        double x = unlike(u, group[i]);
        if (x >= most) {
            most = x;
            worst = group[i];
        }
    }
    return worst;
}

static const char *list_group(const sb_member *const *group, unsigned count, char *text,
                              size_t size)
{
    size_t n = 0;
    for (unsigned i = 0; i < count && n < size; i++) {
        const char *dot = strrchr(group[i]->plain, '.');
        n += (size_t)snprintf(text + n, size - n, "%s%s %.9g", i ? ", " : "",
                              SB_SHOW(dot ? dot + 1 : group[i]->plain),
                              (double)group[i]->matrix.quant.factor.value);
    }
    return text;
}

/* The result for one set of fused layers over the whole checkpoint. */
typedef struct fused {
    uint32_t groups, different;
    const sb_member *first; /* the first group that differs */
} fused;

static void tell_one(sb_check *check, const sb_member *const *group, unsigned count, sb_level level,
                     int thorough)
{
    char text[512];
    const sb_member *odd = odd_one(&check->self.units, group, count, thorough);
    sb_check_find(check, 26, level, sb_member_global(odd),
                  "%s: the global scales of layers that engines fuse differ: %s",
                  SB_SHOW(odd->name), list_group(group, count, text, sizeof text));
}

static void tell_many(sb_check *check, const fused *f, unsigned set)
{
    char text[512];
    const sb_member *group[SB_FUSED_MOST];
    int ct = f->first->matrix.quant.factor.kind == SB_DIVISOR;
    unsigned count = comparable(&check->self.units, f->first, set, group);
    sb_level level = set >= 2 ? SB_LEVEL_info : ct ? SB_LEVEL_warn : SB_LEVEL_error;
    sb_check_find(check, 26, level, sb_member_global(f->first),
                  "the global scales of layers that engines fuse differ in %" PRIu32 " of %" PRIu32
                  " groups, the first: %s%s",
                  f->different, f->groups, list_group(group, count, text, sizeof text),
                  set == 1 && ct ? " (model_free_ptq does not fuse experts)" : "");
}

/* V-26: "bit by bit the same global scale" */
static void check_fused(sb_check *check, unsigned set)
{
    const sb_units *u = &check->self.units;
    const sb_member *group[SB_FUSED_MOST];
    fused f = {0, 0, NULL};
    for (size_t i = 0; i < u->member_count; i++) {
        unsigned count = comparable(u, &u->members[i], set, group);
        f.groups += count > 0;
        if (count == 0 || all_equal(group, count))
            continue;
        f.first = f.different++ ? f.first : &u->members[i];
    }
    if (f.different == 0)
        return;
    if (f.different > 1 && f.different > f.groups / 20) {
        tell_many(check, &f, set);
        return;
    }
    /* no producer promises equal scales for these sets, and fewer than three groups show no
     * pattern */
    if (set >= 2 && f.groups < 3) {
        tell_many(check, &f, set);
        return;
    }
    for (size_t i = 0; i < u->member_count; i++) {
        unsigned count = comparable(u, &u->members[i], set, group);
        if (count && !all_equal(group, count))
            tell_one(check, group, count, set >= 2 ? SB_LEVEL_warn : SB_LEVEL_error,
                     f.different <= 16);
    }
}

/* --- 22, and the encoder that wrote the codes ------------------------------------------------- */

/* V-22: "conventions of more than one producer" */
static void check_zero_blocks(sb_check *check)
{
    static const char *const names[5] = {"0x00", "0x01", "0x20", "0x38", "0x7e"};
    const sb_units *u = &check->self.units;
    uint32_t count[5] = {0};
    const sb_member *first[5] = {NULL};
    unsigned kinds = 0, rarest = 0;
    for (size_t i = 0; i < u->member_count; i++)
        for (unsigned b = 0; b < 5 && sb_member_fp4(&u->members[i]); b++)
            if (u->members[i].seen->fp4.zero_bytes >> b & 1u) {
                first[b] = count[b]++ ? first[b] : &u->members[i];
            }
    for (unsigned b = 0; b < 5; b++) {
        if (count[b] == 0 || b == 1) /* tiny weights also give the smallest scale */
            continue;
        rarest = kinds++ == 0 || count[b] < count[rarest] ? b : rarest;
    }
    if (kinds > 1)
        sb_check_find(check, 22, SB_LEVEL_info,
                      sb_unit_tensor(first[rarest]->unit, SB_PART_weight_scale),
                      "all-zero blocks have scale byte %s here and in %" PRIu32
                      " matrices (0x00: %" PRIu32 ", 0x20: %" PRIu32 ", 0x38: %" PRIu32
                      ", 0x7e: %" PRIu32 "): tensors come from different tools",
                      names[rarest], count[rarest] - 1, count[0], count[2], count[3], count[4]);
}

/* V-20: "code 8 stands for values that were rounded to zero from below" */
static void check_minus_zero(sb_check *check)
{
    const sb_units *u = &check->self.units;
    uint32_t with = 0, without = 0;
    const sb_member *first = NULL;
    for (size_t i = 0; i < u->member_count; i++) {
        const sb_seen_fp4 *s = &u->members[i].seen->fp4;
        if (!sb_member_fp4(&u->members[i]) || s->magnitude[0] < 64 + 32 * (uint64_t)s->zero_blocks)
            continue;
        with += s->minus_zero > 0;
        if (s->minus_zero == 0)
            first = without++ ? first : &u->members[i];
    }
    if (without)
        sb_check_find(
            check, 20, SB_LEVEL_info, sb_unit_tensor(first->unit, SB_PART_COUNT),
            "%" PRIu32 " of %" PRIu32 " matrices, this one first, have no code 8 (-0): their "
            "encoder drops the sign of values that it rounds to zero%s",
            without, with + without, with ? ", and the encoder of the others does not" : "");
}

/* V-15: "Scales below 2^-6 over codes are an INFO" */
static void check_flushed(sb_check *check)
{
    enum { LINES = 16 };
    const sb_units *u = &check->self.units;
    uint32_t matrices = 0;
    for (size_t i = 0; i < u->member_count; i++) {
        const sb_member *m = &u->members[i];
        const sb_fp4_places *p = &m->seen->fp4.flushed;
        if (!sb_member_fp4(m) || p->count == 0 || matrices++ >= LINES)
            continue;
        sb_check_find(
            check, 15, SB_LEVEL_info, sb_unit_tensor(m->unit, SB_PART_weight_scale),
            "%s: %" PRIu32
            " block scales of codes other than 0 are below 2^-6, the first in row %" PRIu32
            ", block %" PRIu32 ": vLLM's Marlin kernel reads them as zero",
            SB_SHOW(m->name), p->count, p->row, p->block);
    }
    if (matrices > LINES)
        sb_check_find(
            check, 15, SB_LEVEL_info, "",
            "%" PRIu32
            " more matrices have block scales below 2^-6, which vLLM's Marlin kernel reads as zero",
            matrices - LINES);
}

void sb_check_fp4_groups(sb_check *check)
{
    sb_fp4_rules(check);
    for (unsigned set = 0; set < SB_FUSED_SETS; set++)
        check_fused(check, set);
    check_zero_blocks(check);
    check_minus_zero(check);
    check_flushed(check);
}
