#include "ref/ops/args.h"

#include <string.h>

/* --- the members of each op ------------------------------------------------------------------- */

#define ROW_OF(op, member, kind, counted)                                                          \
    {#member, SB_ARG_##kind, offsetof(sb_##op##_args, member),                                     \
     sizeof((sb_##op##_args *)0)->member, offsetof(sb_##op##_args, counted)},
#define ROW(op, member, kind) ROW_OF(op, member, kind, member)
#define SB_ARGS(op) static const sb_arg args_of_##op[] = {
#define SB_ARGS_END(op)                                                                            \
    }                                                                                              \
    ;
#define SB_SIZE(op, member) ROW(op, member, size)
#define SB_INT(op, member) ROW(op, member, int)
#define SB_FLOAT(op, member) ROW(op, member, float)
#define SB_DOUBLE(op, member) ROW(op, member, double)
#define SB_SCALAR(op, member) ROW(op, member, scalar)
#define SB_INPUT(op, member, rows, cols, stride) ROW(op, member, input)
#define SB_INPLACE(op, member, rows, cols) ROW(op, member, inplace)
#define SB_STATE(op, member, rows, cols) ROW(op, member, state)
#define SB_TRAIL(op, member, rows, cols) ROW(op, member, trail)
#define SB_OUTPUT(op, member, rows, cols) ROW(op, member, output)
#define SB_SECOND(op, member, rows, cols) ROW(op, member, second)
#define SB_IDS(op, member, count) ROW_OF(op, member, ids, count)
#define SB_CHOICE(op, member, rows, cols) ROW(op, member, choice)
#define SB_WEIGHT(op, member) ROW(op, member, weight)
#define SB_POSITIONS(op, member, count) ROW_OF(op, member, positions, count)
#define SB_SECTION(op, member) ROW(op, member, section)
#include "ref/ops/args.def"

sb_arg_list sb_args_of(sb_op op)
{
    static const sb_arg_list lists[] = {
#define SB_OP(name, clause)                                                                        \
    {args_of_##name, sizeof args_of_##name / sizeof *args_of_##name, sizeof(sb_##name##_args)},
#include "ref/ops/ops.def"
#undef SB_OP
    };
    return lists[op];
}

const sb_arg *sb_arg_find(sb_op op, const char *name)
{
    const sb_arg_list list = sb_args_of(op);
    for (size_t i = 0; i < list.count; i++)
        if (strcmp(list.args[i].name, name) == 0)
            return &list.args[i];
    return NULL;
}

/* --- a copy of an op's arguments -------------------------------------------------------------- */

/* The code of the copies is generated from the rows of args.def, in their order. If a member has no
 * row, the compiler reports that the member is not initialized. */
#define SB_ARGS(op)                                                                                \
    static sb_##op##_args copy_of_##op(const sb_##op##_args *a)                                    \
    {                                                                                              \
        return (sb_##op##_args)                                                                    \
        {
#define SB_ARGS_END(op)                                                                            \
    }                                                                                              \
    ;                                                                                              \
    }
#define SB_MEMBER(op, member) a->member,
#define SB_SIZE(op, member) *(const size_t *){&a->member},
#define SB_FLOAT(op, member) *(const float *){&a->member},
#define SB_SCALAR(op, member) *(const float *){&a->member},
#define SB_DOUBLE(op, member) *(const double *){&a->member},
#define SB_POSITIONS(op, member, count) {a->member[0], a->member[1], a->member[2]},
#include "ref/ops/args.def"

void sb_args_copy(sb_op op, const void *args, sb_any_args *to)
{
    switch (op) {
#define SB_OP(name, clause)                                                                        \
    case SB_OP_##name:                                                                             \
        to->name = copy_of_##name(args);                                                           \
        break;
#include "ref/ops/ops.def"
#undef SB_OP
    case SB_OP_COUNT:
        break;
    }
}
