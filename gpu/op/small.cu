/* small.cu - the sources that nvcc compiles together, DEVICE_SMALL of the Makefile. For each source
 * alone nvcc would spend more time on its own headers than on the kernels. */
