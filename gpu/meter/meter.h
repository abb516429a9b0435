/* meter.h - measures the speed of a card, in the same run as the kernels that are compared with
 * this speed: the rates of memory reads, of memory copies and of the bf16 matrix unit, and the time
 * of a kernel that only waits for its predecessor.
 *
 * B-17: "the card is measured in the same run, by kernels of this program" */
#ifndef SB_METER_METER_H
#define SB_METER_METER_H

#include "gpu/gpu.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Seconds of a pass; 0 on the emulator, which keeps no time. */
typedef struct sb_meter_time {
    double median, least, most;
} sb_meter_time;

typedef struct sb_meter_card {
    char name[256];
    uint32_t multiprocessors; /* 0: unknown */
    uint32_t threads;         /* the most threads of one multiprocessor */
    uint64_t cache, memory;   /* bytes of the L2 cache and of the memory; 0: unknown */
} sb_meter_card;

/* A timed group of kernels. `right`: their result equals the result of the host. */
typedef struct sb_meter_pass {
    uint64_t work; /* bytes read (and written); or multiplications and additions; or launches */
    sb_meter_time time;
    int right;
} sb_meter_pass;

enum { SB_METER_SIZES = 4 };
typedef struct sb_meter_report {
    sb_meter_card card;
    uint32_t passes; /* the number of timed passes, after the warm-up */
    uint64_t size[SB_METER_SIZES];
    sb_meter_pass read[SB_METER_SIZES], copy[SB_METER_SIZES];
    sb_meter_pass matrix;    /* products of registers */
    sb_meter_pass linear;    /* linear layers of many rows, with memory accesses and staging */
    sb_meter_pass launches;  /* each launch starts after the end of its predecessor */
    sb_meter_pass dependent; /* Y-16: each launch may start before its predecessor has ended */
    /* nodes, dependent_nodes: the same two kinds, but in one graph that is launched once; graphs: a
     * graph for each launch */
    sb_meter_pass nodes, dependent_nodes, graphs;
} sb_meter_report;

/* The amount of work. A zero selects the default: of a device, or a short run on the emulator. */
typedef struct sb_meter_options {
    uint64_t seed;
    uint64_t size[SB_METER_SIZES]; /* bytes: multiples of 16, ascending */
    uint32_t warm, passes;
    uint32_t rounds;      /* products of each chain in registers */
    uint32_t rows, width; /* rows of the layer's input; N and K of its weight */
    uint32_t launches;
} sb_meter_options;

/* SB_ERR_UNSUPPORTED: the backend has no kernels. Frees the backend's weights like sb_gpu_forget,
 * so call this before a model is opened. */
sb_status sb_meter(const sb_backend *backend, const sb_meter_options *options,
                   sb_meter_report *report, sb_error *err);

/* Bytes, operations or launches per second; 0 if there is no time. */
static inline double sb_meter_rate(const sb_meter_pass *pass)
{
    return pass->time.median > 0 ? (double)pass->work / pass->time.median : 0;
}

/* The fastest read among sizes that the cache cannot hold (at least four times the cache). If there
 * is no such size, the read of the last size. */
static inline const sb_meter_pass *sb_meter_memory(const sb_meter_report *report)
{
    const sb_meter_pass *best = &report->read[SB_METER_SIZES - 1];
    for (int i = 0; i < SB_METER_SIZES; i++)
        if (report->size[i] >= 4 * report->card.cache &&
            sb_meter_rate(&report->read[i]) > sb_meter_rate(best))
            best = &report->read[i];
    return best;
}

/* B-18: from now on kernels fill the weights of matrices whose data lie in these bytes with random
 * numbers from the seed, when an op needs these weights. The bytes themselves are never read.
 * `first` NULL ends this. */
sb_status sb_meter_draws(const sb_backend *backend, const void *first, size_t bytes, uint64_t seed,
                         sb_error *err);

/* A launch of a step: its kernel, its op, and its seconds (0 on the emulator). */
typedef struct sb_meter_launch {
    const char *kernel, *op;
    double seconds;
} sb_meter_launch;

/* B-19: notes the next launches, at most `room`, until sb_meter_watched. The queue is sometimes
 * held, so that the host stays ahead of the device. Other times that are measured meanwhile are
 * therefore wrong. */
sb_status sb_meter_watch(const sb_backend *backend, sb_meter_launch *launches, size_t room,
                         sb_error *err);
sb_status sb_meter_watched(const sb_backend *backend, size_t *count, sb_error *err);

/* Marks in the queue, 0 to SB_METER_MARKS - 1, and the seconds between two of them. */
enum { SB_METER_MARKS = 128 };
sb_status sb_meter_mark(const sb_backend *backend, unsigned mark, sb_error *err);
sb_status sb_meter_between(const sb_backend *backend, unsigned from, unsigned to, double *seconds,
                           sb_error *err);

/* Sorts `seconds`, and returns its median, least and largest value. */
sb_meter_time sb_meter_time_of(double *seconds, size_t n);

#ifdef __cplusplus
}
#endif

#endif
