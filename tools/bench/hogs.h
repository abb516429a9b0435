/* hogs.h - the reference on a busy machine: tokens with as many threads as it takes by default, and
 * on one, in turn, beside processes that never sleep. */
#ifndef SB_BENCH_HOGS_H
#define SB_BENCH_HOGS_H

#include "tools/bench/cpu.h"

enum { SB_HOGS_MOST = 256 };

typedef struct sb_hogs_report {
    size_t hogs, threads; /* beside so many; by default */
    size_t passes;
    sb_bench_noise many, one; /* seconds of a token */
    sb_bench_noise ratio;     /* of the two, pass by pass */
} sb_hogs_report;

/* options->passes pairs of options->tokens tokens behind options->context. The processes end with
 * the measurement, or with this process. */
sb_status sb_bench_hogs(const sb_model *model, const sb_bench_options *options, size_t hogs,
                        sb_hogs_report *out, sb_error *err);

#endif
