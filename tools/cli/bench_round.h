/* bench_round.h - measured speculation rounds next to those of the ledger. */
#ifndef SB_CLI_BENCH_ROUND_H
#define SB_CLI_BENCH_ROUND_H

#include "tools/cli/bench_device.h"

/* rate and latency, the time between phases, are for the ledger's rounds. Prints nothing if no
 * round was run. */
void sb_bench_print_rounds(const sb_bench_measured *m, double rate, double latency);
json_t *sb_bench_json_rounds(const sb_bench_measured *m, double rate, double latency);

#endif
