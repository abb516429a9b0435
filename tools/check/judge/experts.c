#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/show.h"
#include "ref/formats/plain_row.h"
#include "ref/formats/wide.h"
#include "tools/check/scan/across.h"

enum {
    LINES = 3,      /* number of rows of two matrices that are compared */
    SEARCHES = 512, /* number of matrices for which all others are tried */
    SHOWN = 256
};

/* The projection that may be exchanged with this one: gate or up. */
static const char *partner_of(const char *last)
{
    return strcmp(last, "gate_proj") == 0 ? "up_proj"
           : strcmp(last, "up_proj") == 0 ? "gate_proj"
                                          : NULL;
}

/* "layers.3.mlp.experts.", 5 and "up_proj"; or "layers.3.mlp.shared_expert." without an expert. */
typedef struct address {
    char before[SHOWN];
    const char *last;
    int64_t expert; /* -1: none */
} address;

static int address_of(const char *plain, address *a)
{
    const char *dot = strrchr(plain, '.'), *number = strstr(plain, ".experts.");
    size_t length = number ? (size_t)(number - plain) + strlen(".experts.")
                    : dot  ? (size_t)(dot - plain) + 1
                           : 0;
    if (!dot || length >= sizeof a->before || strstr(plain, "mlp.") == NULL)
        return 0;
    snprintf(a->before, sizeof a->before, "%.*s", (int)length, plain);
    a->expert = number ? (int64_t)strtol(plain + length, NULL, 10) : -1;
    a->last = dot + 1;
    return partner_of(a->last) != NULL || strcmp(a->last, "down_proj") == 0;
}

static const sb_member *member_at(const sb_units *units, const address *a, int64_t expert,
                                  const char *last)
{
    char name[SHOWN + 64];
    if (expert >= 0)
        snprintf(name, sizeof name, "%s%" PRId64 ".%s", a->before, expert, last);
    else
        snprintf(name, sizeof name, "%s%s", a->before, last);
    return sb_member_plain(units, name);
}

/* The result for one unit; a stack has one result for all its experts. */
typedef struct verdict {
    size_t moved, exchanged; /* matrices */
    const sb_member *first_moved, *first_exchanged;
    /* of the first moved matrix: its expert in the original, its expert here, its router row */
    int64_t expert, own, row;
    const char *last; /* what the first exchanged matrix holds */
} verdict;

typedef struct search {
    sb_check *check;
    verdict *verdicts;   /* one per unit */
    double *own, *other; /* rows */
    uint32_t room;
    size_t searches;
} search;

static int has_room(search *s, uint32_t cols)
{
    if (cols <= s->room)
        return 1;
    free(s->own);
    free(s->other);
    s->own = sb_alloc(cols, sizeof *s->own);
    s->other = sb_alloc(cols, sizeof *s->other);
    s->room = s->own && s->other ? cols : 0;
    s->check->findings.lost |= s->room == 0;
    return s->room > 0;
}

/* V-43: "the cosine of sampled rows" - above one half, the matrices count as the same. Returns 1:
 * the same, 0: not, -1: nothing to compare. Factors of whole tensors do not matter. */
static int same_matrix(search *s, const sb_matrix *own, const sb_matrix *other)
{
    double product = 0, own2 = 0, other2 = 0;
    if (own->rows != other->rows || own->cols != other->cols || !has_room(s, own->cols))
        return -1;
    for (uint32_t i = 0; i < LINES; i++) {
        uint32_t row = (uint32_t)((uint64_t)own->rows * (2 * i + 1) / (2 * LINES));
        sb_matrix_wide(own, row, s->own);
        sb_matrix_wide(other, row, s->other);
        for (uint32_t k = 0; k < own->cols; k++) {
            if (!(s->own[k] * s->own[k] <= 1e300) || !(s->other[k] * s->other[k] <= 1e300))
                continue;
            product += s->own[k] * s->other[k];
            own2 += s->own[k] * s->own[k];
            other2 += s->other[k] * s->other[k];
        }
    }
    if (!(own2 > 0) || !(other2 > 0))
        return -1;
    return product > 0 && product * product > 0.25 * own2 * other2;
}

/* 1 if the payload pass has already found that a matrix is near its original. */
static int is_near(const sb_seen *seen)
{
    return seen->has_distance && seen->distance.count &&
           seen->distance.error2 < 0.5 * seen->distance.master2;
}

/* Finds the expert and the last part of the name under which the original has this matrix. 0:
 * nowhere. */
static int find_origin(search *s, const sb_member *m, const address *a, int64_t *expert,
                       const char **last)
{
    const sb_units *master = &s->check->master.units;
    const char *names[] = {a->last, partner_of(a->last)};
    int64_t experts = a->expert < 0               ? 0
                      : s->check->self.has_config ? (int64_t)s->check->self.config.experts
                                                  : SB_MAX_EXPERTS;
    if (s->searches++ >= SEARCHES)
        return 0;
    for (int64_t i = -1; i < experts; i++)
        for (size_t j = 0; j < 2 && names[j]; j++) {
            int64_t e = i < 0 ? a->expert : i;
            const sb_member *candidate = member_at(master, a, e, names[j]);
            if (candidate && same_matrix(s, &m->matrix, &candidate->matrix) == 1) {
                *expert = e;
                *last = names[j];
                return 1;
            }
        }
    return 0;
}

