#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/text.h"
#include "ref/formats/plain_row.h"
#include "ref/formats/wide.h"
#include "tools/check/scan/across.h"

enum {
    SHORT = 8,         /* rows: a shorter run is ignored ... */
    PART = 32,         /* ... and so is a run below this part of the rows */
    LARGE_PART = 2,    /* a run of this part of the rows is an error */
    SCATTERED = 6,     /* above this part of the rows, zero rows count even if scattered */
    COLUMNS = 64,      /* a shorter run of columns is ignored ... */
    LARGE_COLUMNS = 8, /* ... and a run of this part of the columns is an error */
    RANK = 32,         /* least number of rows or columns of a rank */
    RANKS = 8,         /* largest number of ranks */
    FEW = 3,           /* least number of members of a kind to compare with */
    SHOWN = 8          /* number of experts that are named */
};

static double zero_share(const sb_member *m)
{
    return m->seen->rows ? (double)m->seen->zero_rows / (double)m->seen->rows : 0;
}

/* The number of rows of the run that are zero in the original, too; -1 if unknown. */
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

/* Check 21: "exactly one rank" - the run is a half, quarter or eighth, and starts at a rank's first
 * row. */
static int is_rank(uint64_t first, uint64_t count, uint64_t all)
{
    return count >= RANK && count < all && all % count == 0 && all / count <= RANKS &&
           first % count == 0;
}

/* 1 if the zero rows are padding: they are at the end of the embedding or head. */
static int is_padding(const sb_member *m)
{
    const sb_seen *s = m->seen;
    return (strcmp(m->unit->kind, "lm_head") == 0 || strcmp(m->unit->kind, "embed_tokens") == 0) &&
           s->zero_run_first + s->zero_run == s->rows;
}

/* Another matrix of the same expert: "up_proj" for "down_proj". */
static const sb_seen *beside(const sb_check *check, const sb_member *m, const char *projection)
{
    char name[SB_MAX_TENSOR_NAME + 32];
    const char *dot = strrchr(m->plain, '.');
    size_t stem = dot ? (size_t)(dot - m->plain) : 0;
    snprintf(name, sizeof name, "%.*s.%s", (int)stem, m->plain, projection);
    const sb_member *other = dot ? sb_member_plain(&check->self.units, name) : NULL;
    return other && other->seen->done ? other->seen : NULL;
}

static int covers(uint64_t first, uint64_t count, uint64_t own_first, uint64_t own_count)
{
    return first <= own_first && first + count >= own_first + own_count;
}

/* Check 21: "pruned" - a removed neuron is zero in the matrices that write it and in the matrix
 * that reads it. */
static int is_pruned(const sb_check *check, const sb_member *m, uint64_t first, uint64_t count)
{
    if (sb_ends(m->plain, ".down_proj")) {
        const sb_seen *up = beside(check, m, "up_proj"), *gate = beside(check, m, "gate_proj");
        return !up || !gate || covers(up->zero_run_first, up->zero_run, first, count) ||
               covers(gate->zero_run_first, gate->zero_run, first, count);
    }
    const sb_seen *down = beside(check, m, "down_proj");
    return !down || covers(down->zero_cols_first, down->zero_cols, first, count);
}

