/* meter.h - what a card gives, measured by kernels of this program in the run that wants to be
 * compared with it: the rate at which memory is read and copied, that of the bf16 matrix unit, and
 * how long a kernel takes that does nothing but wait for the one before.
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
    uint32_t multiprocessors; /* 0: the device does not say */
    uint32_t threads;         /* that one of them has */
    uint64_t cache, memory;   /* bytes of its L2 cache, and of its memory; 0: not said */
} sb_meter_card;

/* Kernels, and what they came to: `right` if that is what the host has computed. */
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
    sb_meter_pass launches;  /* each behind the end of the one before */
    sb_meter_pass dependent; /* Y-16: each begins while the one before ends */
    /* both kinds in a graph that is launched once; and graphs of one launch each */
    sb_meter_pass nodes, dependent_nodes, graphs;
} sb_meter_report;

/* How much is done. Of all zeros: what a device needs; on the emulator, what it can do in little
 * time. */
typedef struct sb_meter_options {
    uint64_t seed;
    uint64_t size[SB_METER_SIZES]; /* bytes, 16 divides them, none is smaller than the one before */
    uint32_t warm, passes;
    uint32_t rounds;      /* products of a chain in registers */
    uint32_t rows, width; /* of the input of the layer; N and K of its weight */
    uint32_t launches;
} sb_meter_options;

/* SB_ERR_UNSUPPORTED: the backend has no kernels. Forgets the weights of it, as sb_gpu_forget: to
 * be called before a model is opened. */
sb_status sb_meter(const sb_backend *backend, const sb_meter_options *options,
                   sb_meter_report *report, sb_error *err);

/* Bytes, operations or launches per second; 0 without a time. */
static inline double sb_meter_rate(const sb_meter_pass *pass)
{
    return pass->time.median > 0 ? (double)pass->work / pass->time.median : 0;
}

/* The fastest of the sizes that the cache does not hold: they are four times as large. If none is,
 * the last. */
static inline const sb_meter_pass *sb_meter_memory(const sb_meter_report *report)
{
    const sb_meter_pass *best = &report->read[SB_METER_SIZES - 1];
    for (int i = 0; i < SB_METER_SIZES; i++)
        if (report->size[i] >= 4 * report->card.cache &&
            sb_meter_rate(&report->read[i]) > sb_meter_rate(best))
            best = &report->read[i];
    return best;
}

/* B-18: where kernels run, matrices whose data lie in these bytes are drawn from the seed when an
 * op wants them; the bytes are never read. NULL: none are any more. */
sb_status sb_meter_draws(const sb_backend *backend, const void *first, size_t bytes, uint64_t seed,
                         sb_error *err);

/* A launch of a step: which kernel, for which op, and the seconds that it took; 0: nothing keeps
 * time here. */
typedef struct sb_meter_launch {
    const char *kernel, *op;
    double seconds;
} sb_meter_launch;

/* B-19: launches are noted from now on, up to `room` of them; sb_meter_watched ends that. The queue
 * is held now and then, so that the host is ahead: no time of anything else is right meanwhile. */
sb_status sb_meter_watch(const sb_backend *backend, sb_meter_launch *launches, size_t room,
                         sb_error *err);
sb_status sb_meter_watched(const sb_backend *backend, size_t *count, sb_error *err);

/* Marks 0 to SB_METER_MARKS - 1 in the queue, and the seconds from one to another. */
enum { SB_METER_MARKS = 128 };
sb_status sb_meter_mark(const sb_backend *backend, unsigned mark, sb_error *err);
sb_status sb_meter_between(const sb_backend *backend, unsigned from, unsigned to, double *seconds,
                           sb_error *err);

/* The median of some seconds, which it sorts, with the least and the most. */
sb_meter_time sb_meter_time_of(double *seconds, size_t n);

#ifdef __cplusplus
}
#endif

#endif
