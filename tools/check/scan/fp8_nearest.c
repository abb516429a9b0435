/* fp8_nearest.c - nearest codes of E4M3: the definition, and its tables. */
#include "tools/check/scan/fp8.h"

enum { NAN_CODE = 0x7f, TOP = 0x7e };

/* The value at half steps of the magnitude code: 2c is code c, 2c + 1 is the midpoint of codes c
 * and c + 1. All codes of one exponent, and the first code of the next, are equally spaced, so that
 * this is exact for every midpoint. */
static double halves(unsigned twice)
{
    double step = 0x1p-10;
    if (twice < 16)
        return twice * step;
    for (unsigned exponent = twice >> 4; exponent > 1; exponent--)
        step *= 2;
    return (16 + twice % 16) * step;
}

/* V-31: "a nearest code to t = w / S within |t| / 256" - multiplied out, so that every operation
 * here is exact in binary64. */
int sb_fp8_nearest(uint8_t code, double weight, double scale)
{
    unsigned magnitude = code & 0x7fu;
    double slack = weight < 0 ? -weight : weight;
    /* a negative code is compared like the positive one */
    double w = code & 0x80u ? -weight : weight;
    if (magnitude == NAN_CODE)
        return 1;
    double below = magnitude ? halves(2 * magnitude - 1) : -halves(1);
    if (256 * w + slack < 256 * below * scale)
        return 0;
    return magnitude == TOP || 256 * w - slack <= 256 * halves(2 * magnitude + 1) * scale;
}

void sb_fp8_fill(sb_fp8_table *table)
{
    /* above every weight, even after multiplication by a scale; finite, so that infinity * 0 cannot
     * occur */
    const double huge = 0x1p1000;
    for (unsigned code = 0; code < 256; code++) {
        unsigned magnitude = code & 0x7fu;
        double value = magnitude == NAN_CODE ? 0 : halves(2 * magnitude);
        double above = magnitude < TOP ? 256 * halves(2 * magnitude + 1) : huge;
        double below = magnitude ? 256 * halves(2 * magnitude - 1) : -256 * halves(1);
        if (magnitude == NAN_CODE)
            below = -huge;
        table->value[code] = code & 0x80u ? -value : value;
        table->low[code] = code & 0x80u ? -above : below;
        table->high[code] = code & 0x80u ? -below : above;
    }
}
