/* step_gpu.cu - the steps of a device, which nvcc compiles in one go. The sources of gpu/step are
 * those of the emulator alone otherwise. */
#include "gpu/step/graph.cc"
#include "gpu/step/layers.cc"
#include "gpu/step/memory.cc"
#include "gpu/step/mixer.cc"
#include "gpu/step/mlp.cc"
#include "gpu/step/numbers.cc"
#include "gpu/step/state.cc"
#include "gpu/step/step.cc"
