/* device.cu - the sources of the meters that nvcc compiles together. */
#include "gpu/meter/body_cuda.cu"
#include "gpu/meter/draw.cc"
#include "gpu/meter/meter.cc"
#include "gpu/meter/set.cc"
#include "gpu/meter/watch.cc"
