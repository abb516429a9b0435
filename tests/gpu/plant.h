/* plant.h - a fault of gpu/kernel/plants.def that the kernels have while a test says so. */
#ifndef SB_TESTS_GPU_PLANT_H
#define SB_TESTS_GPU_PLANT_H

#include "tests/lib/cmocka.h"

#include "gpu/gpu.h"

/* In C++ inline functions read it, of which a suite has one for all files. */
#ifdef __cplusplus
inline
#else
static
#endif
    const char *planted = "";

/* "": none. */
static inline void plant(const char *name)
{
    planted = name;
    if (!sb_gpu_plant(*name ? name : NULL))
        fail_msg("plants.def has no %s", name);
}

#endif
