/* op_judge.h - one op of a backend beside the reference on the same arguments. */
#ifndef SB_TESTS_GPU_OP_JUDGE_H
#define SB_TESTS_GPU_OP_JUDGE_H

#include <stdint.h>

#include "ref/ops/op.h"

typedef struct op_judged {
    size_t elements, differ; /* in a bit; one NaN is as good as another */
    size_t outside;          /* of the bound of the kernels' arithmetic; ids that differ count */
    double worst;            /* largest error over its bound */
    char first[240];         /* that differs (exact), or lies outside */
} op_judged;

sb_status op_run(const sb_op_table *table, sb_op op, const sb_knobs *knobs, const void *args);

/* Runs the op of the reference and then that of the table, and adds what it sees to *out. exact:
 * without bounds. The last of a trail must be the state. What is in place is put back between the
 * two; at the end the arguments have what the table's op gave. Returns its status. */
sb_status op_judge(const sb_op_table *table, sb_op op, const void *args, const sb_knobs *knobs,
                   int exact, op_judged *out);

/* Values of bfloat16, about normal, times `scale`. */
void op_draw(const char *name, uint64_t seed, float scale, size_t count, float *out);

/* A matrix of such values in a format that is not quantized; free(matrix.data). */
sb_matrix op_matrix(const char *name, uint64_t seed, float scale, sb_format format, uint32_t rows,
                    uint32_t cols);

#endif
