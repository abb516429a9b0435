/* gpu.h - the kernels as backends, on the emulator and on a device. */
#ifndef SB_GPU_GPU_H
#define SB_GPU_GPU_H

#include <stddef.h>
#include <stdint.h>

#include "ref/run/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Y-12: "An op under knobs that no profile of the GPU path has is computed by the reference" - then
 * 0. */
int sb_gpu_computes(sb_op op, const sb_knobs *knobs);

/* The emulator (docs/gpu.md). The process has one; all calls come from one thread. NULL if this
 * program was built without a C++ compiler. */
const sb_backend *sb_backend_emu(void);

/* Sets the seed of the thread order of later launches: Y-3. */
void sb_backend_emu_seed(uint64_t seed);

/* Switches the history of accesses, which is needed to find races, on or off (Y-14). It is on at
 * first; without it a whole model takes less time. */
void sb_backend_emu_history(int kept);

/* A fault that kernels can make (gpu/kernel/plants.def): its op, and what must run to show it. */
typedef struct {
    const char *name, *op, *words, *seen;
} sb_gpu_fault;
const sb_gpu_fault *sb_gpu_faults(size_t *count); /* none without the emulator */

/* From now on kernels on the emulator make this fault; NULL: no fault. Returns 0 and plants no
 * fault if the name is unknown. */
int sb_gpu_plant(const char *name);

/* The first device. SB_ERR_SKIPPED if there is none, or if this program was built without nvcc. */
sb_status sb_backend_gpu(const sb_backend **out, sb_error *err);

/* SB_ERR_MEMORY if the backend is a device without enough memory for `weights` bytes. Called before
 * anything is loaded. */
sb_status sb_gpu_check_memory(const sb_backend *backend, uint64_t weights, sb_error *err);

/* Frees the packed weights of the backend; call this before their model is closed. Does nothing for
 * other backends and for NULL. */
void sb_gpu_forget(const sb_backend *backend);

/* What ops do from now on: compute; only pack their weights and bring them to where kernels run; or
 * only count the bytes of these. The last two write no outputs. */
typedef enum sb_gpu_mode { SB_GPU_COMPUTES, SB_GPU_BRINGS, SB_GPU_COUNTS } sb_gpu_mode;

/* Sets the mode. *bytes becomes the counted bytes if the mode before was SB_GPU_COUNTS, else all
 * bytes packed so far. SB_ERR_UNSUPPORTED: the backend has no kernels. */
sb_status sb_gpu_staging(const sb_backend *backend, sb_gpu_mode mode, uint64_t *bytes,
                         sb_error *err);

/* Offers the page cache of a file, and its mapping from `first` on, back to the system; later reads
 * come from the file again. Returns 0 if the system refused. */
int sb_gpu_forget_file(const char *path, const void *first, size_t bytes);

/* The same for the emulator only, and for a device only. */
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
