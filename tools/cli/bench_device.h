/* bench_device.h - measurements of `samebit bench decode|verify|prefill --backend B` next to the
 * ledger. */
#ifndef SB_CLI_BENCH_DEVICE_H
#define SB_CLI_BENCH_DEVICE_H

#include <jansson.h>

#include "tools/bench/device.h"
#include "tools/bench/moves.h"
#include "tools/bench/moves_kernels.h"

/* A measured step and its ledger. */
typedef struct sb_bench_measured {
    const sb_device_report *report;
    const sb_moves *step;           /* ledger of the step */
    const sb_moves_kernels *ledger; /* the same by kernels */
    uint32_t rows;
    int is_graph;     /* else the host launches the kernels */
    const char *unit; /* "tokens" */
    const char *profile;
    const sb_moves_model *model;
    const sb_floor_options *options; /* with the stated bandwidth of a GB10 */
    double latency;                  /* stated latency of a GB10, in seconds */
    int emulated;
} sb_bench_measured;

/* SB_ERR_SKIPPED if there is no such backend or no device here; *why gets the reason. */
sb_status sb_bench_backend(const char *name, const sb_backend **out, sb_error *why);

void sb_bench_print_measured(const sb_bench_measured *m);
json_t *sb_bench_json_measured(const sb_bench_measured *m);

/* B-17: "a difference makes the measurement WRONG" - returns 1 then. */
int sb_bench_is_wrong(const sb_device_report *report);

#endif
