/* room.h - checks whether a model fits into memory. */
#ifndef SB_GPU_OP_MEMORY_FIT_H
#define SB_GPU_OP_MEMORY_FIT_H

#include <stdint.h>

#include "gpu/base.h"

/* MemAvailable of the file `path` (/proc/meminfo): the memory available without swapping, page
 * cache included. */
sb_status sb_gpu_available(const char *path, uint64_t *bytes, sb_error *err);

/* SB_ERR_MEMORY unless the weights fit together with the other memory of a run. */
sb_status sb_gpu_fits(uint64_t weights, uint64_t available, sb_error *err);

#endif
