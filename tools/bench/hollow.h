/* hollow.h - a model of which only the shapes are there: its vectors have values, and its matrices
 * are addresses in memory that nobody has to fill or read, since a backend draws what would be
 * packed of them (gpu/meter/meter.h).
 *
 * B-18: "nothing is made, written or brought" */
#ifndef SB_BENCH_HOLLOW_H
#define SB_BENCH_HOLLOW_H

#include "ref/run/model.h"
#include "tools/make/scheme.h"

typedef struct sb_hollow_options {
    const char *preset, *format; /* of samebit make */
    sb_scheme further;           /* what the format leaves plain in these modules of the trunk */
    unsigned modules;
    unsigned layers; /* 0: the preset's */
    uint64_t seed;
    int mtp;
} sb_hollow_options;

typedef struct sb_hollow {
    sb_model *model;
    void *first;  /* of the addresses that stand for matrices */
    size_t bytes; /* as many as a file would have of them */
    unsigned char *values;
} sb_hollow;

/* SB_ERR_UNSUPPORTED names the first tensor that cannot be drawn. */
sb_status sb_hollow_new(const sb_hollow_options *options, sb_hollow *out, sb_error *err);
void sb_hollow_free(sb_hollow *hollow); /* the backend has forgotten its weights */

#endif
