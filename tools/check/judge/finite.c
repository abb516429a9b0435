#include <inttypes.h>

#include "ref/container/show.h"
#include "tools/check/scan/across.h"

/* Sums over all pieces of a unit. */
typedef struct sums {
    uint64_t nans, infinities, saturated, values;
    size_t pieces, piece; /* number of pieces with a bad value, and the first of them */
} sums;

static sums add_up(const sb_unit *unit)
{
    sums s = {0};
    for (size_t i = 0; i < unit->seen_count; i++) {
        const sb_seen_plain *p = &unit->seen[i].plain;
        int worse = p->nans + p->infinities > 0;
        if (!unit->seen[i].done)
            continue;
        s.values += unit->seen[i].rows * unit->seen[i].cols;
        if (p->has_bad && (!s.pieces || (worse && !(s.nans + s.infinities))))
            s.piece = i;
        s.pieces += p->has_bad != 0;
        s.nans += p->nans;
        s.infinities += p->infinities;
        s.saturated += p->saturated;
    }
    return s;
}

/* V-12: "NaN and infinity are FATAL" */
static void judge_unit(sb_check *check, const sb_unit *unit)
{
    sums s = add_up(unit);
    sb_spot_buffer room;
    if (!s.pieces)
        return;
    sb_spot spot = unit->seen[s.piece].plain.bad;
    const char *name = sb_unit_tensor(unit, SB_PART_COUNT);
    const char *where = sb_spot_text(check, unit, s.piece, spot, &room);
    if (s.nans + s.infinities)
        sb_check_find(check, 12, SB_LEVEL_fatal, name,
                      "%" PRIu64 " NaN and %" PRIu64 " infinite of %" PRIu64
                      " values, first 0x%0*" PRIx32 " at %s",
                      s.nans, s.infinities, s.values, spot.bits >> 16 ? 8 : 4, spot.bits, where);
    else
        sb_check_find(check, 12, SB_LEVEL_error, name,
                      "%" PRIu64 " of %" PRIu64
                      " values are +-65504, the largest F16: something larger was cut off, first "
                      "at %s",
                      s.saturated, s.values, where);
}

void sb_check_finite(sb_check *check)
{
    for (size_t i = 0; i < check->self.units.count; i++) {
        const sb_unit *unit = &check->self.units.rows[i];
        if (!sb_unit_is_plain(unit) || !unit->seen_count || !unit->seen->done)
            continue;
        judge_unit(check, unit);
    }
}