/* Check 21: "a part of an expert" - one of its matrices is zero and another is not. */
static int is_half_dead(const sb_check *check, const sb_member *m)
{
    static const char *const names[] = {"gate_proj", "up_proj", "down_proj"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const sb_seen *s = beside(check, m, names[i]);
        if (s && s->zero_rows < s->rows)
            return 1;
    }
    return 0;
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

/* 1 if the run covers all rows of q, k or v in in_proj_qkv or conv1d. Without a configuration: 1 if
 * it covers half of all rows. */
static int is_part(const sb_check *check, const sb_seen *s)
{
    const sb_config *c = &check->self.config;
    uint64_t first = s->zero_run_first, end = first + s->zero_run;
    if (!check->self.has_config || s->rows != sb_config_conv_channels(c))
        return s->zero_run * 2 >= s->rows;
    uint64_t k = sb_config_key_width(c), v = 2 * k;
    return (first == 0 && end >= k) || (first <= k && end >= v) || (first <= v && end == s->rows);
}

static int is_qkv(const sb_member *m)
{
    return strstr(m->plain, ".in_proj_qkv") != NULL && strstr(m->plain, ".in_proj_qkvz") == NULL;
}

/* 1 if half of a matrix is zero, or a part of in_proj_qkv. A single zero head is not enough,
 * because sound models have some. */
static int is_large(const sb_check *check, const sb_member *m)
{
    const sb_seen *s = m->seen;
    if (!is_qkv(m))
        return s->zero_rows * LARGE_PART >= s->rows;
    return s->zero_rows * SCATTERED > s->rows || is_part(check, s);
}

/* Check 21: "half of its rows in succession" - except heads of attention, which may be dead. */
static int is_half(const sb_check *check, const sb_member *m)
{
    const sb_seen *s = m->seen;
    uint32_t head = check->self.has_config ? check->self.config.head_dim : 0;
    int heads = !head || (s->zero_run_first % head == 0 && s->zero_run % head == 0);
    if (s->zero_run * LARGE_PART < s->rows || m->unit->region == SB_REGION_vision)
        return 0;
    return !heads || (!strstr(m->plain, ".self_attn.") && !strstr(m->plain, ".linear_attn."));
}

/* Check 21 across matrices: zero rows that neither the original nor the other layers have. */
static void judge_matrix(sb_check *check, const sb_member *m, double usual, size_t kin,
                         size_t *routed)
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
    /* a routed expert may be sparse, or dead */
    int routed_expert = strstr(m->plain, ".experts.") != NULL;
    int gone = !routed_expert && (whole || (is_qkv(m) && is_part(check, s)));
    if (!gone && kin >= FEW && usual * 10 >= zero_share(m))
        return; /* the other matrices of the kind are similar */
    if (routed_expert) {
        int lost = whole ? is_half_dead(check, m)
                         : is_rank(s->zero_run_first, s->zero_run, s->rows) &&
                               !is_pruned(check, m, s->zero_run_first, s->zero_run);
        if (++*routed <= SHOWN || lost)
            tell(check, m, lost ? SB_LEVEL_error : SB_LEVEL_warn,
                 kin >= FEW ? "; in most experts they are not" : "");
        return;
    }
    int large =
        gone || (!is_padding(m) && (is_half(check, m) || (kin >= FEW && is_large(check, m))));
    tell(check, m, large ? SB_LEVEL_error : SB_LEVEL_warn,
         kin >= FEW && usual * 10 < zero_share(m) ? "; in other layers they are not" : "");
}

/* Check 21: "columns of zeros" - a part of the input is ignored. */
static void judge_columns(sb_check *check, const sb_member *m, size_t *routed)
{
    const sb_seen *s = m->seen;
    int rank = is_rank(s->zero_cols_first, s->zero_cols, s->cols);
    int large = (uint64_t)s->zero_cols * LARGE_COLUMNS >= s->cols;
    if (!rank && (s->zero_cols < COLUMNS || (uint64_t)s->zero_cols * PART < s->cols))
        return;
    if (strstr(m->plain, ".experts.")) {
        large = rank && sb_ends(m->plain, ".down_proj") &&
                !is_pruned(check, m, s->zero_cols_first, s->zero_cols);
        if (++*routed > SHOWN)
            return;
    }
    sb_check_find(
        check, 21, large ? SB_LEVEL_error : SB_LEVEL_warn, m->name,
        "columns %" PRIu32 " to %" PRIu32 " of %" PRIu64 " are zero in all %" PRIu32
        " sampled rows that have other values, expected weights: that part of the input is lost",
        s->zero_cols_first, s->zero_cols_first + s->zero_cols - 1, s->cols, s->column_votes);
}

/* Check 21: "a convolution" - judged here, because a convolution is not a linear layer. */
static void judge_convolutions(sb_check *check)
{
    for (size_t i = 0; i < check->self.units.count; i++) {
        const sb_unit *unit = &check->self.units.rows[i];
        const sb_seen *s = unit->seen;
        if (!unit->tensor || !unit->seen_count || !s->done ||
            !sb_ends(unit->plain, ".linear_attn.conv1d.weight") || !s->zero_run)
            continue;
        if (s->zero_rows == s->rows || is_part(check, s))
            sb_check_find(check, 21, SB_LEVEL_error, unit->name,
                          "taps of channels %" PRIu64 " to %" PRIu64 " of %" PRIu64
                          " are zero, expected weights: %s of the layer is zero",
                          s->zero_run_first, s->zero_run_first + s->zero_run - 1, s->rows,
                          s->zero_rows == s->rows ? "all" : "q, k or v");
    }
}

