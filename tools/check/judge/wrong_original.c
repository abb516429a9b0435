/* wrong_original.c - tests whether the folder of --against can be the original at all, before any
 * comparison: every tensor would differ from a foreign model's. */
#include "tools/check/judge/wrong_original.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/formats/wide.h"
#include "tools/check/scan/across.h"
#include "tools/check/read/norms.h"

enum { SAMPLED_ROWS = 256 };

/* V-14: "five kinds of tensors that no quantizer rounds" */
typedef enum kin { EMBEDDING, HEAD, ROUTERS, NORMS, CONVOLUTIONS, KINDS, NO_KIND = KINDS } kin;

typedef struct survey {
    size_t compared[KINDS], foreign[KINDS];
    const char *first; /* the first foreign tensor of the first kind that has a foreign tensor */
    kin first_kind;
} survey;

/* "embed_tokens", or "embed_tokens.weight" */
static int is_kind(const sb_unit *unit, const char *kind)
{
    size_t n = strlen(kind);
    return strncmp(unit->kind, kind, n) == 0 &&
           (unit->kind[n] == '\0' || strcmp(unit->kind + n, ".weight") == 0);
}

static kin kin_of(const sb_unit *unit)
{
    if (unit->region == SB_REGION_mtp || unit->region == SB_REGION_vision)
        return NO_KIND;
    if (is_kind(unit, "embed_tokens"))
        return EMBEDDING;
    if (is_kind(unit, "lm_head"))
        return HEAD;
    if (is_kind(unit, "mlp.gate"))
        return ROUTERS;
    if (is_kind(unit, "linear_attn.conv1d"))
        return CONVOLUTIONS;
    return unit->tensor && sb_norm_of(unit) != SB_NORM_none ? NORMS : NO_KIND;
}

static int matrix_of(const sb_unit *unit, sb_matrix *out)
{
    const sb_tensor *t = unit->tensor ? unit->tensor : unit->found.part[SB_PART_weight];
    return t && !unit->status && sb_tensor_matrix(t, out);
}

/* Sums over pairs of values. */
typedef struct pairs {
    uint64_t count, alike; /* pairs that are not both zero; of these, those with equal signs */
    double n, x, y, xx, yy, xy;
} pairs;

static void add_rows(pairs *p, const double *x, const double *y, uint32_t cols)
{
    for (uint32_t k = 0; k < cols; k++) {
        if (x[k] != 0 || y[k] != 0) {
            p->count++;
            p->alike += (x[k] > 0 && y[k] > 0) || (x[k] < 0 && y[k] < 0);
        }
        p->n += 1;
        p->x += x[k];
        p->y += y[k];
        p->xx += x[k] * x[k];
        p->yy += y[k] * y[k];
        p->xy += x[k] * y[k];
    }
}

/* V-14: "its correlation with the original's norm is below one half" - returns 1 then. Returns -1
 * if one of the
 * two sides is constant. */
static int norm_answer(const pairs *p)
{
    double xx = p->n * p->xx - p->x * p->x, yy = p->n * p->yy - p->y * p->y;
    double xy = p->n * p->xy - p->x * p->y, tiny = 1e-9;
    if (!(xx > tiny * p->n * p->xx) || !(yy > tiny * p->n * p->yy))
        return -1;
    return !(xy > 0 && 4 * xy * xy >= xx * yy);
}

/* 1 foreign, 0 same origin, -1 unknown. V-14: "fewer than three quarters of the signs" - scales per
 * channel, fine-tuning and a change of dtype do not change signs. */
static int answer(sb_check *check, kin kind, const sb_matrix *own, const sb_matrix *other)
{
    pairs p = {0};
    if (own->cols != other->cols)
        return 1;
    if (own->rows != other->rows && kind != EMBEDDING && kind != HEAD)
        return -1;
    uint32_t rows = own->rows < other->rows ? own->rows : other->rows;
    uint32_t step = (rows + SAMPLED_ROWS - 1) / SAMPLED_ROWS;
    double *x = sb_alloc(own->cols, 2 * sizeof *x);
    if (!x) {
        check->findings.lost = 1;
        return -1;
    }
    for (uint32_t row = 0; row < rows; row += step) {
        sb_matrix_wide(own, row, x);
        sb_matrix_wide(other, row, x + own->cols);
        add_rows(&p, x, x + own->cols, own->cols);
    }
    free(x);
    if (kind == NORMS)
        return norm_answer(&p);
    return p.count ? p.alike * 4 < p.count * 3 : -1;
}

static void ask(sb_check *check, const sb_unit *unit, survey *s)
{
    sb_matrix own, other;
    kin kind = kin_of(unit);
    const sb_unit *master = kind == NO_KIND ? NULL : sb_master_unit(check, unit);
    if (!master || !matrix_of(unit, &own) || !matrix_of(master, &other))
        return;
    int foreign = answer(check, kind, &own, &other);
    if (foreign < 0)
        return;
    s->compared[kind]++;
    s->foreign[kind] += (size_t)foreign;
    if (foreign && (!s->first || kind < s->first_kind)) {
        s->first = sb_unit_tensor(unit, SB_PART_COUNT);
        s->first_kind = kind;
    }
}

/* V-14: "most of the kinds that could be compared, and at least two" */
static int is_foreign(const survey *p)
{
    size_t kinds = 0, foreign = 0;
    for (unsigned k = 0; k < KINDS; k++) {
        kinds += p->compared[k] > 0;
        foreign += p->foreign[k] * 2 > p->compared[k];
    }
    return foreign >= 2 && foreign * 2 > kinds;
}

void sb_check_original(sb_check *check)
{
    static const char *const names[KINDS] = {"embedding", "lm_head", "routers", "norms", "conv1d"};
    survey p = {0};
    char counts[256] = "";
    size_t n = 0;
    if (!check->master.checkpoint || check->options->headers_only || !sb_check_wanted(check, 14))
        return;
    for (size_t i = 0; i < check->self.units.count; i++)
        ask(check, &check->self.units.rows[i], &p);
    if (!is_foreign(&p))
        return;
    for (unsigned k = 0; k < KINDS; k++)
        if (p.compared[k])
            n += (size_t)snprintf(counts + n, sizeof counts - n, "%s%s %zu of %zu", n ? ", " : "",
                                  names[k], p.foreign[k], p.compared[k]);
    sb_check_find(check, 14, SB_LEVEL_error, p.first,
                  "this is probably not the original of this checkpoint: these tensors do not "
                  "belong to it: %s. Nothing else is compared with it; --skip 14 compares anyway",
                  counts);
    check->stranger = check->master;
    check->master = (sb_side){0};
}
