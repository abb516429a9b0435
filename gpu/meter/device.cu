/* device.cu - what nvcc compiles of the meters, in one go. */
#include "gpu/meter/body_cuda.cu"
#include "gpu/meter/draw.cc"
#include "gpu/meter/meter.cc"
#include "gpu/meter/set.cc"
#include "gpu/meter/watch.cc"
