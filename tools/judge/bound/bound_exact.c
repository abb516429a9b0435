/* bound_exact.c - the bounds of ops whose inputs are all recorded. */
#include "tools/judge/bound/bound.h"
#include "ref/ops/values.h"

static const sb_ball *const none[SB_OP_INPUTS];

#define SB_OP(name, clause)                                                                        \
    sb_status sb_bound_##name(const sb_arithmetic *ar, const sb_knobs *knobs,                      \
                              const sb_##name##_args *args, sb_ball *out, sb_ball *second)         \
    {                                                                                              \
        return sb_bound_##name##_in(ar, knobs, args, none, out, second);                           \
    }
#include "ref/ops/ops.def"
