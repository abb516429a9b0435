/* fit.c - check 55: matrices whose codes do not match their scales or zero points, although the
 * codes of the other matrices do. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/show.h"
#include "ref/formats/format.h"
#include "tools/check/scan/across.h"
#include "tools/check/scan/rows.h"
#include "tools/check/scan/scan_fit.h"

enum {
    /* least number of matrices of a kind; a smaller kind is judged together with other kinds */
    KIN = 5
};
#define CHANCE 2.5 /* standard deviations that are possible by chance */
#define APART 7.0  /* ... between the observed value and the value that the others make likely */
/* fraction of the usual relation; a matrix below it is stray: neither sound nor clearly damaged */
#define STRAY 0.4
/* distance of the mean code from the zero points, in steps, of a damaged matrix */
#define SHIFT 0.5
#define LEVEL 0.2 /* ... and of most other matrices, at most */

/* Matrices that are stored alike. */
typedef struct pool {
    sb_check *check;
    const sb_kin **kin;
    size_t count;
    const char *kind; /* the kind that is judged */
    double *room;     /* scratch for count values */
} pool;

static int is_judged(const pool *p, size_t i)
{
    return strcmp(p->kin[i]->kind, p->kind) == 0;
}

/* V-155: "Of float scales all pairs count" - E4M3 and E8M0 scales often coincide in sound
 * matrices. */
static uint64_t base_of(const sb_kin *kin, int which)
{
    const sb_fit *f = &kin->member->seen->fit;
    sb_format scale = kin->member->matrix.quant.scale_format;
    int coarse = scale == SB_FORMAT_e4m3 || scale == SB_FORMAT_e8m0;
    return which == SB_FIT_SCALES && !coarse ? f->pairs : f->ranked[which];
}

/* 0: the order is as by chance; 1: it agrees in every pair. */
static double relation(const sb_kin *kin, int which)
{
    uint64_t base = base_of(kin, which);
    return base ? (double)kin->member->seen->fit.agree[which] / (double)base : 0;
}

static double deviations(const sb_kin *kin, double agree)
{
    return agree / sb_root((double)kin->member->seen->fit.variance / 18);
}

static double usual_relation(const pool *p, int which)
{
    size_t n = 0;
    for (size_t i = 0; i < p->count; i++)
        if (base_of(p->kin[i], which))
            p->room[n++] = relation(p->kin[i], which);
    return n ? sb_median(p->room, n) : 0;
}

/* V-155: "while the usual relation of its kin, the median, would make it 7 standard deviations
 * more" */
static int is_apart(const sb_kin *kin, int which, double usual)
{
    double seen = deviations(kin, (double)kin->member->seen->fit.agree[which]);
    double likely = deviations(kin, usual * (double)base_of(kin, which));
    return seen < CHANCE && likely - seen >= APART;
}

static int is_stray(const sb_kin *kin, int which, double usual)
{
    double likely = deviations(kin, usual * (double)base_of(kin, which));
    return likely >= APART + CHANCE && relation(kin, which) < STRAY * usual;
}

static int percent(double relation)
{
    return (int)(50 + 50 * relation + 0.5);
}

static void tell(const pool *p, const sb_kin *kin, int which, double usual)
{
    const sb_member *m = kin->member;
    const sb_quant *q = &m->matrix.quant;
    int zeros = which == SB_FIT_ZEROS;
    sb_check_find(p->check, 55, SB_LEVEL_error,
                  sb_tensor_with(m, zeros ? q->zero_points : q->scales),
                  "%s%" PRIu64 " pairs of groups were compared. The group with the larger %s has "
                  "the %s codes in %d %% of the pairs, as by chance; in the other "
                  "matrices in %d %%. The %s belong to other %s, or the codes do",
                  SB_PIECE(m), base_of(kin, which), zeros ? "zero point" : "scale",
                  zeros ? "larger" : "smaller", percent(relation(kin, which)), percent(usual),
                  zeros ? "zero points" : "scales",
                  q->groups > 1 ? "groups, rows or matrices" : "rows or matrices");
}

