#include "gpu/math/fn.h"
#include "gpu/math/log1p.h"
#include "ref/math/fn.h"
#include "tests/gpu/math_functions.h"

namespace
{

/* the exceptions, each table in its own namespace */
namespace of_exp
{
#include "gpu/math/exp_exceptions.inc"
}
namespace of_log
{
#include "gpu/math/log_exceptions.inc"
}
namespace of_rsqrt
{
#include "gpu/math/rsqrt_exceptions.inc"
}
namespace of_sin
{
#include "gpu/math/sin_exceptions.inc"
}
namespace of_cos
{
#include "gpu/math/cos_exceptions.inc"
}
namespace of_sigmoid
{
#include "gpu/math/sigmoid_exceptions.inc"
}
namespace of_silu
{
#include "gpu/math/silu_exceptions.inc"
}
namespace of_softplus
{
#include "gpu/math/softplus_exceptions.inc"
}
namespace of_log1p_minus
{
#include "gpu/math/log1p_minus_exceptions.inc"
}

float right_log1p_minus(float u)
{
    return sb_log1p(-u);
}

#define ROW(name, right, above, above_end, below, below_end, partial)                              \
    {                                                                                              \
#name, sb_gpu_##name, right,                                                               \
            &of_##name::ROWS[0].input, of_##name::COUNT, above, above_end, below, below_end,       \
                             partial                                                               \
    }
const math_function rows[] = {
    ROW(exp, sb_exp, 0x32000000u, 0x42b20000u, 0x32000000u, 0x42d00001u, 0),
    ROW(sigmoid, sb_sigmoid, 0x3a800000u, 0x41900000u, 0x3a800000u, 0x42d00001u, 0),
    ROW(silu, sb_silu, 0x32800000u, 0x42d00000u, 0x32800000u, 0x42dc0001u, 0),
    ROW(softplus, sb_softplus, 0x32000000u, 0x41900000u, 0x32000000u, 0x42d00001u, 0),
    ROW(rsqrt, sb_rsqrt, 0x3f800000u, 0x40800000u, 0, 0, 0),
    ROW(log, sb_log, 0, 0x7f800000u, 0, 0, 0),
    ROW(sin, sb_sin, 0x39000000u, 0x7f800000u, 0, 0, 0),
    ROW(cos, sb_cos, 0x39000000u, 0x7f800000u, 0, 0, 0),
    ROW(log1p_minus, right_log1p_minus, 0x2f000000u, 0x3f800000u, 0, 0, 1), /* 2^-33 to 1 */
};
#undef ROW
static_assert(sizeof rows / sizeof *rows == MATH_FUNCTIONS, "a row for each name");

} // namespace

const math_function *math_function_row(int i)
{
    return &rows[i];
}

float math_fma_in_double(float a, float b, float c)
{
    return sb_gpu_fma_in_double(a, b, c);
}
