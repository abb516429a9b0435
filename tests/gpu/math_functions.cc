#include "tests/gpu/math_functions.h"

#include "gpu/math/fn.h"
#include "gpu/math/log1p.h"

namespace
{

/* the exceptions, each table in a namespace of its own */
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

#define ROW(name, above, above_end, below, below_end, partial)                                     \
    {                                                                                              \
#name, sb_gpu_##name,                                                                      \
            &of_##name::ROWS[0].input, of_##name::COUNT, above, above_end, below, below_end,       \
                             partial                                                               \
    }
const math_function rows[MATH_FUNCTIONS] = {
    ROW(exp, 0x32000000u, 0x42b20000u, 0x32000000u, 0x42d00001u, 0),
    ROW(sigmoid, 0x3a800000u, 0x41900000u, 0x3a800000u, 0x42d00001u, 0),
    ROW(silu, 0x32800000u, 0x42d00000u, 0x32800000u, 0x42dc0001u, 0),
    ROW(softplus, 0x32000000u, 0x41900000u, 0x32000000u, 0x42d00001u, 0),
    ROW(rsqrt, 0x3f800000u, 0x40800000u, 0, 0, 0),
    ROW(log, 0, 0x7f800000u, 0, 0, 0),
    ROW(sin, 0x39000000u, 0x7f800000u, 0, 0, 0),
    ROW(cos, 0x39000000u, 0x7f800000u, 0, 0, 0),
    ROW(log1p_minus, 0x2f000000u, 0x3f800000u, 0, 0, 1), /* 2^-33 to 1 */
};
#undef ROW

} // namespace

const math_function *math_function_row(int i)
{
    return &rows[i];
}

float math_fma_in_double(float a, float b, float c)
{
    return sb_gpu_fma_in_double(a, b, c);
}