/* V-155: "Nothing is said if more than half of them" */
static void judge_pool(const pool *p, int which)
{
    double usual = usual_relation(p, which);
    size_t apart = 0, stray = 0;
    for (size_t i = 0; i < p->count; i++) {
        int is = is_apart(p->kin[i], which, usual);
        apart += is ? 1 : 0;
        stray += !is && is_stray(p->kin[i], which, usual) ? 1 : 0;
    }
    if (stray || 2 * apart > p->count)
        return;
    for (size_t i = 0; i < p->count && apart; i++)
        if (is_judged(p, i) && is_apart(p->kin[i], which, usual))
            tell(p, p->kin[i], which, usual);
}

/* --- codes and zero points -------------------------------------------------------------------- */

static double shift_of(const sb_kin *kin)
{
    const sb_fit *f = &kin->member->seen->fit;
    return f->codes ? (double)f->steps / (double)f->codes : 0;
}

static double magnitude(double x)
{
    return x < 0 ? -x : x;
}

/* V-155: "the codes lie around their zero points" */
static void judge_shift(const pool *p)
{
    size_t n = 0;
    for (size_t i = 0; i < p->count; i++)
        p->room[n++] = magnitude(shift_of(p->kin[i]));
    double usual = n ? sb_median(p->room, n) : 0;
    for (size_t i = 0; i < p->count && usual <= LEVEL; i++) {
        const sb_kin *kin = p->kin[i];
        const sb_member *m = kin->member;
        double shift = shift_of(kin);
        if (!is_judged(p, i) || magnitude(shift) < SHIFT ||
            !kin->member->seen->fit.ranked[SB_FIT_ZEROS] || sb_format_bits(m->matrix.format) != 4)
            continue;
        sb_check_find(p->check, 55, SB_LEVEL_error, sb_tensor_with(m, m->matrix.quant.zero_points),
                      "%scodes lie %.2f steps %s their zero points on average, expected at most "
                      "%.2f as in most other matrices: the zero points are off by a step",
                      SB_PIECE(m), magnitude(shift), shift < 0 ? "below" : "above", usual);
    }
}

/* --- pools ------------------------------------------------------------------------------------ */

static int alike(const sb_kin *a, const sb_kin *b, int by_kind)
{
    const sb_quant *x = &a->member->matrix.quant, *y = &b->member->matrix.quant;
    int rows = x->groups == 1 && y->groups == 1; /* one scale per row: rows may have any length */
    return x->container == y->container && x->scale_format == y->scale_format &&
           (rows || x->block_cols == y->block_cols) && (!by_kind || strcmp(a->kind, b->kind) == 0);
}

/* Collects the matrices stored like `like`, of its kind only or of any kind. */
static void gather(pool *p, const sb_kin *kin, size_t count, const sb_kin *like, int by_kind)
{
    p->count = 0;
    for (size_t i = 0; i < count; i++)
        if (kin[i].member->seen->fit.pairs && alike(&kin[i], like, by_kind))
            p->kin[p->count++] = &kin[i];
}

/* Judges the kind of kin[0] .. kin[end - 1], separately for each way of storage. */
static void judge_kind(pool *p, const sb_kin *all, size_t count, const sb_kin *kin, size_t end)
{
    p->kind = kin->kind;
    for (size_t i = 0; i < end; i++) {
        size_t first = 0;
        while (!alike(&kin[first], &kin[i], 1))
            first++;
        if (first < i || !kin[i].member->seen->fit.pairs)
            continue;
        gather(p, kin, end, &kin[i], 1);
        if (p->count < KIN)
            gather(p, all, count, &kin[i], 0);
        if (p->count < KIN)
            continue;
        judge_pool(p, SB_FIT_SCALES);
        judge_pool(p, SB_FIT_ZEROS);
        judge_shift(p);
    }
}

void sb_check_fit(sb_check *check)
{
    size_t count;
    sb_kin *kin = sb_kin_make(check, 0, &count);
    pool p = {.check = check};
    p.kin = kin ? sb_alloc(count + 1, sizeof(const sb_kin *)) : NULL;
    p.room = kin ? sb_alloc(count + 1, sizeof *p.room) : NULL;
    check->findings.lost |= kin && (!p.kin || !p.room);
    for (size_t i = 0, end; p.kin && p.room && i < count; i = end) {
        end = sb_kin_end(kin, count, i);
        judge_kind(&p, kin, count, kin + i, end - i);
    }
    free(p.room);
    free(p.kin);
    free(kin);
}
