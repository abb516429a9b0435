/* device_sequence.h - a sequence of drawn tokens on a device, which a measurement continues. */
#ifndef SB_BENCH_DEVICE_SEQUENCE_H
#define SB_BENCH_DEVICE_SEQUENCE_H

#include "gpu/step/step.h"
#include "tools/bench/device.h"

typedef struct sb_device_sequence {
    const sb_device_options *o;
    const sb_model *model;
    sb_gpu_step *step;
    uint64_t drawn;   /* tokens */
    uint32_t *tokens; /* of a call */
} sb_device_sequence;

/* Opens an empty sequence. rows: the most rows of a call after the context; positions: how many can
 * follow the context; mtp: the head is to make drafts. */
sb_status sb_device_sequence_open(sb_device_sequence *s, size_t rows, uint64_t positions, int mtp,
                                  sb_error *err);
void sb_device_sequence_close(sb_device_sequence *s);

/* B-19: "other tokens in every pass" - draws the next n. */
void sb_device_sequence_draw(sb_device_sequence *s, size_t n);

/* Feeds the context: at least one token, unless the timed call is a prompt. */
sb_status sb_device_sequence_begin(sb_device_sequence *s, sb_error *err);

#endif
