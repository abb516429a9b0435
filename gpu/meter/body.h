/* body.h - what meters stand on: marks in the queue of a body, and the seconds between them. On a
 * device they are events; the emulator keeps no time, and its seconds are 0. */
#ifndef SB_METER_BODY_H
#define SB_METER_BODY_H

#include "gpu/meter/meter.h"
#include "gpu/op/body.h"

#include <stdlib.h>

sb_status sb_gpu_marks_open(sb_gpu *gpu, size_t count, sb_gpu_marks **out);
void sb_gpu_marks_close(sb_gpu *gpu, sb_gpu_marks *marks); /* NULL: nothing */
/* What was started before is before mark i, what is started from now on behind it. */
sb_status sb_gpu_mark(sb_gpu *gpu, sb_gpu_marks *marks, size_t i);
/* Waits for mark j, and gives the seconds from mark i to it; 0: nothing keeps time here. */
sb_status sb_gpu_between(sb_gpu *gpu, const sb_gpu_marks *marks, size_t i, size_t j,
                         double *seconds);

/* Holds the queue for some milliseconds: what is put into it meanwhile waits. */
sb_status sb_gpu_hold(sb_gpu *gpu);

/* Launches from now on are noted, up to `room` of them; and what was noted, with the time of each.
 */
sb_status sb_gpu_watch(sb_gpu *gpu, sb_meter_launch *launches, size_t room);
sb_status sb_gpu_watched(sb_gpu *gpu, size_t *count);

/* What kind of machine the body has. */
sb_status sb_gpu_card(sb_gpu *gpu, sb_meter_card *card);

/* B-18: matrices whose data lie in these bytes, which are never read, are drawn from now on. NULL:
 * none are. */
void sb_gpu_draws(sb_gpu *gpu, const void *first, size_t bytes, uint64_t seed);
bool sb_gpu_is_hollow(const sb_gpu *gpu, const sb_matrix *matrix);
/* In the place of sb_gpu_fill. */
sb_status sb_gpu_draw(sb_gpu *gpu, sb_gpu_piece *piece, const char *name,
                      const sb_gpu_matrices &all, sb_gpu_pack pack, size_t bytes);
/* Memory for them, which kernels write; and which they only read, once that is done. */
sb_status sb_gpu_drawn_open(sb_gpu *gpu, sb_gpu_piece *piece, const char *name, size_t bytes);
sb_status sb_gpu_drawn_close(sb_gpu *gpu, sb_gpu_piece *piece, const char *name, size_t bytes);

/* The card measured. What was said of an error stands in sb_gpu_said. */
sb_status sb_gpu_meter(sb_gpu *gpu, const sb_meter_options *options, sb_meter_report *report);

#endif
