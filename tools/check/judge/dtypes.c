/* dtypes.c - check 54: values whose bits belong to another dtype than the header says. */
#include <inttypes.h>
#include <string.h>

#include "tools/check/scan/across.h"

/* V-154: "F16 that is really BF16". The upper five bits of a BF16 exponent become an F16 exponent:
 * BF16 magnitudes from 2^-31 to 2 are read as 1/8 to 2, most of them as 1 to 2, with either sign.
 * Real weights around 0 also have values near 0, which such data does not have. */
enum {
    LEAST_BITS = 0x3400, /* 0.25 as F16 */
    MOST_BITS = 0x4400,  /* 4 as F16 */
    ENOUGH = 64,         /* least number of values that are not 0 */
    /* number of values of a tensor that are read; more would not change the result */
    LOOKED_AT = 1 << 16,
    DISTINCT = 16,          /* least number of distinct magnitudes: a matrix of 1 and -1 has few */
    PART_OF_EITHER_SIGN = 8 /* each sign has at least one in this number of values */
};

static int is_bf16_inside(const sb_tensor *t)
{
    unsigned char met[0x8000 / 8] = {0};
    uint64_t n = t->bytes / 2, count = 0, negative = 0, distinct = 0;
    for (uint64_t i = 0; i < n && i < LOOKED_AT; i++) {
        unsigned bits = t->data[2 * i] | (unsigned)t->data[2 * i + 1] << 8, size = bits & 0x7FFF;
        if (size == 0)
            continue;
        if (size < LEAST_BITS || size >= MOST_BITS)
            return 0;
        distinct += !(met[size / 8] >> size % 8 & 1);
        met[size / 8] |= (unsigned char)(1 << size % 8);
        count++;
        negative += bits >> 15;
    }
    uint64_t least = negative < count - negative ? negative : count - negative;
    return count >= ENOUGH && distinct >= DISTINCT && least >= count / PART_OF_EITHER_SIGN;
}

void sb_check_dtypes(sb_check *check)
{
    const sb_units *u = &check->self.units;
    if (!sb_check_wanted(check, 54))
        return;
    for (size_t i = 0; i < u->count; i++) {
        const sb_unit *unit = &u->rows[i];
        const sb_tensor *t = unit->tensor ? unit->tensor : unit->found.part[SB_PART_weight];
        if (!t || unit->status || t->dtype != SB_DTYPE_F16 || !is_bf16_inside(t))
            continue;
        sb_check_find(check, 54, SB_LEVEL_error, t->name,
                      "is F16, and no value is between 0 and 0.25 or between -0.25 and 0: the "
                      "values are probably BF16, and the header says F16");
    }
}
