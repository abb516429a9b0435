/* device_kernels.h - atoms and functions on the first device, for C. Errors are returned as
 * text. */
#ifndef SB_TESTS_GPU_DEVICE_KERNELS_H
#define SB_TESTS_GPU_DEVICE_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The kernels of atom_kernels.cuh that are run, with one warp per fragment. */
#define DEVICE_ATOMS(X)                                                                            \
    X(bf16)                                                                                        \
    X(f16)                                                                                         \
    X(e4m3)                                                                                        \
    X(e4m3_portable)                                                                               \
    X(nvfp4)                                                                                       \
    X(nvfp4_12)                                                                                    \
    X(nvfp4_portable)                                                                              \
    X(nvfp4_portable_01)                                                                           \
    X(nvfp4_portable_12)                                                                           \
    X(nvfp4_portable_13)                                                                           \
    X(s8)                                                                                          \
    X(convert)                                                                                     \
    X(ldmatrix)

enum {
#define X(name) DEVICE_ATOM_##name,
    DEVICE_ATOMS(X)
#undef X
        DEVICE_ATOM_COUNT
};
enum { DEVICE_IN = 12, DEVICE_OUT = 4 }; /* words per lane */

/* Runs the atom on `warps` fragments of 32 lanes each. Returns NULL, or the error. ldmatrix: four
 * matrices, transposed in odd warps. */
const char *device_atom(int which, const uint32_t *in, uint32_t *out, size_t warps);

/* Runs a function of gpu/math by its name. */
const char *device_function(const char *name, const float *x, float *y, size_t count);

/* The name of the device; NULL if there is none. */
const char *device_name(void);

#ifdef __cplusplus
}
#endif
#endif
