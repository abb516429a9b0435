/* child.h - what a call costs, measured in a process of its own. */
#ifndef SB_BENCH_CHILD_H
#define SB_BENCH_CHILD_H

#include <stdint.h>

#include "ref/base/status.h"

typedef struct sb_bench_child {
    double seconds;      /* elapsed */
    double processor;    /* seconds of processors: less disturbed by other processes */
    uint64_t peak_bytes; /* resident, with mapped files */
    sb_status status;    /* of the call */
    sb_error err;
} sb_bench_child;

/* Calls run(ctx, err) on one thread in a child, whose output is thrown away. Fails only if there
 * can be no child, or if it did not end by itself. */
sb_status sb_bench_in_child(sb_status (*run)(void *ctx, sb_error *err), void *ctx,
                            sb_bench_child *out, sb_error *err);

#endif
