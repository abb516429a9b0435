#include "ref/run/backend.h"

#include "ref/fast/fast.h"
#include "ref/fast/dot/dot.h"

/* The table of the definitions: op <op> is sb_<op>_ref, and experts run one by one. */
static const sb_backend definition = {
    .name = "ref",
    .ops =
        {
#define SB_OP(name, clause) .name = sb_##name##_ref,
#include "ref/ops/ops.def"
#undef SB_OP
        },
};

static const sb_backend twin = {
    .name = "ref",
    .experts = sb_experts_fast,
    .ops =
        {
#define SB_OP(name, clause) .name = sb_##name##_fast,
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
    return sb_math_is_exact() ? &definition : &twin;
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
