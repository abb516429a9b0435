/* fp4_judge.c - judges one matrix of FP4 codes by itself, after its last row. */
#include <float.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ref/container/show.h"
#include "tools/check/scan/fp4.h"
#include "tools/check/scan/recipe.h"

const char *sb_fp4_piece(const sb_panel *p, char *text, size_t size)
{
    text[0] = '\0';
    if (p->unit->found.experts)
        snprintf(text, size, "%s: ", SB_SHOW(p->name));
    return text;
}

typedef struct judge {
    const sb_fp4 *f;
    const sb_panel *p;
    const sb_seen_fp4 *seen;
    const char *codes, *scales, *global; /* names for findings */
    char piece[288];
} judge;

#define FIND(j, number, level, tensor, ...)                                                        \
    sb_find((j)->p->findings, (number), SB_LEVEL_##level, (tensor), __VA_ARGS__)

/* "row 17, block 3 (byte 123456 of its file)"; without the byte for a stack. */
static const char *scale_place(const judge *j, const sb_fp4_places *at, char *text, size_t size)
{
    uint64_t byte = (uint64_t)at->row * j->f->blocks + at->block;
    int n = snprintf(text, size, "row %" PRIu32 ", block %" PRIu32, at->row, at->block);
    if (!j->p->unit->found.experts)
        snprintf(text + n, size - (size_t)n, " (byte %" PRIu64 " of its file)",
                 sb_part_offset(j->p->check, j->p->unit, SB_PART_weight_scale, byte));
    return text;
}

static void judge_scale_bytes(const judge *j)
{
    char at[96];
    const sb_seen_fp4 *s = j->seen;
    if (s->nan_scale.count)
        FIND(j, 15, fatal, j->scales, "%s%" PRIu32 " block scales are NaN (%s), the first at %s",
             j->piece, s->nan_scale.count, j->f->mx ? "0xff" : "0x7f or 0xff",
             scale_place(j, &s->nan_scale, at, sizeof at));
    if (s->minus_scale.count)
        FIND(j, 15, fatal, j->scales,
             "%s%" PRIu32 " block scales have their sign bit set, the first at %s: tensor cores "
             "ignore it, other code does not",
             j->piece, s->minus_scale.count, scale_place(j, &s->minus_scale, at, sizeof at));
    if (s->vanished.count)
        FIND(j, 15, warn, j->scales,
             "%s%" PRIu32 " blocks have a zero scale and codes that are not zero, the first at %s",
             j->piece, s->vanished.count, scale_place(j, &s->vanished, at, sizeof at));
}

/* 1 if the original's largest weight is possible under this implied largest magnitude, which may
 * come from this matrix or from a fused partner. */
static int original_agrees(const judge *j, double largest)
{
    double own = (double)j->seen->master_largest;
    return j->seen->has_master && own <= largest * 1.02 && own >= largest / 64;
}

/* V-16: "the implied largest magnitude, A = 2688 m or 2688 / g" */
static void judge_global(const judge *j)
{
    const sb_factor *factor = &j->p->matrix.quant.factor;
    double v = (double)factor->value;
    if (factor->kind == SB_NO_FACTOR || j->f->mx)
        return;
    const char *what = factor->kind == SB_DIVISOR ? "divisor" : "multiplier";
    if (!(v > 0) || !(v <= (double)FLT_MAX)) {
        FIND(j, 16, fatal, j->global, "%sthe global scale is %g, expected a positive number (a %s)",
             j->piece, v, what);
        return;
    }
    double a = factor->kind == SB_DIVISOR ? 2688 / v : 2688 * v;
    double other = factor->kind == SB_DIVISOR ? 2688 * v : 2688 / v;
    if (j->seen->zero_blocks == j->seen->blocks || original_agrees(j, a))
        return;
    if (v < (double)FLT_MIN)
        FIND(j, 16, error, j->global, "%sthe global scale %g is subnormal", j->piece, v);
    else if (!(a >= 1e-4 && a <= 1e3) && other >= 1e-3 && other <= 100)
        FIND(j, 16, fatal, j->global,
             "%sthe global scale %g is a %s by its name, and gives a largest weight of %.4g; its "
             "reciprocal gives %.4g: the reciprocal was stored",
             j->piece, v, what, a, other);
    else if (!(a >= 1e-4 && a <= 1e3))
        FIND(j, 16, error, j->global,
             "%sthe global scale %g gives a largest weight of %.4g, expected 1e-4 to 1000%s",
             j->piece, v, a, v == 1 ? " (1 is often written as a placeholder)" : "");
    else if (!(a >= 1e-3 && a <= 100))
        FIND(j, 16, warn, j->global,
             "%sthe global scale %g gives a largest weight of %.4g, which is unusual", j->piece, v,
             a);
}

static double square(double x)
{
    return x * x;
}

/* V-20: "by more than a fifth": learned weights are not independent, and one sign may prevail */
static const double TILT = 0.2;

/* V-20: "a share of 12.5 %" of n */
static int is_an_eighth(double count, double n)
{
    double off = count > n / 8 ? count - n / 8 : n / 8 - count;
    return off <= 0.003 * n || square(off - 0.003 * n) <= 9 * 0.109 * n;
}

/* V-20: "The numbers of codes below and above zero are far apart" and "a share of 12.5 % for all
 * eight magnitudes" */
static void judge_histogram(const judge *j)
{
    const sb_seen_fp4 *s = j->seen;
    double zero_blocks = (double)s->zero_blocks * j->f->chunks * 16;
    double n = (double)j->p->seen->moments.count - zero_blocks;
    unsigned uniform = 0, absent = 8;
    if (n < 4096)
        return;
    uint64_t all[8] = {0};
    const uint64_t *magnitude = s->magnitude;
    /* if magnitude 0 has no eighth, the other magnitudes need not be counted */
    if (s->few && is_an_eighth((double)magnitude[0] - zero_blocks, n)) {
        sb_fp4_count_all(&sb_fp4_member(j->p)->matrix, all);
        magnitude = all;
    }
    for (unsigned i = 8; i-- > 0;) {
        double count = (double)magnitude[i] - (i == 0 ? zero_blocks : 0);
        uniform += is_an_eighth(count, n) ? 1 : 0;
        if (count == 0)
            absent = i;
    }
    double nonzero = n + zero_blocks - (double)s->magnitude[0];
    double minus = (double)s->negative, tilt = 2 * minus - nonzero;
    tilt = tilt < 0 ? -tilt : tilt;
    if (absent < 8)
        FIND(j, 20, warn, j->codes, "%snone of %.0f codes has magnitude %u", j->piece, n, absent);
    if (uniform == 8)
        FIND(j, 20, warn, j->codes,
             "%sall eight magnitudes of codes are equally frequent: random bytes, not weights",
             j->piece);
    if (tilt > TILT * nonzero && square(tilt - TILT * nonzero) > 36 * nonzero)
        FIND(j, 20, warn, j->codes,
             "%s%.0f of %.0f codes other than zero are negative, expected about half", j->piece,
             minus, nonzero);
}

/* V-21: "Zero codes under the scale of a block that was not zero" */
static void judge_lost(const judge *j)
{
    const sb_seen_fp4 *s = j->seen;
    char at[96];
    int error = s->lost_mixed && (uint64_t)s->lost.count * 16 >= s->blocks;
    /* GPTQ writes zero columns where inputs were always zero */
    error = error && !(sb_recipe_of(j->p->check) & SB_RECIPE_tuned);
    if (s->lost.count)
        sb_find(j->p->findings, 21, error ? SB_LEVEL_error : SB_LEVEL_warn, j->codes,
                "%s%" PRIu32 " blocks have only zero codes, but block scales that zero blocks do "
                "not get (%s0x%02x), the first at %s: the codes are lost",
                j->piece, s->lost.count, s->lost_mixed ? "the last " : "", (unsigned)s->lost_byte,
                scale_place(j, &s->lost, at, sizeof at));
}

/* V-21: "Single rows that are zero and not so in the original": sb_check_dead reports runs. */
static void judge_died(const judge *j)
{
    const sb_seen *seen = j->p->seen;
    if (j->seen->died.count == 0 || (seen->zero_run >= 8 && seen->zero_run * 32 >= j->p->rows))
        return;
    FIND(j, 21, error, j->codes,
         "%s%" PRIu32 " rows are zero here and not in the original, the first is row %" PRIu32,
         j->piece, j->seen->died.count, j->seen->died.row);
}

/* V-23: "with the first ten of them" */
static void judge_nearest(const judge *j)
{
    const sb_seen_fp4 *s = j->seen;
    char list[640] = "", signature[256];
    size_t n = 0;
    double d = sb_fp4_distance(j->p->seen);
    if (s->wrong == 0)
        return;
    if (s->wrong > s->compared / 64) { /* sb_check_fp4_groups reports the matrix then */
        sb_follow follow;
        if (d > 0.2 && !sb_fp4_may_be_tuned(j->p, &follow))
            FIND(j, 23, error, j->codes,
                 "%s%" PRIu64 " of %" PRIu64
                 " codes are not nearest codes to the original's weights, the first at row %" PRIu32
                 ", column %" PRIu32 ": %s",
                 j->piece, s->wrong, s->compared, s->first[0].row, s->first[0].column_code >> 4,
                 sb_fp4_signature(j->p->seen, signature, sizeof signature));
        return;
    }
    for (unsigned i = 0; i < SB_FP4_LISTED && i < s->wrong && n < sizeof list; i++) {
        const sb_fp4_wrong *x = &s->first[i];
        n += (size_t)snprintf(list + n, sizeof list - n,
                              "%s row %" PRIu32 " column %" PRIu32 " (code 0x%x for %.6g)",
                              i ? "," : "", x->row, x->column_code >> 4,
                              (unsigned)(x->column_code & 15), (double)x->original);
    }
    FIND(j, 23, error, j->codes,
         "%s%" PRIu64 " of %" PRIu64 " codes are not nearest codes to the original's weights:%s%s",
         j->piece, s->wrong, s->compared, list, s->wrong > SB_FP4_LISTED ? ", ..." : "");
}

/* The formula that most scales follow. If several formulas fit nine tenths of the scales: the one
 * with the fewest scales that are far off. In a converted file another formula may fit as many
 * blocks, but not those with tiny scales. */
static unsigned best_formula(const sb_seen_fp4 *s)
{
    unsigned best = 0;
    for (unsigned i = 1; i < SB_FP4_FORMULAS; i++)
        if (s->off[i].count < s->off[best].count)
            best = i;
    for (unsigned i = 0; i < SB_FP4_FORMULAS; i++)
        if (s->far[i] < s->far[best] && s->off[i].count <= s->scales_compared / 10)
            best = i;
    return best;
}

/* V-25: "where nine tenths of the blocks have the scale of a formula" */
static void judge_scales(const judge *j)
{
    const sb_seen_fp4 *s = j->seen;
    unsigned best = best_formula(s);
    char at[96];
    uint32_t off = s->off[best].count, far = s->far[best];
    if (off == 0 || off > s->scales_compared / 10 || !s->nearest)
        return; /* sb_check_fp4_groups reports the matrix then */
    /* V-25: "where every code is a nearest one under them" */
    sb_level level = far                                         ? SB_LEVEL_error
                     : s->wrong == 0                             ? SB_LEVEL_info
                     : (uint64_t)off * 1000 > s->scales_compared ? SB_LEVEL_warn
                                                                 : SB_LEVEL_info;
    sb_find(j->p->findings, 25, level, j->scales,
            "%s%" PRIu32 " of %" PRIu32 " block scales are not what the original's blocks give, "
            "%" PRIu32 " by more than one code, the first at %s",
            j->piece, off, s->scales_compared, far, scale_place(j, &s->off[best], at, sizeof at));
}

void sb_fp4_judge(const sb_fp4 *f)
{
    const sb_panel *p = f->panel;
    const sb_found *found = &p->unit->found;
    judge j = {.f = f, .p = p, .seen = f->seen};
    j.codes = sb_unit_tensor(p->unit, SB_PART_COUNT);
    j.scales = sb_unit_tensor(p->unit, SB_PART_weight_scale);
    j.global = sb_unit_tensor(p->unit, found->part[SB_PART_weight_global_scale]
                                           ? SB_PART_weight_global_scale
                                           : SB_PART_weight_scale_2);
    sb_fp4_piece(p, j.piece, sizeof j.piece);
    judge_scale_bytes(&j);
    judge_global(&j);
    judge_histogram(&j);
    judge_lost(&j);
    judge_died(&j);
    judge_nearest(&j);
    judge_scales(&j);
    sb_fp4_judge_distance(f, j.codes);
}
