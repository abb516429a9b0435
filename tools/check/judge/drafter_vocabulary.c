/* drafter_vocabulary.c - check 58: the maps between the rows of a drafter's head and the tokens of
 * its target. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "tools/check/judge/drafter.h"

/* The maps as they are stored; a map of another shape is reported by check 7 and is not here. */
typedef struct maps {
    const unsigned char *d2t; /* (Vd) I64 */
    const unsigned char *t2d; /* (Vt) BOOL */
    uint32_t Vd, Vt;
} maps;

static int64_t offset_of(const maps *m, uint32_t d)
{
    return (int64_t)sb_load_u64(m->d2t + 8 * (size_t)d);
}

/* The token of row d, if d2t holds offsets, or if it holds ids. -1: below 0 or too large. */
static int64_t token_of(const maps *m, uint32_t d, int as_ids)
{
    const int64_t stored = offset_of(m, d), limit = (int64_t)m->Vt;
    if (stored < -limit || stored >= limit)
        return -1;
    const int64_t id = stored + (as_ids ? 0 : (int64_t)d);
    return id >= 0 && id < limit ? id : -1;
}

/* How the rows map to tokens under one reading. */
typedef struct reading {
    uint32_t outside, descents, unmarked; /* rows; unmarked: t2d does not have their token */
    uint32_t first_outside, first_descent, first_unmarked;
} reading;

static void note(uint32_t *count, uint32_t *first, uint32_t d)
{
    *first = *count ? *first : d;
    *count += 1;
}

static reading read_as(const maps *m, int as_ids)
{
    reading r = {0};
    int64_t before = -1;
    for (uint32_t d = 0; d < m->Vd; d++) {
        const int64_t id = token_of(m, d, as_ids);
        if (id < 0) {
            note(&r.outside, &r.first_outside, d);
            continue;
        }
        if (id <= before)
            note(&r.descents, &r.first_descent, d);
        before = id;
        if (m->t2d && !m->t2d[id])
            note(&r.unmarked, &r.first_unmarked, d);
    }
    return r;
}

static uint64_t faults(const reading *r)
{
    return (uint64_t)r->outside + r->descents + r->unmarked;
}

static uint32_t marks(const maps *m)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < m->Vt; i++)
        sum += m->t2d[i] != 0;
    return sum;
}

static int all_zero(const maps *m)
{
    for (uint32_t d = 0; d < m->Vd; d++)
        if (offset_of(m, d))
            return 0;
    return 1;
}

/* V-158: "All offsets 0 under a reduced vocabulary" - a map that was never set; t2d can show that
 * the first tokens are meant. */
static int is_lost(const maps *m, const reading *offsets)
{
    return m->Vd < m->Vt && all_zero(m) && (!m->t2d || offsets->unmarked || marks(m) != m->Vd);
}

/* V-158: "If d2t makes sense as ids and not as offsets" */
static int holds_ids(const maps *m, const reading *offsets)
{
    const reading ids = read_as(m, 1);
    return faults(offsets) && !faults(&ids) && m->Vd > 1;
}

enum { NEIGHBOURS = 20 };

/* V-158: "offsets that grow in every row": offsets of two tokens that stand side by side are equal.
 * Vd of Vt tokens have Vd * Vd / Vt such pairs by chance, and none of 20 has a probability of
 * e^-20. */
static int grow_everywhere(const maps *m)
{
    if ((uint64_t)m->Vd * m->Vd / m->Vt < NEIGHBOURS)
        return 0;
    for (uint32_t d = 1; d < m->Vd; d++)
        if (offset_of(m, d) <= offset_of(m, d - 1))
            return 0;
    return 1;
}

