/* step_gpu.cu - the sources of gpu/step for a device, which nvcc compiles together. For the
 * emulator, the host's compiler compiles them one by one. */
#include "gpu/step/graph.cc"
#include "gpu/step/layers.cc"
#include "gpu/step/memory.cc"
#include "gpu/step/mixer.cc"
#include "gpu/step/mlp.cc"
#include "gpu/step/numbers.cc"
#include "gpu/step/state.cc"
#include "gpu/step/step.cc"
