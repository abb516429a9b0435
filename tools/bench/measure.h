/* measure.h - timing, statistics of repetitions, and the speed of reading memory. */
#ifndef SB_BENCH_MEASURE_H
#define SB_BENCH_MEASURE_H

#include <stddef.h>

#include "ref/base/status.h"

double sb_bench_now(void);     /* seconds */
double sb_bench_cpu_now(void); /* seconds of all processors: less disturbed by other processes */

/* Median, minimum and maximum of repetitions. */
typedef struct sb_bench_noise {
    double median, least, most;
} sb_bench_noise;

sb_bench_noise sb_bench_noise_of(const double *values, size_t n); /* at most 1024 values */

/* An array larger than the caches, which all threads read repeatedly. */
typedef struct sb_bench_stream {
    double *memory;
    size_t bytes;
    double sum; /* keeps the compiler from removing the reads */
} sb_bench_stream;

/* mib 0: 1 GiB, or four times the last cache if that is more. */
sb_status sb_bench_stream_new(size_t mib, sb_bench_stream *out, sb_error *err);
void sb_bench_stream_free(sb_bench_stream *stream);

/* Bytes per second of one pass. */
double sb_bench_stream_pass(sb_bench_stream *stream, unsigned threads);

#endif
