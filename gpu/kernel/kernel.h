/* kernel.h - definitions for all kernels, in addition to gpu/cuda.h.
 *
 * SB_PLANT(name) is true if sb_gpu_plant (gpu/gpu.h) has planted this fault of plants.def. In
 * device code it is always false. */
#ifndef SB_KERNEL_KERNEL_H
#define SB_KERNEL_KERNEL_H

#ifdef __CUDACC__
#define SB_PLANT(name) false
#else
enum sb_kernel_plant {
    SB_KERNEL_PLANT_none,
#define SB_KERNEL_PLANT(name, ...) SB_KERNEL_PLANT_##name,
#include "gpu/kernel/plants.def"
#undef SB_KERNEL_PLANT
};
extern sb_kernel_plant sb_kernel_planted; /* plants.cc */
#define SB_PLANT(name) (sb_kernel_planted == SB_KERNEL_PLANT_##name)
#endif

#define SB_KERNEL_FN static __device__ __forceinline__

#ifdef __CUDACC__
#define SB_UNROLL _Pragma("unroll")
#define SB_ROLLED _Pragma("unroll 1")
#else
#define SB_UNROLL
#define SB_ROLLED
#endif

#endif
