/* words.h - the four built-in variables of a thread. */
#ifndef SB_GPU_EMU_WORDS_H
#define SB_GPU_EMU_WORDS_H

#include "gpu/emu/grid.h"

extern __thread uint3 threadIdx, blockIdx;
extern __thread dim3 blockDim, gridDim;

#endif
