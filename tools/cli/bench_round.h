/* bench_round.h - rounds of speculation that were measured, beside those of the ledger. */
#ifndef SB_CLI_BENCH_ROUND_H
#define SB_CLI_BENCH_ROUND_H

#include "tools/cli/bench_device.h"

/* The ledger's are those of this memory rate and this time from a phase to the next. Nothing is
 * printed where no round was run. */
void sb_bench_print_rounds(const sb_bench_measured *m, double rate, double latency);
json_t *sb_bench_json_rounds(const sb_bench_measured *m, double rate, double latency);

#endif
