/* target.h - the choice of the body of an atom.
 *
 *   nvcc, sm_12x with family features   the native instruction of the target
 *   nvcc, any other (sm_90)             portable: instructions of that target, and integers
 *   a host compiler                     integers over the registers of 32 lanes (gpu/atom/host)
 *
 * H-12: "Where a target has another instruction for the same name, as sm_90 for FP8, it is not
 * used." The portable bodies also compile for the host, where collective.h provides their shuffles.
 */
#ifndef SB_ATOM_TARGET_H
#define SB_ATOM_TARGET_H

#include <stdint.h>

#ifdef __CUDACC__
#define SB_ATOM_FN __device__ __forceinline__
#else
#define SB_ATOM_FN inline
#endif

/* Plain sm_120 and sm_121 refuse every FP4 instruction; only the targets 120f, 121f, 120a and 121a
 * have them. The macro is the same for all four. */
#if defined(__CUDA_ARCH_FAMILY_SPECIFIC__) && __CUDA_ARCH_FAMILY_SPECIFIC__ >= 1200 &&             \
    __CUDA_ARCH_FAMILY_SPECIFIC__ < 1300
#define SB_ATOM_NATIVE_12X 1
#endif

#endif
