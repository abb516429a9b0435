/* args.h - the members of the ops' argument structs, as a table made from args.def. */
#ifndef SB_OPS_ARGS_H
#define SB_OPS_ARGS_H

#include "ref/ops/op.h"

/* The kind of a member; args.def explains each kind. */
typedef enum sb_arg_kind {
    SB_ARG_size,
    SB_ARG_int,
    SB_ARG_float,
    SB_ARG_double,
    SB_ARG_scalar,
    SB_ARG_input,
    SB_ARG_inplace,
    SB_ARG_state,
    SB_ARG_trail,
    SB_ARG_output,
    SB_ARG_second,
    SB_ARG_ids,
    SB_ARG_choice,
    SB_ARG_weight,
    SB_ARG_positions,
    SB_ARG_section
} sb_arg_kind;

typedef struct sb_arg {
    const char *name;
    sb_arg_kind kind;
    size_t offset, size; /* in the struct */
    size_t count_offset; /* offset of the size_t that counts the ids or positions */
} sb_arg;

/* The members of an op, in the order of its struct. */
typedef struct sb_arg_list {
    const sb_arg *args;
    size_t count, size; /* number of members; bytes of the struct */
} sb_arg_list;
sb_arg_list sb_args_of(sb_op op);

/* The member of that name; NULL if the op has none. */
const sb_arg *sb_arg_find(sb_op op, const char *name);

/* Holds the arguments of any op. */
typedef union sb_any_args {
#define SB_OP(name, clause) sb_##name##_args name;
#include "ref/ops/ops.def"
#undef SB_OP
} sb_any_args;

/* Copies the argument struct, but not the arrays to which it points. */
void sb_args_copy(sb_op op, const void *args, sb_any_args *to);

/* The address of the member in arguments of its op. */
static inline void *sb_arg_at(void *args, const sb_arg *arg)
{
    return (unsigned char *)args + arg->offset;
}

/* The number of ids or positions of the member in arguments of its op. */
static inline size_t sb_arg_count(const void *args, const sb_arg *arg)
{
    return *(const size_t *)(const void *)((const unsigned char *)args + arg->count_offset);
}

/* True if the member is a number in the struct itself, not an array. */
static inline int sb_arg_is_number(const sb_arg *arg)
{
    return arg->kind <= SB_ARG_scalar;
}

/* True if the member points to binary32 values that the op reads. */
static inline int sb_arg_is_read(const sb_arg *arg)
{
    return arg->kind == SB_ARG_input || arg->kind == SB_ARG_inplace || arg->kind == SB_ARG_state;
}

#endif
