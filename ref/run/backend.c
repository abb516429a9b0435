#include "ref/run/backend.h"

static const sb_backend reference = {
    .name = "ref",
    .experts = sb_experts_ref,
    .ops =
        {
#define SB_OP(name, clause) .name = sb_##name##_ref,
#include "ref/ops/ops.def"
#undef SB_OP
        },
};

static const struct {
    const char *name, *clause;
} rows[] = {
#define SB_OP(name, clause) {#name, clause},
#include "ref/ops/ops.def"
#undef SB_OP
};

const sb_backend *sb_backend_ref(void)
{
    return &reference;
}

size_t sb_op_count(void)
{
    return sizeof rows / sizeof *rows;
}

const char *sb_op_name(size_t i)
{
    return rows[i].name;
}

const char *sb_op_clause(size_t i)
{
    return rows[i].clause;
}