/* --- the router ------------------------------------------------------------------------------- */

/* The router of a block of experts on one side, as rows of floats. */
static const sb_matrix *router_of(const sb_units *units, const address *a)
{
    char name[SHOWN + 8];
    size_t n = strlen(a->before);
    if (n < strlen("experts."))
        return NULL;
    snprintf(name, sizeof name, "%.*sgate", (int)(n - strlen("experts.")), a->before);
    const sb_member *m = sb_member_plain(units, name);
    return m && !sb_matrix_quantized(&m->matrix) ? &m->matrix : NULL;
}

static int same_row(const sb_matrix *own, uint32_t row, const sb_matrix *master, uint32_t other)
{
    return own->format == master->format && own->cols == master->cols &&
           memcmp(sb_matrix_row_bytes(own, row), sb_matrix_row_bytes(master, other),
                  own->cols * sb_format_bytes(own->format)) == 0;
}

/* The row of the original's router that equals row e; e if unknown. */
static int64_t router_row(const search *s, const address *a, int64_t e)
{
    const sb_matrix *own = router_of(&s->check->self.units, a);
    const sb_matrix *master = router_of(&s->check->master.units, a);
    if (!own || !master || e >= own->rows || own->rows != master->rows ||
        same_row(own, (uint32_t)e, master, (uint32_t)e))
        return e;
    for (uint32_t f = 0; f < master->rows; f++)
        if (same_row(own, (uint32_t)e, master, f))
            return f;
    return e;
}

/* --- judgement -------------------------------------------------------------------------------- */

static void judge_moved(search *s, const sb_member *m, const address *a)
{
    verdict *v = &s->verdicts[m->unit - s->check->self.units.rows];
    int64_t expert, row = a->expert < 0 ? -1 : router_row(s, a, a->expert);
    const char *last;
    if (!find_origin(s, m, a, &expert, &last))
        return;
    if (last != a->last && !v->exchanged++) {
        v->first_exchanged = m;
        v->last = last;
    }
    if (expert != row && !v->moved++) {
        v->first_moved = m;
        v->expert = expert;
        v->own = a->expert;
        v->row = row;
    }
}

/* V-44: "gate where the original has up" */
static void tell(sb_check *check, const sb_unit *unit, const verdict *v)
{
    const char *name = sb_unit_tensor(unit, SB_PART_COUNT);
    if (v->exchanged)
        sb_check_find(check, 44, SB_LEVEL_fatal, name,
                      "gate and up are exchanged: %s holds the original's %s (%zu of %zu matrices "
                      "here)",
                      SB_SHOW(v->first_exchanged->plain), v->last, v->exchanged, unit->seen_count);
    if (v->moved)
        sb_check_find(check, 43, SB_LEVEL_fatal, name,
                      "%s holds the original's expert %" PRId64 ", while row %" PRId64
                      " of the router is the original's row %" PRId64 " (%zu of %zu matrices here)",
                      SB_SHOW(v->first_moved->plain), v->expert, v->own, v->row, v->moved,
                      unit->seen_count);
}

/* Reports an expert that is in its place while its router row is that of another expert. */
static void judge_router(search *s, const sb_member *m, const address *a)
{
    const sb_member *router;
    char name[SHOWN + 8];
    if (a->expert < 0 || strcmp(a->last, "down_proj") != 0)
        return;
    int64_t row = router_row(s, a, a->expert);
    if (row == a->expert)
        return;
    snprintf(name, sizeof name, "%.*sgate", (int)(strlen(a->before) - strlen("experts.")),
             a->before);
    router = sb_member_plain(&s->check->self.units, name);
    sb_check_find(s->check, 43, SB_LEVEL_fatal, router ? router->name : m->name,
                  "row %" PRId64 " is the original's row %" PRId64 ", but expert %" PRId64
                  " is the original's",
                  a->expert, row, a->expert);
}

static void judge_expert(search *s, const sb_member *m)
{
    address a;
    const sb_member *master = sb_member_plain(&s->check->master.units, m->plain);
    if (!master || !m->seen->done || !address_of(m->plain, &a))
        return;
    int same = is_near(m->seen) ? 1 : same_matrix(s, &m->matrix, &master->matrix);
    if (same == 0)
        judge_moved(s, m, &a);
    else if (same == 1)
        judge_router(s, m, &a);
}

void sb_check_experts(sb_check *check)
{
    search s = {.check = check};
    if (!check->master.checkpoint || (!sb_check_wanted(check, 43) && !sb_check_wanted(check, 44)))
        return;
    s.verdicts = sb_alloc(check->self.units.count + 1, sizeof *s.verdicts);
    if (!s.verdicts) {
        check->findings.lost = 1;
        return;
    }
    for (size_t i = 0; i < check->self.units.member_count; i++)
        judge_expert(&s, &check->self.units.members[i]);
    for (size_t i = 0; i < check->self.units.count; i++)
        tell(check, &check->self.units.rows[i], &s.verdicts[i]);
    free(s.verdicts);
    free(s.own);
    free(s.other);
}
