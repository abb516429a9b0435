#include "ref/math/lanes_plain.h"

#include "ref/math/lanes_kernels.h"

static const sb_lane_kernels scalar = {LANES_KERNELS};
const sb_lane_kernels *const sb_lanes_scalar = &scalar;
