/* mistakes.h - tables of ops with one op replaced: the mistakes that people make (mistakes.def).
 *
 * They are what a comparison must catch, and what it is explained with. A mistake changes inputs,
 * parameters or outputs and leaves the rest to the reference where it can, so that nothing but the
 * mistake is wrong. */
#ifndef SB_FAULT_MISTAKES_H
#define SB_FAULT_MISTAKES_H

#include <stddef.h>

#include "ref/ops/op.h"

typedef struct sb_mistake {
    const char *name, *op, *what;
    int benign; /* another evaluation of the same thing: the comparison must pass */
    void (*plant)(sb_op_table *table);
} sb_mistake;

size_t sb_mistake_count(void);
const sb_mistake *sb_mistake_at(size_t i);
const sb_mistake *sb_mistake_find(const char *name); /* NULL: there is none of that name */

/* The functions, one per row. */
#define SB_MISTAKE(name, op, what)                                                                 \
    sb_status sb_mistake_##name(const sb_knobs *knobs, const sb_##op##_args *a);
#define SB_BENIGN(name, op, what) SB_MISTAKE(name, op, what)
#include "tools/fault/mistakes.def"
#undef SB_MISTAKE
#undef SB_BENIGN

/* A parameter in binary32 after `edit`; free() releases .bytes, also after a failure. */
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

/* Of x (rows, from, width): head h of `to` heads gets the row of head h mod from. */
float *sb_mistake_spread(const float *x, size_t rows, size_t from, size_t to, size_t width);

#endif
