/* device.h - times a step on the device, with weights drawn there.
 *
 * B-19: "the step of the ledger is run" (docs/bench-gpu.md) */
#ifndef SB_BENCH_DEVICE_H
#define SB_BENCH_DEVICE_H

#include "gpu/meter/meter.h"
#include "tools/bench/hollow.h"

enum { SB_DEVICE_PASSES = 31, SB_DEVICE_DRAFTS = 8 };

typedef struct sb_device_options {
    const sb_backend *backend;
    const char *profile;
    int fp8_cache; /* keys and values in FP8 */
    sb_hollow_options model;
    size_t rows;           /* of the timed call */
    int prompt;            /* the call is the first of a sequence */
    uint64_t context;      /* tokens before the call, if it is not the first */
    unsigned warm, passes; /* 1 to SB_DEVICE_PASSES */
    unsigned looks;        /* passes in which each launch is timed; at most SB_DEVICE_PASSES */
    unsigned drafts;       /* also times rounds of 1 to `drafts` drafts; at most SB_DEVICE_DRAFTS */
} sb_device_options;

/* Launches of one kernel, or for one op, in one call. */
typedef struct sb_device_part {
    char name[64];
    size_t launches;
    double seconds; /* 0: there is no timer */
} sb_device_part;

/* B-20: a round, and its parts. */
typedef struct sb_device_round {
    sb_meter_time drafts, verify, accept, whole;
} sb_device_round;

enum { SB_DEVICE_PARTS = 128 };
typedef struct sb_device_report {
    sb_meter_report card;
    sb_meter_time step; /* a graph, or for a prompt launch by launch */
    sb_meter_time keep; /* after a verify step: accepts one row and discards the others */
    size_t launches;    /* of a step */
    double seconds;     /* sum of the launches, each timed alone */
    sb_device_part kernel[SB_DEVICE_PARTS], op[SB_DEVICE_PARTS];
    size_t kernels, ops;
    uint64_t weights;                        /* bytes drawn and kept */
    uint32_t token;                          /* the token after the last call */
    sb_meter_time plain;                     /* a step of one token, timed like rounds */
    sb_device_round round[SB_DEVICE_DRAFTS]; /* of i + 1 drafts */
    unsigned rounds;                         /* timed rounds */
} sb_device_report;

/* The most bytes of weights for the emulator. */
enum { SB_DEVICE_EMULATED = 256 << 20 };

sb_status sb_device_run(const sb_device_options *options, sb_device_report *out, sb_error *err);

#endif
