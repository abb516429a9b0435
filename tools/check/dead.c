#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/formats/wide.h"
#include "tools/check/across.h"

enum {
    SHORT = 8,      /* rows: a shorter run is not looked at ... */
    PART = 32,      /* ... nor one below this part of the rows */
    LARGE_PART = 2, /* from which part on it is an error */
    SCATTERED = 6,  /* above which part they need not lie together */
    FEW = 3,        /* members of a kind that "the others" needs */
    SHOWN = 8       /* experts that are named */
};

static double zero_share(const sb_member *m)
{
    return m->seen->rows ? (double)m->seen->zero_rows / (double)m->seen->rows : 0;
}

/* How many rows of the run are zero in the original, too; -1 if that cannot be seen. */
static int64_t zero_in_master(sb_check *check, const sb_member *m)
{
    const sb_member *master =
        check->master.checkpoint ? sb_member_plain(&check->master.units, m->plain) : NULL;
    if (!master || master->matrix.rows != m->seen->rows || master->matrix.cols != m->seen->cols)
        return -1;
    double *row = sb_alloc(master->matrix.cols, sizeof *row);
    if (!row) {
        check->findings.lost = 1;
        return -1;
    }
    int64_t zeros = 0;
    for (uint64_t r = 0; r < m->seen->zero_run; r++) {
        uint32_t k = 0;
        sb_matrix_wide(&master->matrix, (uint32_t)(m->seen->zero_run_first + r), row);
        while (k < master->matrix.cols && row[k] == 0)
            k++;
        zeros += k == master->matrix.cols;
    }
    free(row);
    return zeros;
}

static void tell(sb_check *check, const sb_member *m, sb_level level, const char *why)
{
    const sb_seen *s = m->seen;
    if (s->zero_rows == s->rows)
        sb_check_find(check, 21, level, m->name, "all %" PRIu64 " rows are zero%s", s->rows, why);
    else
        sb_check_find(check, 21, level, m->name,
                      "rows %" PRIu64 " to %" PRIu64 " of %" PRIu64 " are zero (%" PRIu64
                      " zero rows in all)%s",
                      s->zero_run_first, s->zero_run_first + s->zero_run - 1, s->rows, s->zero_rows,
                      why);
}

/* All of q, k or v in in_proj_qkv, or half of another matrix; one head may be zero in a sound
 * model. */
static int is_large(const sb_check *check, const sb_member *m)
{
    const sb_seen *s = m->seen;
    const sb_config *c = &check->self.config;
    uint64_t first = s->zero_run_first, end = first + s->zero_run;
    if (strstr(m->plain, ".in_proj_qkv") == NULL)
        return s->zero_rows * LARGE_PART >= s->rows;
    if (s->zero_rows * SCATTERED > s->rows)
        return 1;
    if (!check->self.has_config || s->rows != sb_config_conv_channels(c))
        return s->zero_run * 2 >= s->rows;
    uint64_t k = sb_config_key_width(c), v = 2 * k;
    return (first == 0 && end >= k) || (first <= k && end >= v) || (first <= v && end == s->rows);
}

/* 21, beyond one matrix: rows of zeros that neither the original nor the other layers have. */
static void judge(sb_check *check, const sb_member *m, double median, size_t kin, size_t *routed)
{
    const sb_seen *s = m->seen;
    int whole = s->zero_rows == s->rows;
    if (!whole && (s->zero_run < SHORT || s->zero_run * PART < s->rows) &&
        s->zero_rows * SCATTERED <= s->rows)
        return;
    int64_t also = zero_in_master(check, m);
    if (also >= 0) {
        if ((uint64_t)also < s->zero_run)
            tell(check, m, SB_LEVEL_error, "; in the original they are not");
        return;
    }
    if (kin >= FEW && median * 10 >= zero_share(m))
        return;                          /* the others are like it */
    if (strstr(m->plain, ".experts.")) { /* which may be sparse, and dead */
        if (++*routed <= SHOWN)
            tell(check, m, SB_LEVEL_warn, kin >= FEW ? "; in most experts they are not" : "");
        return;
    }
    int large = whole || (kin >= FEW && is_large(check, m));
    tell(check, m, large ? SB_LEVEL_error : SB_LEVEL_warn,
         kin >= FEW ? "; in other layers they are not" : "");
}

void sb_check_dead(sb_check *check)
{
    size_t count, routed = 0;
    sb_kin *kin = sb_kin_make(check, 0, &count);
    double *shares = kin ? sb_alloc(count + 1, sizeof *shares) : NULL;
    check->findings.lost |= kin && !shares;
    for (size_t i = 0, end; shares && i < count; i = end) {
        end = sb_kin_end(kin, count, i);
        for (size_t j = i; j < end; j++)
            shares[j - i] = zero_share(kin[j].member);
        double median = sb_median(shares, end - i);
        for (size_t j = i; j < end; j++)
            if (kin[j].member->seen->zero_run)
                judge(check, kin[j].member, median, end - i, &routed);
    }
    if (routed > SHOWN)
        sb_check_find(check, 21, SB_LEVEL_warn, "",
                      "%zu more matrices of routed experts have rows of zeros that most have not",
                      routed - SHOWN);
    free(shares);
    free(kin);
}
