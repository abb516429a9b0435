/* hogs.h - the reference on a busy machine: tokens with the default number of threads and with one
 * thread in turn, while other processes run without pause. */
#ifndef SB_BENCH_HOGS_H
#define SB_BENCH_HOGS_H

#include "tools/bench/cpu.h"

enum { SB_HOGS_MOST = 256 };

typedef struct sb_hogs_report {
    size_t hogs, threads; /* number of hogs; default number of threads */
    size_t passes;
    sb_bench_noise many, one; /* seconds of a token */
    sb_bench_noise ratio;     /* many / one, pass by pass */
} sb_hogs_report;

/* Times options->passes pairs of options->tokens tokens after options->context tokens. The hogs end
 * with the measurement, or with this process. */
sb_status sb_bench_hogs(const sb_model *model, const sb_bench_options *options, size_t hogs,
                        sb_hogs_report *out, sb_error *err);

#endif