/* Two rows of the router with the same bytes; 0 if there are none, or rows cannot be compared. */
static int find_repeat(const sb_member *m, uint32_t *one, uint32_t *two)
{
    uint64_t size = (uint64_t)m->matrix.cols * sb_format_bits(m->matrix.format) / 8;
    for (*two = 1; *two < m->matrix.rows; ++*two)
        for (*one = 0; *one < *two; ++*one)
            if (memcmp(sb_matrix_row_bytes(&m->matrix, *one), sb_matrix_row_bytes(&m->matrix, *two),
                       size) == 0)
                return 1;
    return 0;
}

/* 1 if the original also has this row twice, or zero: then it belongs to the model. */
static int same_in_master(const sb_check *check, const sb_member *m, uint32_t one, uint32_t two)
{
    const sb_member *master =
        check->master.checkpoint ? sb_member_plain(&check->master.units, m->plain) : NULL;
    if (!master || sb_matrix_quantized(&master->matrix) || master->matrix.rows <= two)
        return 0;
    return memcmp(sb_matrix_row_bytes(&master->matrix, one),
                  sb_matrix_row_bytes(&master->matrix, two),
                  (size_t)master->matrix.cols * sb_format_bits(master->matrix.format) / 8) == 0;
}

/* Check 21: "rows of a router" - each row alone scores one expert. */
static void judge_router(sb_check *check, const sb_member *m)
{
    const sb_seen *s = m->seen;
    uint32_t one, two;
    if (!sb_ends(m->plain, ".mlp.gate") || !sb_unit_is_plain(m->unit) || s->zero_rows == s->rows)
        return;
    int also = s->zero_rows && zero_in_master(check, m) == (int64_t)s->zero_run;
    if (s->zero_rows && !also)
        sb_check_find(check, 21, SB_LEVEL_error, m->name,
                      "the router's rows of experts %" PRIu64 " to %" PRIu64 " are zero (%" PRIu64
                      " of %" PRIu64 "), expected weights",
                      s->zero_run_first, s->zero_run_first + s->zero_run - 1, s->zero_rows,
                      s->rows);
    else if (!also && find_repeat(m, &one, &two) && !same_in_master(check, m, one, two))
        sb_check_find(check, 21, SB_LEVEL_warn, m->name,
                      "the router's rows of experts %" PRIu32 " and %" PRIu32
                      " are equal, expected different rows: the two experts always tie",
                      one, two);
}

/* Check 21: "the lower quartile" - it stays a usual value until three quarters of a kind are
 * damaged. */
static double lower_quartile(double *shares, size_t count)
{
    (void)sb_median(shares, count); /* sorts */
    return count ? shares[count / 4] : 0;
}

void sb_check_dead(sb_check *check)
{
    size_t count, routed = 0, columns = 0;
    sb_kin *kin = sb_kin_make(check, 0, &count);
    double *shares = kin ? sb_alloc(count + 1, sizeof *shares) : NULL;
    check->findings.lost |= kin && !shares;
    for (size_t i = 0, end; shares && i < count; i = end) {
        end = sb_kin_end(kin, count, i);
        for (size_t j = i; j < end; j++)
            shares[j - i] = zero_share(kin[j].member);
        double usual = lower_quartile(shares, end - i);
        for (size_t j = i; j < end; j++) {
            judge_router(check, kin[j].member);
            judge_columns(check, kin[j].member, &columns);
            if (kin[j].member->seen->zero_run)
                judge_matrix(check, kin[j].member, usual, end - i, &routed);
        }
    }
    judge_convolutions(check);
    if (routed > SHOWN)
        sb_check_find(check, 21, SB_LEVEL_warn, "",
                      "%zu more matrices of routed experts have rows of zeros, which most experts "
                      "do not have",
                      routed - SHOWN);
    if (columns > SHOWN)
        sb_check_find(check, 21, SB_LEVEL_warn, "",
                      "%zu more matrices of routed experts have columns of zeros", columns - SHOWN);
    free(shares);
    free(kin);
}
