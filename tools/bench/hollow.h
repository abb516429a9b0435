/* hollow.h - a model with shapes only. Its vectors have values, but its matrices are only addresses
 * that are never read: a backend draws their packed weights (gpu/meter/meter.h).
 *
 * B-18: "never made, written or copied to the device" */
#ifndef SB_BENCH_HOLLOW_H
#define SB_BENCH_HOLLOW_H

#include "ref/run/model.h"
#include "tools/make/scheme.h"

typedef struct sb_hollow_options {
    const char *preset, *format; /* of samebit make */
    sb_scheme further;           /* scheme of plain weights of these modules of the trunk */
    unsigned modules;
    unsigned layers; /* 0: the preset's */
    uint64_t seed;
    int mtp;
} sb_hollow_options;

typedef struct sb_hollow {
    sb_model *model;
    void *first;  /* the first of the addresses of matrices */
    size_t bytes; /* bytes of the matrices in a file */
    unsigned char *values;
} sb_hollow;

/* SB_ERR_UNSUPPORTED names the first tensor that cannot be drawn. */
sb_status sb_hollow_new(const sb_hollow_options *options, sb_hollow *out, sb_error *err);
void sb_hollow_free(sb_hollow *hollow); /* call it after the backend has released the weights */

#endif
