/* bench_device.h - what `samebit bench decode|verify|prefill --backend B` has measured, beside the
 * ledger. */
#ifndef SB_CLI_BENCH_DEVICE_H
#define SB_CLI_BENCH_DEVICE_H

#include <jansson.h>

#include "tools/bench/device.h"
#include "tools/bench/moves.h"
#include "tools/bench/moves_kernels.h"

/* A step that was measured, and what it is held against. */
typedef struct sb_bench_measured {
    const sb_device_report *report;
    const sb_moves *step;           /* its ledger */
    const sb_moves_kernels *ledger; /* the same by kernels */
    uint32_t rows;
    int is_graph;     /* else its launches are the host's */
    const char *unit; /* "tokens" */
    const char *profile;
    const sb_moves_model *model;
    const sb_floor_options *options; /* with the bandwidth of a GB10, as it was said */
    double latency;                  /* of a GB10, too: seconds */
    int emulated;
} sb_bench_measured;

/* SB_ERR_SKIPPED, and *why gets the reason: there is no such backend here, or no device. */
sb_status sb_bench_backend(const char *name, const sb_backend **out, sb_error *why);

void sb_bench_print_measured(const sb_bench_measured *m);
json_t *sb_bench_json_measured(const sb_bench_measured *m);

/* B-17: "a difference makes the measurement WRONG" - then 1. */
int sb_bench_is_wrong(const sb_device_report *report);

#endif
