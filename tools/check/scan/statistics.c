#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/show.h"
#include "tools/check/scan/across.h"

/* Squared factors, so that no root is needed: a factor of 8 is 64 here, and a factor of 64 is
 * 4096. */
#define SUSPICIOUS 64.0
#define ABSURD 4096.0

enum { FEW = 3 }; /* least number of members for a median */

static double mean_square(const sb_member *m)
{
    const sb_moments *s = &m->seen->moments;
    return s->count ? s->sum2 / (double)s->count : 0;
}

static double largest_square(const sb_member *m)
{
    return m->seen->moments.largest * m->seen->moments.largest;
}

/* The median over the members of a kind that are not all zero. */
static double median_of(const sb_kin *kin, size_t first, size_t end,
                        double (*of)(const sb_member *), double *room, size_t *count)
{
    *count = 0;
    for (size_t i = first; i < end; i++) {
        double value = of(kin[i].member);
        if (value > 0 && value < 1e300)
            room[(*count)++] = value;
    }
    return sb_median(room, *count);
}

/* V-42: "outside 1/8 to 8 times the median" */
static void judge_size(sb_check *check, const sb_kin *one, const char *what, double square,
                       double median, size_t count)
{
    double ratio = square / median;
    if (!(square > 0) || (ratio <= SUSPICIOUS && ratio >= 1 / SUSPICIOUS))
        return;
    /* sound models may have dead routed experts */
    int small = ratio < 1 / ABSURD && !strstr(one->member->plain, ".experts.");
    int absurd = ratio > ABSURD || small;
    sb_check_find(
        check, 42, absurd ? SB_LEVEL_error : SB_LEVEL_warn, one->member->name,
        "%s %.4g is %.4g times the median %.4g of %zu matrices %s, expected 1/8 to 8 times", what,
        sb_root(square), sb_root(ratio), sb_root(median), count, SB_SHOW(one->kind));
}

/* V-42: "near its original" - then its size is not a fault of this checkpoint. */
static int is_known(const sb_member *m)
{
    const sb_distance *d = &m->seen->distance;
    return m->seen->has_distance && d->count && d->error2 < 0.25 * d->master2;
}

static void judge_kind(sb_check *check, const sb_kin *kin, size_t first, size_t end, double *room)
{
    size_t count, same;
    double middle = median_of(kin, first, end, mean_square, room, &count);
    double top = median_of(kin, first, end, largest_square, room, &same);
    if (count < FEW)
        return;
    for (size_t i = first; i < end; i++) {
        size_t before = check->findings.count;
        if (is_known(kin[i].member))
            continue;
        judge_size(check, &kin[i], "root mean square", mean_square(kin[i].member), middle, count);
        /* after a finding about the mean square, one about the largest magnitude adds nothing */
        if (check->findings.count == before)
            judge_size(check, &kin[i], "largest magnitude", largest_square(kin[i].member), top,
                       count);
    }
}

/* The result of a row times an input of variance 1; it is similar for all kinds. */
static double gain(const sb_member *m)
{
    return mean_square(m) * (double)m->seen->cols;
}

/* V-42: "For a kind with fewer than three matrices" */
static void judge_few(sb_check *check, const sb_kin *kin, size_t first, size_t end, double median,
                      size_t count)
{
    for (size_t i = first; i < end; i++) {
        double ratio = gain(kin[i].member) / median;
        if (!(ratio > 0) || (ratio <= ABSURD && ratio >= 1 / ABSURD) || is_known(kin[i].member))
            continue;
        sb_check_find(
            check, 42, SB_LEVEL_error, kin[i].member->name,
            "root mean square times the square root of the number of columns is %.4g, %.4g times "
            "the median of %zu matrices of all kinds, expected 1/64 to 64 times",
            sb_root(gain(kin[i].member)), sb_root(ratio), count);
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Drops matrices whose global scale check 16 refused: their size says nothing, and many of them
 * would distort the median. Moves the others to the front; 0 if memory runs out. */
static int drop_refused(const sb_check *check, sb_kin *kin, size_t *count)
{
    const sb_findings *f = &check->findings;
    size_t refused = 0, kept = 0;
    const char **names = sb_alloc(f->count + 1, sizeof *names);
    if (!names)
        return 0;
    for (size_t i = 0; i < f->count; i++)
        if (f->rows[i].check == 16 && f->rows[i].level == SB_LEVEL_fatal)
            names[refused++] = f->rows[i].tensor;
    if (refused)
        qsort(names, refused, sizeof *names, by_name);
    for (size_t i = 0; i < *count; i++) {
        const sb_found *found = &kin[i].member->unit->found;
        sb_model_part part = found->part[SB_PART_weight_global_scale] ? SB_PART_weight_global_scale
                                                                      : SB_PART_weight_scale_2;
        const char *name = sb_unit_tensor(kin[i].member->unit, part);
        if (!refused || !bsearch(&name, names, refused, sizeof *names, by_name))
            kin[kept++] = kin[i];
    }
    *count = kept;
    free(names);
    return 1;
}

void sb_check_statistics(sb_check *check)
{
    size_t count, all, same;
    sb_kin *kin = sb_kin_make(check, 1, &count);
    if (kin && !drop_refused(check, kin, &count)) {
        check->findings.lost = 1;
        count = 0;
    }
    double *room = kin ? sb_alloc(count + 1, sizeof *room) : NULL;
    if (!room) {
        check->findings.lost |= kin != NULL;
        free(kin);
        return;
    }
    double overall = median_of(kin, 0, count, gain, room, &all);
    for (size_t i = 0, end; i < count; i = end) {
        end = sb_kin_end(kin, count, i);
        median_of(kin, i, end, mean_square, room, &same);
        if (same >= FEW)
            judge_kind(check, kin, i, end, room);
        else if (all >= FEW)
            judge_few(check, kin, i, end, overall, all);
    }
    free(room);
    free(kin);
}
