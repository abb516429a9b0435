/* plant.h - plants a fault of gpu/kernel/plants.def in the kernels, while a test wants it. */
#ifndef SB_TESTS_GPU_PLANT_H
#define SB_TESTS_GPU_PLANT_H

#include "tests/lib/cmocka.h"

#include "gpu/gpu.h"

/* In C++, inline functions read the variable; all files of a suite share one. */
#ifdef __cplusplus
inline
#else
static
#endif
    const char *planted = "";

/* "": no fault. */
static inline void plant(const char *name)
{
    planted = name;
    if (!sb_gpu_plant(*name ? name : NULL))
        fail_msg("plants.def has no %s", name);
}

#endif
