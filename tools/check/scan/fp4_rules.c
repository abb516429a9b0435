/* fp4_rules.c - rules that hold for one way to choose scales and codes. The files do not say which
 * way was used. V-19: "it is applied to the matrices of a kind together" (fp4_ask.c). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/container/show.h"
#include "tools/check/scan/fp4.h"

static int is_mx(const sb_member *m)
{
    return m->matrix.quant.scale_format == SB_FORMAT_e8m0;
}

static const char *codes_of(const sb_member *m)
{
    return sb_unit_tensor(m->unit, SB_PART_COUNT);
}

static const char *scales_of(const sb_member *m)
{
    return sb_unit_tensor(m->unit, SB_PART_weight_scale);
}

/* --- 17 --------------------------------------------------------------------------------------- */

int sb_near_bf16(double x)
{
    uint32_t low = sb_bits_f32((float)x) & 0xffffu;
    return low <= 3 || low >= 0x10000u - 3;
}

/* V-17: "the number that a BF16 magnitude gives" */
static sb_answer ask_lattice(const sb_check *check, const sb_member *m, int six)
{
    const sb_factor *f = &m->matrix.quant.factor;
    (void)check, (void)six;
    if (!sb_member_has_global(m))
        return SB_NOT_ASKED;
    double v = (double)f->value, multiplier = f->kind == SB_DIVISOR ? 1 / v : v;
    return (sb_bits_f32(f->value) & 0xffffu) == 0 || sb_near_bf16(1 / multiplier) ||
                   sb_near_bf16(2688 * multiplier) || sb_near_bf16(1536 * multiplier)
               ? SB_OBEYED
               : SB_BROKEN;
}

static void tell_lattice(const sb_check *check, const sb_member *m, char *text, size_t size)
{
    (void)check;
    snprintf(text, size, "the global scale %.9g does not follow from a largest weight in BF16",
             (double)m->matrix.quant.factor.value);
}

/* --- 18 --------------------------------------------------------------------------------------- */

static int same_global(const sb_member *a, const sb_member *b)
{
    return sb_member_has_global(b) && a->matrix.quant.factor.kind == b->matrix.quant.factor.kind &&
           sb_bits_f32(a->matrix.quant.factor.value) == sb_bits_f32(b->matrix.quant.factor.value);
}

unsigned sb_fp4_group_largest(const sb_units *units, const sb_member *m)
{
    unsigned largest = m->seen->fp4.largest_scale;
    const char *last = strrchr(m->plain, '.');
    for (unsigned s = 0; s < SB_FUSED_SETS && last; s++) {
        int of = 0;
        for (unsigned i = 0; i < SB_FUSED_MOST && sb_fused_sets[s][i]; i++)
            of |= strcmp(last + 1, sb_fused_sets[s][i]) == 0;
        for (unsigned i = 0; i < SB_FUSED_MOST && sb_fused_sets[s][i] && of; i++) {
            const sb_member *x = sb_fused_sibling(units, m, sb_fused_sets[s][i]);
            if (x && sb_member_fp4(x) && same_global(m, x) && x->seen->fp4.largest_scale > largest)
                largest = x->seen->fp4.largest_scale;
        }
    }
    return largest;
}

/* V-18: "over the fused layers that share the global scale" */
static sb_answer ask_saturation(const sb_check *check, const sb_member *m, int six)
{
    const sb_seen_fp4 *s = &m->seen->fp4;
    if (!sb_member_has_global(m) || s->zero_blocks == s->blocks)
        return SB_NOT_ASKED;
    unsigned largest = sb_fp4_group_largest(&check->self.units, m);
    if (six)
        return largest == 0x7e ? SB_OBEYED : SB_BROKEN;
    return largest >= 0x78 && largest <= 0x7c ? SB_OBEYED : SB_BROKEN;
}

static void tell_saturation(const sb_check *check, const sb_member *m, char *text, size_t size)
{
    snprintf(text, size,
             "the largest block scale under the global scale %.9g is 0x%02x here and 0x%02x with "
             "the layers that are fused with it, expected 0x7e (0x78 to 0x7c where all matrices of "
             "the kind map blocks to 4 or 6): the global scale belongs to other block scales",
             (double)m->matrix.quant.factor.value, (unsigned)m->seen->fp4.largest_scale,
             sb_fp4_group_largest(&check->self.units, m));
}