static void tell_rows(sb_check *check, const maps *m, const reading *r)
{
    if (r->outside)
        sb_check_find(check, 58, SB_LEVEL_fatal, "d2t",
                      "row %u has the offset %" PRId64 ", expected a token from 0 to %u; %u of %u "
                      "rows are outside",
                      (unsigned)r->first_outside, offset_of(m, r->first_outside),
                      (unsigned)m->Vt - 1, (unsigned)r->outside, (unsigned)m->Vd);
    if (r->descents)
        sb_check_find(check, 58, SB_LEVEL_error, "d2t",
                      "row %u is token %" PRId64 " and does not ascend, as in %u of %u rows: the "
                      "rows were reordered, or a token is drafted twice",
                      (unsigned)r->first_descent, token_of(m, r->first_descent, 0),
                      (unsigned)r->descents, (unsigned)m->Vd);
    if (r->unmarked)
        sb_check_find(check, 58, SB_LEVEL_error, "t2d",
                      "token %" PRId64 " of row %u is not marked, as in %u of %u rows: d2t and t2d "
                      "are of different vocabularies",
                      token_of(m, r->first_unmarked, 0), (unsigned)r->first_unmarked,
                      (unsigned)r->unmarked, (unsigned)m->Vd);
}

static void judge(sb_check *check, const maps *m)
{
    const reading offsets = read_as(m, 0);
    if (is_lost(m, &offsets))
        sb_check_find(check, 58, SB_LEVEL_error, "d2t",
                      "is zero in all %u rows, so that row d is token d; of %u tokens%s: the map "
                      "was lost",
                      (unsigned)m->Vd, (unsigned)m->Vt,
                      m->t2d ? ", t2d marks others" : ", the first ones alone are hardly meant");
    else if (holds_ids(m, &offsets))
        sb_check_find(check, 58, SB_LEVEL_error, "d2t",
                      "holds the ids of tokens, expected offsets: row 1 stores %" PRId64
                      ", which engines read as token %" PRId64,
                      offset_of(m, 1), offset_of(m, 1) + 1);
    else
        tell_rows(check, m, &offsets);
    if (!faults(&offsets) && !m->t2d && grow_everywhere(m))
        sb_check_find(check, 58, SB_LEVEL_warn, "d2t",
                      "grows in every row, so that no two tokens that are drafted stand side by "
                      "side: these are probably ids, expected offsets");
}

/* V-158: "t2d must mark as many tokens as the head has rows" */
static void tell_marks(sb_check *check, const maps *m)
{
    const uint32_t sum = marks(m);
    uint32_t odd = 0;
    for (uint32_t i = 0; i < m->Vt; i++)
        odd += m->t2d[i] > 1;
    if (odd)
        sb_check_find(check, 58, SB_LEVEL_error, "t2d",
                      "%u bytes are neither 0 nor 1, which is no truth value", (unsigned)odd);
    if (sum != m->Vd)
        sb_check_find(check, 58, SB_LEVEL_error, "t2d",
                      "marks %u of %u tokens, but the head has %u rows", (unsigned)sum,
                      (unsigned)m->Vt, (unsigned)m->Vd);
}

static const unsigned char *map_of(const sb_check *check, const char *name, sb_dtype dtype,
                                   uint32_t n)
{
    const sb_tensor *t = sb_drafter_tensor(check, name);
    return t && t->dtype == dtype && t->rank == 1 && t->shape[0] == n ? t->data : NULL;
}

/* V-158: "d2t is I64 and t2d BOOL" */
static void tell_types(sb_check *check)
{
    const sb_tensor *d2t = sb_drafter_tensor(check, "d2t"), *t2d = sb_drafter_tensor(check, "t2d");
    if (d2t && d2t->dtype != SB_DTYPE_I64)
        sb_check_find(check, 58, SB_LEVEL_error, "d2t", "is %s, expected I64",
                      sb_dtype_name(d2t->dtype));
    if (t2d && t2d->dtype != SB_DTYPE_BOOL)
        sb_check_find(check, 58, SB_LEVEL_error, "t2d", "is %s, expected BOOL",
                      sb_dtype_name(t2d->dtype));
}

void sb_check_drafter_vocabulary(sb_check *check)
{
    const uint32_t Vd = check->self.drafter.draft_vocab, Vt = check->self.config.vocab_size;
    if (!check->self.is_drafter || !check->self.has_config || !sb_check_wanted(check, 58))
        return;
    const maps m = {.d2t = map_of(check, "d2t", SB_DTYPE_I64, Vd),
                    .t2d = map_of(check, "t2d", SB_DTYPE_BOOL, Vt),
                    .Vd = Vd,
                    .Vt = Vt};
    tell_types(check);
    if (m.d2t)
        judge(check, &m);
    if (m.t2d)
        tell_marks(check, &m);
}
