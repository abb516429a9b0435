/* mistakes.h - op tables with one op replaced by a common mistake (mistakes.def).
 *
 * A comparison has to catch these mistakes, and --explain tries them. A mistake changes inputs,
 * parameters or outputs and, if possible, leaves the rest to the reference, so that nothing else is
 * wrong. */
#ifndef SB_FAULT_MISTAKES_H
#define SB_FAULT_MISTAKES_H

#include "tools/judge/fault/planted.h"

/* The ops below the mistakes on this thread: those of the reference, unless run_on has set other
 * ones. NULL: those of the reference again. */
const sb_op_table *sb_mistakes_ops(void);
void sb_mistakes_run_on(const sb_op_table *table);

/* The functions, one per row. */
#define SB_PLANTED(kind, op, by, with, words)                                                      \
    sb_status sb_mistake_##by(const sb_knobs *knobs, const sb_##op##_args *a);
#define SB_HARMLESS SB_PLANTED
#include "tools/judge/fault/lists/mistakes.def"
#undef SB_PLANTED
#undef SB_HARMLESS

/* A parameter in binary32 after `edit`. The caller frees .bytes, also after a failure. */
typedef struct sb_mistake_param {
    sb_matrix matrix;
    unsigned char *bytes;
} sb_mistake_param;
sb_status sb_mistake_edit(const sb_matrix *from,
                          void (*edit)(float *values, size_t rows, size_t cols),
                          sb_mistake_param *to);
void sb_mistake_subtract_one(float *values, size_t rows, size_t cols);

/* A copy of an array; NULL if memory is out. */
float *sb_mistake_copy(const float *values, size_t count);

/* From x (rows, from, width) makes (rows, to, width): head h is a copy of head h mod from. */
float *sb_mistake_spread(const float *x, size_t rows, size_t from, size_t to, size_t width);

#endif
