#include <inttypes.h>

#include "tools/check/scan/across.h"

typedef struct sums {
    uint64_t blocks, narrow_blocks, lines, narrow_lines, fours, narrow_fours;
    uint32_t most;
} sums;

static sums add_up(const sb_unit *unit)
{
    sums s = {0};
    for (size_t i = 0; i < unit->seen_count; i++) {
        const sb_seen_plain *p = &unit->seen[i].plain;
        s.blocks += p->blocks;
        s.narrow_blocks += p->narrow_blocks;
        s.lines += p->lines;
        s.narrow_lines += p->narrow_lines;
        s.fours += p->fours;
        s.narrow_fours += p->narrow_fours;
        if (p->most > s.most)
            s.most = p->most;
    }
    return s;
}

/* V-40: "If every sample of one kind is narrow" */
static void judge_unit(sb_check *check, const sb_unit *unit)
{
    sums s = add_up(unit);
    const char *name = sb_unit_tensor(unit, SB_PART_COUNT);
    if (s.fours && s.narrow_fours == s.fours)
        sb_check_find(check, 40, SB_LEVEL_warn, name,
                      "was quantized to 4 bits before: in %" PRIu64 " of %" PRIu64
                      " sampled rows every group of 16 or 32 columns has as few "
                      "values as a 4-bit format",
                      s.narrow_fours, s.fours);
    else if (s.blocks && s.narrow_blocks == s.blocks)
        sb_check_find(check, 40, SB_LEVEL_warn, name,
                      "was quantized to 8 bits before: none of %" PRIu64
                      " sampled blocks of 128 x 128 has more than %" PRIu32
                      " different magnitudes, expected more than 500",
                      s.blocks, s.most);
    else if (s.lines && s.narrow_lines == s.lines)
        sb_check_find(check, 40, SB_LEVEL_warn, name,
                      "was quantized to 8 bits by rows before: each of %" PRIu64
                      " sampled rows has at most 127 different magnitudes, and at most half as "
                      "many as values other than 0",
                      s.lines);
}

void sb_check_double(sb_check *check)
{
    for (size_t i = 0; i < check->self.units.count; i++) {
        const sb_unit *unit = &check->self.units.rows[i];
        if (!unit->tensor && sb_unit_is_plain(unit) && unit->seen_count && unit->seen->done)
            judge_unit(check, unit);
    }
}
