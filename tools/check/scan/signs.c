/* signs.c - matrices and convolutions with numbers of only one sign. */
#include <inttypes.h>

#include "ref/base/text.h"
#include "ref/container/show.h"
#include "ref/formats/plain_row.h"
#include "tools/check/scan/across.h"
#include "tools/check/scan/rows.h"
#include "tools/check/scan/scan.h"
#include "tools/check/scan/signs.h"

/* V-42: "1024 numbers" */
enum { FEW = 1024 };

static unsigned size_of(sb_format format)
{
    switch (format) {
    case SB_FORMAT_bf16:
    case SB_FORMAT_f16:
        return 2;
    case SB_FORMAT_f32:
        return 4;
    case SB_FORMAT_e4m3:
        return 1;
    default:
        return 0;
    }
}

/* The sign is in the last byte of each number; zeros count for no sign. */
void sb_see_signs(const sb_matrix *m, sb_seen *seen)
{
    unsigned size = size_of(m->format);
    for (uint32_t row = 0; row < m->rows && size && seen->signs != 3; row++) {
        const unsigned char *p = sb_matrix_row_bytes(m, row);
        for (uint64_t k = 0; k < m->cols && seen->signs != 3; k++, p += size)
            if ((p[size - 1] & 0x7f) != 0)
                seen->signs |= p[size - 1] & 0x80 ? 2 : 1;
    }
}

static unsigned of_ints(const sb_seen_int *s)
{
    unsigned signs = 0;
    for (unsigned i = 0; i < 16; i++)
        if (i != 8 && s->steps[i])
            signs |= i < 8 ? 2 : 1;
    return signs;
}

/* 1: all above zero; 2: all below; any other value: both, or unknown. */
static unsigned signs_of(const sb_unit *unit, const sb_seen *s)
{
    if (unit->tensor)
        return s->signs;
    if (sb_container_is_fp4(unit->found.container))
        return s->fp4.negative ? 3 : 1;
    return sb_container_has_words(unit->found.container) ? of_ints(&s->ints) : s->signs;
}

int sb_values_known(const sb_unit *unit, const sb_seen *s)
{
    if (s->has_distance && s->distance.count)
        return s->distance.error2 < 0.25 * s->distance.master2;
    return sb_unit_is_plain(unit) && s->plain.compared && s->plain.differing == 0;
}

static void judge_signs(sb_check *check, const sb_unit *unit)
{
    uint64_t pieces = 0, count = 0;
    unsigned all = 0;
    if (unit->status || (unit->tensor && !sb_ends(unit->plain, "conv1d.weight")))
        return;
    for (size_t i = 0; i < unit->seen_count; i++) {
        const sb_seen *s = &unit->seen[i];
        unsigned signs = signs_of(unit, s);
        if (!s->done || s->rows < 2 || s->moments.count < FEW ||
            2 * s->moments.zeros > s->moments.count || signs == 0 || signs == 3 ||
            sb_values_known(unit, s))
            continue;
        if (pieces++ == 0) {
            all = signs;
            count = s->moments.count;
        }
    }
    if (pieces)
        sb_check_find(check, 42, SB_LEVEL_error,
                      unit->tensor ? unit->name : sb_unit_tensor(unit, SB_PART_COUNT),
                      "none of %" PRIu64 " numbers is %s zero, expected both signs (%" PRIu64
                      " of %zu matrices are like this): the signs are lost",
                      count, all == 1 ? "below" : "above", pieces, unit->seen_count);
}

void sb_check_signs(sb_check *check)
{
    for (size_t i = 0; i < check->self.units.count; i++)
        judge_signs(check, &check->self.units.rows[i]);
}
