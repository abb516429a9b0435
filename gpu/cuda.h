/* cuda.h - what a kernel includes.
 *
 * Y-1: "nvcc compiles it as CUDA, every other compiler as C++17 for the emulator"
 * docs/gpu.md has the rules by which one source is a kernel of both. */
#ifndef SB_GPU_CUDA_H
#define SB_GPU_CUDA_H

#ifdef __CUDACC__
#include "gpu/native/cuda.h"
#else
#include "gpu/emu/cuda.h"
#endif

#endif
