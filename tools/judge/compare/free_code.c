/* free_code.c - an element of a cache of codes. Codes are so far apart that the noise of values
 * says nothing about steps between them: T-48. */
#include "ref/formats/small_float.h"
#include "tools/judge/compare/free_parts.h"
#include "tools/judge/bound/wide_fn.h"

/* F-6: an E4M3 code differs from its value by at most 1/16 of the code, or by 2^-10, half of the
 * smallest code. */
sb_free_code sb_free_code_unknown(double code, double bound)
{
    double half = sb_wide_abs(code) / 16;
    return (sb_free_code){code, bound + (half > 0x1p-10 ? half : 0x1p-10)};
}

static double code_of(double x)
{
    return (double)sb_e4m3_to_f32(sb_f32_to_e4m3((float)x));
}

/* True if the code of the value moved by `by` is `theirs` or beyond it. */
static int reaches(const sb_free_code *of, double theirs, double by)
{
    return theirs > code_of(of->before) ? code_of(of->before + by) >= theirs
                                        : code_of(of->before - by) <= theirs;
}

double sb_free_code_ratio(const sb_free_code *of, double theirs)
{
    enum { HALVES = 10 };
    double share = 1;
    if (theirs == code_of(of->before))
        return 0;
    if (!reaches(of, theirs, of->bound))
        return sb_free_ratio(sb_wide_abs(theirs - of->before), of->bound);
    for (int i = 0; i < HALVES && reaches(of, theirs, of->bound * share / 2); i++)
        share /= 2;
    return share;
}

double sb_free_code_reach(const sb_free_code *of, double code)
{
    double up = code_of(of->before + of->bound) - code,
           down = code - code_of(of->before - of->bound);
    return up > down ? up : down;
}
