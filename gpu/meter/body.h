/* body.h - the base of the meters: marks in the queue of a body, and the seconds between them.
 * Marks are events of a device; the emulator keeps no time, and its seconds are 0. */
#ifndef SB_METER_BODY_H
#define SB_METER_BODY_H

#include "gpu/meter/meter.h"
#include "gpu/op/body.h"

#include <stdlib.h>

sb_status sb_gpu_marks_open(sb_gpu *gpu, size_t count, sb_gpu_marks **out);
void sb_gpu_marks_close(sb_gpu *gpu, sb_gpu_marks *marks); /* NULL: does nothing */
/* Puts mark i into the queue, after all work queued so far. */
sb_status sb_gpu_mark(sb_gpu *gpu, sb_gpu_marks *marks, size_t i);
/* Waits for mark j and returns the seconds from mark i to mark j; 0 on the emulator. */
sb_status sb_gpu_between(sb_gpu *gpu, const sb_gpu_marks *marks, size_t i, size_t j,
                         double *seconds);

/* Holds the queue for some milliseconds: work that is queued meanwhile waits. */
sb_status sb_gpu_hold(sb_gpu *gpu);

/* sb_gpu_watch notes the next launches, at most `room`. sb_gpu_watched ends this, and fills in the
 * time of each launch. */
sb_status sb_gpu_watch(sb_gpu *gpu, sb_meter_launch *launches, size_t room);
sb_status sb_gpu_watched(sb_gpu *gpu, size_t *count);

/* Writes the properties of the body's device. */
sb_status sb_gpu_card(sb_gpu *gpu, sb_meter_card *card);

/* B-18: from now on the weights of matrices whose data lie in these bytes are random numbers; the
 * bytes are never read. `first` NULL: no weights are random. */
void sb_gpu_draws(sb_gpu *gpu, const void *first, size_t bytes, uint64_t seed);
bool sb_gpu_is_hollow(const sb_gpu *gpu, const sb_matrix *matrix);
/* Replaces sb_gpu_fill for random weights. */
sb_status sb_gpu_draw(sb_gpu *gpu, sb_gpu_piece *piece, const char *name,
                      const sb_gpu_matrices &all, sb_gpu_pack pack, size_t bytes);
/* Memory for random weights. Kernels may write it between _open and _close, and only read it after
 * _close. */
sb_status sb_gpu_drawn_open(sb_gpu *gpu, sb_gpu_piece *piece, const char *name, size_t bytes);
sb_status sb_gpu_drawn_close(sb_gpu *gpu, sb_gpu_piece *piece, const char *name, size_t bytes);

/* Measures the card. After an error sb_gpu_said returns the message. */
sb_status sb_gpu_meter(sb_gpu *gpu, const sb_meter_options *options, sb_meter_report *report);

#endif
