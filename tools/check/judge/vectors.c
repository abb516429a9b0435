#include "tools/check/judge/vectors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/text.h"
#include "ref/model/probe.h"
#include "tools/check/scan/across.h"
#include "tools/check/read/norms.h"

/* Squared factors: 16 times the median, and 8 times. */
#define BEYOND 256.0
#define LARGE 64.0

enum {
    FEW = 3,     /* least number of vectors for a median */
    VALUES = 4,  /* a vector with fewer values says nothing */
    COMPANY = 12 /* vectors of a region that are needed to know what is usual */
};

typedef struct vector {
    const sb_unit *unit;
    char kind[64];
    int constant;
    float value;   /* the value, if the vector is constant */
    double square; /* mean square of the factors of a norm */
} vector;

typedef struct company {
    size_t all, alive;
} company;

static int is_vector(const sb_unit *unit)
{
    return unit->tensor && unit->seen_count && unit->seen->done &&
           unit->seen->moments.count >= VALUES && unit->region != SB_REGION_vision &&
           (sb_norm_of(unit) != SB_NORM_none || sb_ends(unit->plain, ".linear_attn.A_log") ||
            sb_ends(unit->plain, ".linear_attn.dt_bias"));
}

static vector describe_vector(const sb_unit *unit)
{
    vector v = {.unit = unit};
    const sb_moments *m = &unit->seen->moments;
    double plus = sb_norm_of(unit) == SB_NORM_linear ? 0 : 1;
    uint64_t n, k = 1;
    sb_layer_kind(unit->plain + (unit->region == SB_REGION_mtp ? 4 : 0), v.kind, sizeof v.kind);
    v.square = (m->sum2 + 2 * plus * m->sum) / (double)m->count + plus;
    float *x = sb_floats_of(unit->tensor, &n);
    while (x && k < n && x[k] == x[0])
        k++;
    v.constant = x && k == n;
    v.value = x ? x[0] : 0;
    free(x);
    return v;
}

/* 1 if the original has the same bytes: then the vector is correct. */
static int is_original(const sb_check *check, const sb_unit *unit)
{
    const sb_unit *master = sb_master_unit(check, unit);
    return master && master->tensor && unit->seen->matched && unit->seen->plain.compared &&
           !unit->seen->plain.differing;
}

static company company_of(const vector *rows, size_t count, const char *kind, sb_region region)
{
    company c = {0};
    for (size_t i = 0; i < count; i++)
        if (kind ? strcmp(rows[i].kind, kind) == 0 : rows[i].unit->region == region) {
            c.all++;
            c.alive += !rows[i].constant;
        }
    return c;
}

/* V-154: "A vector that is one value throughout" */
static void judge_constant(sb_check *check, const vector *rows, size_t count, const vector *v)
{
    company kin = company_of(rows, count, v->kind, SB_REGION_other);
    company region = company_of(rows, count, NULL, v->unit->region);
    int by_kind = kin.alive >= 2 && kin.alive * 2 > kin.all && region.alive * 2 > region.all;
    int by_region = region.all >= COMPANY && region.alive * 4 >= region.all * 3;
    if ((!by_kind && !by_region) || is_original(check, v->unit))
        return;
    sb_check_find(check, 54, SB_LEVEL_error, v->unit->name,
                  "all %" PRIu64 " values are %.4g, as after an initialization; the values of %zu "
                  "of %zu vectors %s vary: this vector was reset",
                  v->unit->seen->moments.count, (double)v->value,
                  by_kind ? kin.alive : region.alive, by_kind ? kin.all : region.all,
                  by_kind ? "of its kind" : "beside it");
}

/* V-154: "16 times the median of its kind" */
static void judge_size(sb_check *check, const vector *rows, size_t count, const vector *v,
                       double *room)
{
    size_t kin = 0;
    for (size_t i = 0; i < count; i++)
        if (strcmp(rows[i].kind, v->kind) == 0)
            room[kin++] = rows[i].square;
    double median = sb_median(room, kin);
    if (kin < FEW || sb_norm_of(v->unit) == SB_NORM_none || v->square <= LARGE ||
        v->square <= BEYOND * median || is_original(check, v->unit))
        return;
    sb_check_find(check, 54, SB_LEVEL_error, v->unit->name,
                  "the factors of the norm have a root mean square of %.4g, %.4g times the median "
                  "%.4g of %zu norms of its kind, expected less than 16 times",
                  sb_root(v->square), sb_root(v->square / (median > 0 ? median : 1e-12)),
                  sb_root(median), kin);
}

void sb_check_vectors(sb_check *check)
{
    const sb_units *u = &check->self.units;
    vector *rows = sb_alloc(u->count + 1, sizeof *rows);
    double *room = sb_alloc(u->count + 1, sizeof *room);
    size_t count = 0;
    check->findings.lost |= !rows || !room;
    for (size_t i = 0; rows && room && i < u->count; i++)
        if (is_vector(&u->rows[i]))
            rows[count++] = describe_vector(&u->rows[i]);
    for (size_t i = 0; i < count; i++) {
        if (rows[i].constant)
            judge_constant(check, rows, count, &rows[i]);
        else
            judge_size(check, rows, count, &rows[i], room);
    }
    free(rows);
    free(room);
}
