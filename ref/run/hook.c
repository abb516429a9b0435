#include "ref/run/hook.h"

const char *sb_call_kind_name(sb_call_kind kind)
{
    static const char *const names[] = {"prompt", "decode", "verify", "draft"};
    return names[kind];
}

sb_status sb_op_run(const sb_op_call *call)
{
    switch (call->op) {
#define SB_OP(name, clause)                                                                        \
    case SB_OP_##name:                                                                             \
        return call->table->name(call->knobs, (const sb_##name##_args *)call->args);
#include "ref/ops/ops.def"
#undef SB_OP
    case SB_OP_COUNT:
        break;
    }
    return SB_ERR_USAGE;
}
