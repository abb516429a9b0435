/* Nearest codes of E4M3, as a definition and as tables. */
#include "tools/check/fp8.h"

enum { NAN_CODE = 0x7f, TOP = 0x7e };

/* The value of a magnitude in halves of a code: 2c is code c, 2c + 1 lies halfway to the next. From
 * one code to the next values grow by the same step until the exponent changes, and the first code
 * of an exponent ends the steps of the one before, so every half is exactly this. */
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
    double w = code & 0x80u ? -weight : weight; /* as if the code were positive */
    if (magnitude == NAN_CODE)
        return 1;
    double below = magnitude ? halves(2 * magnitude - 1) : -halves(1);
    if (256 * w + slack < 256 * below * scale)
        return 0;
    return magnitude == TOP || 256 * w - slack <= 256 * halves(2 * magnitude + 1) * scale;
}

void sb_fp8_fill(sb_fp8_table *table)
{
    const double huge = 0x1p1000; /* times a scale it is still above every weight, and no infinity
                                   * times zero can come of it */
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
