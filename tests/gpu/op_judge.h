/* op_judge.h - compares one op of a backend with the reference on the same arguments. */
#ifndef SB_TESTS_GPU_OP_JUDGE_H
#define SB_TESTS_GPU_OP_JUDGE_H

#include <stdint.h>

#include "ref/ops/op.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct op_judged {
    size_t elements, differ; /* in a bit; all NaNs count as equal */
    size_t outside;          /* the bound of the kernels' arithmetic; includes ids that differ */
    double worst;            /* largest error over its bound */
    char first[240];         /* the first one that differs (exact), or lies outside */
} op_judged;

sb_status op_run(const sb_op_table *table, sb_op op, const sb_knobs *knobs, const void *args);

/* Runs the op of the reference, then the op of the table, and adds the comparison to *out. exact:
 * without bounds. The last state of a trail must equal the state. Arrays changed in place are
 * restored between the two. At the end, the arguments hold the results of the table's op. Returns
 * its status. */
sb_status op_judge(const sb_op_table *table, sb_op op, const void *args, const sb_knobs *knobs,
                   int exact, op_judged *out);

/* bfloat16 values with an approximately normal distribution, times `scale`. */
void op_draw(const char *name, uint64_t seed, float scale, size_t count, float *out);

/* A matrix of such values in a format that is not quantized; free(matrix.data). */
sb_matrix op_matrix(const char *name, uint64_t seed, float scale, sb_format format, uint32_t rows,
                    uint32_t cols);

#ifdef __cplusplus
}
#endif

#endif
