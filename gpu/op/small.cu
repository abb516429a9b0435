/* small.cu - what nvcc compiles in one go, DEVICE_SMALL of the Makefile: for each of these alone it
 * would need longer to read its own headers than to compile the kernels. */
