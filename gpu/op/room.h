/* room.h - is there memory for a model? */
#ifndef SB_GPU_OP_ROOM_H
#define SB_GPU_OP_ROOM_H

#include <stdint.h>

#include "gpu/base.h"

/* MemAvailable of /proc/meminfo, whose path it gets: what can be had without swapping, the page
 * cache included. */
sb_status sb_gpu_available(const char *path, uint64_t *bytes, sb_error *err);

/* SB_ERR_MEMORY unless the weights fit, and beside them what a run needs for itself. */
sb_status sb_gpu_fits(uint64_t weights, uint64_t available, sb_error *err);

#endif
