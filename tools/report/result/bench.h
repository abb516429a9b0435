/* bench.h - a report of `bench cpu` as tables and as JSON. */
#ifndef SB_REPORT_BENCH_H
#define SB_REPORT_BENCH_H

#include <jansson.h>

#include "tools/bench/cpu.h"
#include "tools/bench/hogs.h"
#include "tools/bench/worst.h"

void sb_bench_print(const sb_bench_report *report, const sb_bench_options *options);
void sb_bench_print_worst(const sb_worst_report *report, const sb_bench_options *options);

void sb_bench_print_hogs(const sb_hogs_report *report);

/* These add the report to a document. */
void sb_bench_json(const sb_bench_report *report, const sb_bench_options *options,
                   json_t *document);
void sb_bench_json_worst(const sb_worst_report *report, const sb_bench_options *options,
                         json_t *document);
void sb_bench_json_hogs(const sb_hogs_report *report, json_t *document);

#endif
