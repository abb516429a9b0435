/* own.c - the ops that are their own twins. */
#include "ref/fast/fast.h"

#define SB_ARGS(op)
#define SB_ARGS_END(op)
#define SB_MEMBER(op, member)
#define SB_OWN_TWIN(op)                                                                            \
    sb_status sb_##op##_fast(const sb_knobs *knobs, const sb_##op##_args *args)                    \
    {                                                                                              \
        return sb_##op##_ref(knobs, args);                                                         \
    }
#include "ref/ops/args.def"
