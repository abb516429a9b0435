/* absent.c - replaces the kernels if there was no C++ compiler. */
#include "gpu/gpu.h"

int sb_gpu_computes(sb_op op, const sb_knobs *knobs)
{
    (void)op;
    (void)knobs;
    return 0;
}

const sb_backend *sb_backend_emu(void)
{
    return NULL;
}

void sb_backend_emu_seed(uint64_t seed)
{
    (void)seed;
}

void sb_backend_emu_history(int kept)
{
    (void)kept;
}

void sb_gpu_forget(const sb_backend *backend)
{
    (void)backend;
}

const sb_gpu_fault *sb_gpu_faults(size_t *count)
{
    *count = 0;
    return NULL;
}

int sb_gpu_plant(const char *name)
{
    return name == NULL;
}

sb_status sb_gpu_staging(const sb_backend *backend, sb_gpu_mode mode, uint64_t *bytes,
                         sb_error *err)
{
    (void)backend;
    (void)mode;
    (void)bytes;
    (void)err;
    return SB_ERR_UNSUPPORTED;
}

int sb_gpu_forget_file(const char *path, const void *first, size_t bytes)
{
    (void)path;
    (void)first;
    (void)bytes;
    return 0;
}
