#include "ref/math/fn.h"
#include "ref/math/fn_round.h"

/* IEEE 754 requires a correctly rounded square root, and the processors that samebit is built for
 * have an instruction for it. With -fno-math-errno the compilers use it, so nothing of libm is
 * called. */
float sb_sqrt(float x)
{
    return x >= 0 ? __builtin_sqrtf(x) : sb_fn_nan();
}
