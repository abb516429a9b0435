/* meter.h - the speed of a card, measured by kernels of this program in the run that is compared
 * with it: the rates of memory reads and copies and of the bf16 matrix unit, and the time of a
 * kernel that only waits for its predecessor.
 *
 * B-17: "the card is measured in the same run, by kernels of this program" */
#ifndef SB_METER_METER_H
#define SB_METER_METER_H

#include "gpu/gpu.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Seconds of a pass. 0: nothing keeps time here. */
typedef struct sb_meter_time {
    double median, least, most;
} sb_meter_time;

typedef struct sb_meter_card {
    char name[256];
    uint32_t multiprocessors; /* 0: unknown */
    uint32_t threads;         /* of one multiprocessor */
    uint64_t cache, memory;   /* bytes of the L2 cache and of the memory; 0: unknown */
} sb_meter_card;

/* A timed group of kernels; `right`: their result is what the host has computed. */
typedef struct sb_meter_pass {
    uint64_t work; /* bytes read, or read and written; multiplications and additions; launches */
    sb_meter_time time;
    int right;
} sb_meter_pass;

enum { SB_METER_SIZES = 4 };
typedef struct sb_meter_report {
    sb_meter_card card;
    uint32_t passes; /* timed, behind the warm-up */
    uint64_t size[SB_METER_SIZES];
    sb_meter_pass read[SB_METER_SIZES], copy[SB_METER_SIZES];
    sb_meter_pass matrix;    /* products of registers */
    sb_meter_pass linear;    /* the same in linear layers of many rows: memory, staging and all */
    sb_meter_pass launches;  /* each starts after the end of its predecessor */
    sb_meter_pass dependent; /* Y-16: each starts while its predecessor ends */
    /* both kinds as one graph that is launched once; and graphs of one launch each */
    sb_meter_pass nodes, dependent_nodes, graphs;
} sb_meter_report;

/* The amount of work. Zeros select defaults for a device, and on the emulator short runs. */
typedef struct sb_meter_options {
    uint64_t seed;
    uint64_t size[SB_METER_SIZES]; /* bytes: multiples of 16, ascending */
    uint32_t warm, passes;
    uint32_t rounds;      /* products of a chain in registers */
    uint32_t rows, width; /* of the input of the layer; N and K of its weight */
    uint32_t launches;
} sb_meter_options;

/* SB_ERR_UNSUPPORTED: the backend has no kernels. Frees the backend's weights like sb_gpu_forget,
 * so call this before a model is opened. */
sb_status sb_meter(const sb_backend *backend, const sb_meter_options *options,
                   sb_meter_report *report, sb_error *err);

/* Bytes, operations or launches per second; 0 without a time. */
static inline double sb_meter_rate(const sb_meter_pass *pass)
{
    return pass->time.median > 0 ? (double)pass->work / pass->time.median : 0;
}

/* The fastest read of a size that the cache does not hold (at least four times the cache); if there
 * is no such size, the last one. */
static inline const sb_meter_pass *sb_meter_memory(const sb_meter_report *report)
{
    const sb_meter_pass *best = &report->read[SB_METER_SIZES - 1];
    for (int i = 0; i < SB_METER_SIZES; i++)
        if (report->size[i] >= 4 * report->card.cache &&
            sb_meter_rate(&report->read[i]) > sb_meter_rate(best))
            best = &report->read[i];
    return best;
}

/* B-18: from now on matrices whose data lie in these bytes are drawn from the seed, where kernels
 * run, when an op needs them; the bytes are never read. NULL ends that. */
sb_status sb_meter_draws(const sb_backend *backend, const void *first, size_t bytes, uint64_t seed,
                         sb_error *err);

/* A launch of a step: its kernel, its op, and its seconds; 0: nothing keeps time here. */
typedef struct sb_meter_launch {
    const char *kernel, *op;
    double seconds;
} sb_meter_launch;

/* B-19: notes later launches, up to `room` of them, until sb_meter_watched. The queue is held now
 * and then to keep the host ahead, so other times taken meanwhile are wrong. */
sb_status sb_meter_watch(const sb_backend *backend, sb_meter_launch *launches, size_t room,
                         sb_error *err);
sb_status sb_meter_watched(const sb_backend *backend, size_t *count, sb_error *err);

/* Marks in the queue, 0 to SB_METER_MARKS - 1, and the seconds between two of them. */
enum { SB_METER_MARKS = 128 };
sb_status sb_meter_mark(const sb_backend *backend, unsigned mark, sb_error *err);
sb_status sb_meter_between(const sb_backend *backend, unsigned from, unsigned to, double *seconds,
                           sb_error *err);

/* Median, least and most of `seconds`, which is sorted. */
sb_meter_time sb_meter_time_of(double *seconds, size_t n);

#ifdef __cplusplus
}
#endif

#endif
