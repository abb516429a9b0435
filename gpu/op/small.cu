/* small.cu - the small sources, which nvcc compiles together (DEVICE_SMALL of the Makefile). If
 * nvcc compiled them one by one, it would spend more time on its own headers than on the kernels.
 */
