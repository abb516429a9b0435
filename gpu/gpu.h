/* gpu.h - the kernels as backends: on the emulator, and on a device. */
#ifndef SB_GPU_GPU_H
#define SB_GPU_GPU_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "ref/run/backend.h"

/* Y-12: "An op under knobs that no profile of the GPU path has is the reference's" - then 0. */
int sb_gpu_computes(sb_op op, const sb_knobs *knobs);

/* The emulator (docs/gpu.md), of which there is one in the process: calls come from one thread.
 * NULL where this program was built without a C++ compiler. */
const sb_backend *sb_backend_emu(void);

/* The order in which its threads take their turns from now on: Y-3. */
void sb_backend_emu_seed(uint64_t seed);

/* Whether the emulator keeps a history of accesses, from which it knows races: as it does at first,
 * or 0, where a whole model takes less time (Y-14). */
void sb_backend_emu_history(int kept);

/* A fault that kernels can make (gpu/kernel/plants.def): the op that it is in, and what must be run
 * to see it. */
typedef struct {
    const char *name, *op, *words, *seen;
} sb_gpu_fault;
const sb_gpu_fault *sb_gpu_faults(size_t *count); /* none where there is no emulator */

/* Kernels on the emulator make this fault from now on; NULL: none. 0, and none, if there is no such
 * fault. */
int sb_gpu_plant(const char *name);

/* The first device. SB_ERR_SKIPPED if there is none, or if this program was built without nvcc. */
sb_status sb_backend_gpu(const sb_backend **out, sb_error *err);

/* SB_ERR_MEMORY if the backend is a device and has no room for weights of so many bytes; before
 * anything is loaded. */
sb_status sb_gpu_room(const sb_backend *backend, uint64_t weights, sb_error *err);

/* Forgets the weights that were brought to it: before their model is closed. Nothing for other
 * backends, and for NULL. */
void sb_gpu_forget(const sb_backend *backend);

/* What an op does from now on: all of it; only bring its weights to where kernels run; or only
 * count the bytes that it would bring. In the last two its outputs are not written. */
typedef enum sb_gpu_mode { SB_GPU_COMPUTES, SB_GPU_BRINGS, SB_GPU_COUNTS } sb_gpu_mode;

/* *bytes gets those that were counted, if that was the mode, else all that were packed so far.
 * SB_ERR_UNSUPPORTED: the backend has no kernels. */
sb_status sb_gpu_staging(const sb_backend *backend, sb_gpu_mode mode, uint64_t *bytes,
                         sb_error *err);

/* Offers the memory of a file, and of its mapping from `first` on, back to the system: what is read
 * again comes from the file again. 0 where the system did not take it. */
int sb_gpu_forget_file(const char *path, const void *first, size_t bytes);

/* Of either. */
sb_status sb_emu_staging(const sb_backend *backend, sb_gpu_mode mode, uint64_t *bytes,
                         sb_error *err);
sb_status sb_device_staging(const sb_backend *backend, sb_gpu_mode mode, uint64_t *bytes,
                            sb_error *err);
void sb_emu_forget(const sb_backend *backend);
void sb_device_forget(const sb_backend *backend);

#ifdef __cplusplus
}
#endif

#endif
