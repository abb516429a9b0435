/* small.cu - what nvcc compiles in one go: for each of these alone it would need longer to read its
 * own headers than to compile the kernels. The Makefile reads the list; other ops are compiled
 * alone. */
#include "gpu/op/add.cc"
#include "gpu/op/attn_gate.cc"
#include "gpu/op/body_cuda.cu"
#include "gpu/op/conv.cc"
#include "gpu/op/embed.cc"
#include "gpu/op/gated_rmsnorm.cc"
#include "gpu/op/gates.cc"
#include "gpu/op/gpu.cc"
#include "gpu/op/l2norm.cc"
#include "gpu/op/moe_combine.cc"
#include "gpu/op/rmsnorm.cc"
#include "gpu/op/rope.cc"
#include "gpu/op/router.cc"
#include "gpu/op/split_gate.cc"
#include "gpu/op/swiglu.cc"
#include "gpu/op/weights.cc"
