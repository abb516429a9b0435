/* list.c - the list of ops with test vectors. */
#include "tools/judge/gate/gate.h"

#include <string.h>

/* NULL-terminated. */
static const sb_gate_op *(*const list[])(void) = {
#define SB_GATE_OP(name) sb_gate_op_##name,
#include "tools/judge/gate/ops.def"
#undef SB_GATE_OP
    NULL};

size_t sb_gate_op_count(void)
{
    return sizeof list / sizeof *list - 1;
}

const sb_gate_op *sb_gate_op_at(size_t i)
{
    return list[i]();
}

const sb_gate_op *sb_gate_op_find(const char *name)
{
    for (size_t i = 0; list[i]; i++)
        if (strcmp(list[i]()->name, name) == 0)
            return list[i]();
    return NULL;
}
