/* backend.h - a named table of ops; the reference is the one in host memory that defines the rest.
 */
#ifndef SB_RUN_BACKEND_H
#define SB_RUN_BACKEND_H

#include "ref/ops/op.h"

typedef struct sb_backend {
    const char *name;
    sb_op_table ops;
    const char *(*why)(void); /* what the op that failed last has said; NULL, or NULL: nothing */
} sb_backend;

/* The reference: every row of ops.def is its sb_<op>_ref. */
const sb_backend *sb_backend_ref(void);

size_t sb_op_count(void);
const char *sb_op_name(size_t i);
const char *sb_op_clause(size_t i);

#endif
