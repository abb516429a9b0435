/* plants.cc - the planted faults of kernels on the emulator. */
#include "gpu/kernel/kernel.h"
#include "gpu/gpu.h"

#include <string.h>

sb_kernel_plant sb_kernel_planted;

static constexpr sb_gpu_fault row(const char *name, const char *op, const char *words,
                                  const char *seen = "")
{
    return {name, op, words, seen};
}

static const sb_gpu_fault faults[] = {
#define SB_KERNEL_PLANT(name, op, ...) row(#name, #op, __VA_ARGS__),
#include "gpu/kernel/plants.def"
#undef SB_KERNEL_PLANT
};

const sb_gpu_fault *sb_gpu_faults(size_t *count)
{
    *count = sizeof faults / sizeof *faults;
    return faults;
}

int sb_gpu_plant(const char *name)
{
    size_t at = 0, count;
    sb_gpu_faults(&count);
    while (name && at < count && strcmp(faults[at].name, name) != 0)
        at++;
    const bool known = !name || at < count;
    sb_kernel_planted = name && known ? static_cast<sb_kernel_plant>(at + 1) : SB_KERNEL_PLANT_none;
    return known;
}
