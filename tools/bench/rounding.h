/* rounding.h - compares outputs of a linear layer with the definition, and counts the tests that
 * settled their rounding. */
#ifndef SB_BENCH_ROUNDING_H
#define SB_BENCH_ROUNDING_H

#include <stdint.h>

#include "ref/math/exact.h"
#include "ref/ops/op.h"

typedef struct sb_bench_tried {
    uint64_t outputs;  /* compared */
    uint64_t integers; /* of these, sums of integers: rounding needs no test */
    uint64_t asked;    /* of the others, those with a rounding test */
    uint64_t sent;     /* of these, those with an uncertain first test */
    uint64_t exact;    /* of these, those with no certain test: exact.h decided */
} sb_bench_tried;

/* Recomputes rows spread over the layer by exact.h alone and compares the bits with args->out,
 * which has one row. plant: spoils one of them first, so that the comparison must fail. SB_ERR_DIFF
 * names the row. */
sb_status sb_bench_try(const sb_knobs *knobs, const sb_linear_args *args, int plant,
                       sb_bench_tried *tried, sb_error *err);

/* Adds the tests of `count` rows of a layer with one input to asked, sent and exact. Adds nothing
 * if the selected kernels do not read the matrix. */
sb_status sb_bench_count(const sb_matrix *w, const double *x, const sb_scalar *factor,
                         const uint32_t *rows, uint32_t count, sb_bench_tried *tried,
                         sb_error *err);

#endif
