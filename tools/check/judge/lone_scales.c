/* lone_scales.c - reports lone block scales, if only few matrices have some. */
#include <inttypes.h>

#include "ref/container/show.h"
#include "ref/formats/wide.h"
#include "tools/check/scan/rows.h"
#include "tools/check/scan/scan_scales.h"

enum {
    /* if more than 1 / USUAL_PART of the quantized matrices have lone scales, these are normal */
    USUAL_PART = 64,
    USUAL = 2, /* ... but up to this number of matrices is always few */
    MOST = 8   /* a matrix with more lone scales is not reported */
};

const char *sb_scale_name(const sb_unit *unit)
{
    static const sb_model_part parts[] = {SB_PART_weight_scale, SB_PART_weight_scale_inv,
                                          SB_PART_scales};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (unit->found.part[parts[i]])
            return unit->found.part[parts[i]]->name;
    return sb_unit_tensor(unit, SB_PART_COUNT);
}

static void tell(sb_check *check, const sb_member *m)
{
    const sb_places *lone = &m->seen->lone;
    float scale = sb_matrix_scale(&m->matrix, lone->row[0], lone->col[0]);
    sb_check_find(
        check, 54, SB_LEVEL_error, sb_scale_name(m->unit),
        "%sthe scale %.4g of row %" PRIu32 ", column %" PRIu32
        " is about 2^%d times the other scales of its row and column, expected less than 64 times "
        "(%" PRIu64
        " such scales). Its codes are those of usual weights: the exponent of the scale is damaged",
        SB_PIECE(m), (double)scale, lone->row[0], lone->col[0], m->seen->lone_apart, lone->count);
}

void sb_check_lone_scales(sb_check *check)
{
    const sb_units *u = &check->self.units;
    size_t all = 0, with = 0;
    for (size_t i = 0; i < u->member_count; i++) {
        all += sb_matrix_quantized(&u->members[i].matrix) && u->members[i].seen->done;
        with += u->members[i].seen->lone.count > 0;
    }
    if (with > USUAL && with * USUAL_PART > all)
        return;
    for (size_t i = 0; i < u->member_count; i++) {
        uint64_t count = u->members[i].seen->lone.count;
        if (count > 0 && count <= MOST)
            tell(check, &u->members[i]);
    }
}