/* --- 19 --------------------------------------------------------------------------------------- */

static sb_answer ask_block_max(const sb_check *check, const sb_member *m, int six)
{
    const sb_seen_fp4 *s = &m->seen->fp4;
    if (s->zero_blocks == s->blocks)
        return SB_NOT_ASKED;
    (void)check;
    return (six && !is_mx(m) ? s->not_six.count : s->not_four.count) ? SB_BROKEN : SB_OBEYED;
}

static void tell_block_max(const sb_check *check, const sb_member *m, char *text, size_t size)
{
    (void)check;
    const sb_seen_fp4 *s = &m->seen->fp4;
    const sb_fp4_places *p = s->not_four.count && is_mx(m) ? &s->not_four : &s->not_six;
    snprintf(text, size,
             "%" PRIu32 " of %" PRIu32 " blocks have no code of magnitude %s (%" PRIu32
             " of them have none of 6 either), the first is row %" PRIu32 ", block %" PRIu32
             ": codes and scales do not belong together",
             p->count, s->blocks, is_mx(m) ? "6 or 7" : "7", s->not_four.count, p->row, p->block);
}

/* --- 23, 25 ----------------------------------------------------------------------------------- */

static sb_answer ask_nearest(const sb_check *check, const sb_member *m, int six)
{
    const sb_seen_fp4 *s = &m->seen->fp4;
    (void)check, (void)six;
    if (!s->nearest || s->compared == 0 || sb_fp4_distance(m->seen) > 0.2)
        return SB_NOT_ASKED; /* fp4_judge.c has already reported it */
    return s->wrong > s->compared / 64 ? SB_BROKEN : SB_OBEYED;
}

static void tell_nearest(const sb_check *check, const sb_member *m, char *text, size_t size)
{
    (void)check;
    const sb_seen_fp4 *s = &m->seen->fp4;
    snprintf(text, size,
             "%" PRIu64 " of %" PRIu64
             " codes are not nearest codes to the original's weights, the first at row %" PRIu32
             ", column %" PRIu32 "; the relative error is %.4g",
             s->wrong, s->compared, s->first[0].row, s->first[0].column_code >> 4,
             sb_fp4_distance(m->seen));
}

static unsigned best_formula(const sb_seen_fp4 *s)
{
    unsigned best = 0;
    for (unsigned i = 1; i < SB_FP4_FORMULAS; i++)
        if (s->off[i].count < s->off[best].count)
            best = i;
    return best;
}

static sb_answer ask_scales(const sb_check *check, const sb_member *m, int six)
{
    const sb_seen_fp4 *s = &m->seen->fp4;
    (void)check, (void)six;
    if (!s->nearest || s->scales_compared == 0)
        return SB_NOT_ASKED;
    return s->off[best_formula(s)].count > s->scales_compared / 10 ? SB_BROKEN : SB_OBEYED;
}

static void tell_scales(const sb_check *check, const sb_member *m, char *text, size_t size)
{
    (void)check;
    const sb_seen_fp4 *s = &m->seen->fp4;
    unsigned best = best_formula(s);
    snprintf(text, size,
             "%" PRIu32 " of %" PRIu32
             " block scales are not what the original's blocks give under "
             "this global scale, %" PRIu32 " by more than one code",
             s->off[best].count, s->scales_compared, s->far[best]);
}

static const sb_rule rules[] = {
    {17, SB_LEVEL_error, sb_member_fp4, ask_lattice, sb_member_global, tell_lattice,
     "the weights that were quantized were not BF16, or scales were searched"},
    {18, SB_LEVEL_error, sb_member_fp4, ask_saturation, sb_member_global, tell_saturation,
     "scales were searched, or more layers share them than engines fuse"},
    {19, SB_LEVEL_error, sb_member_fp4, ask_block_max, codes_of, tell_block_max,
     "scales were searched, or codes were not rounded to nearest"},
    {23, SB_LEVEL_error, sb_member_fp4, ask_nearest, codes_of, tell_nearest,
     "codes were not rounded to nearest (GPTQ, AWQ, trained), or scales were changed after the "
     "rounding"},
    {25, SB_LEVEL_error, sb_member_fp4, ask_scales, scales_of, tell_scales,
     "scales were searched (MSE), or the weights were changed before"},
};

void sb_fp4_rules(sb_check *check)
{
    sb_ask(check, rules, sizeof rules / sizeof *rules);
}
