/* atom_host.h - the results of the kernels of device_kernels.h, computed by the host bodies of the
 * atoms. */
#ifndef SB_TESTS_GPU_ATOM_HOST_H
#define SB_TESTS_GPU_ATOM_HOST_H

#include "tests/gpu/atom_model.h"
#include "tests/gpu/device_kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* warp: the words of `in` (32 DEVICE_IN) by their names. odd: the warp's number is odd, for
 * ldmatrix. */
void atom_host(int which, const atom_warp *warp, const uint32_t *in, int odd, uint32_t *out);

#ifdef __cplusplus
}
#endif
#endif
