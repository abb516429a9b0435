/* mutants.h - tables of ops with one op replaced: mutants.def.
 *
 * A mutant changes inputs, parameters or outputs and leaves the rest to the reference where it can,
 * so that nothing but the mistake is wrong. */
#ifndef SB_TESTS_FAULT_MUTANTS_H
#define SB_TESTS_FAULT_MUTANTS_H

#include <stddef.h>

#include "ref/ops/op.h"

typedef struct mutant {
    const char *name, *op, *what;
    int benign; /* another evaluation of the same thing: the comparison must pass */
    void (*plant)(sb_op_table *table);
} mutant;

size_t mutant_count(void);
const mutant *mutant_at(size_t i);

/* The functions, one per row. */
#define SB_MUTANT(name, op, what)                                                                  \
    sb_status mutant_##name(const sb_knobs *knobs, const sb_##op##_args *a);
#define SB_BENIGN(name, op, what) SB_MUTANT(name, op, what)
#include "tests/fault/mutants.def"
#undef SB_MUTANT
#undef SB_BENIGN

/* A parameter in binary32 after `edit`; free() releases .bytes, also after a failure. */
typedef struct mutant_param {
    sb_matrix matrix;
    unsigned char *bytes;
} mutant_param;
sb_status mutant_edit(const sb_matrix *from, void (*edit)(float *values, size_t rows, size_t cols),
                      mutant_param *to);
void mutant_subtract_one(float *values, size_t rows, size_t cols);

/* A copy of an array; NULL if memory is out. */
float *mutant_copy(const float *values, size_t count);

/* Of x (rows, from, width): head h of `to` heads gets the row of head h mod from. */
float *mutant_spread(const float *x, size_t rows, size_t from, size_t to, size_t width);

#endif
