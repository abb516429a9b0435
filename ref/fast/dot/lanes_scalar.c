#include "ref/fast/dot/lanes_plain.h"

#include "ref/fast/dot/lanes_kernels.h"

static const sb_lane_kernels scalar = {LANES_KERNELS};
const sb_lane_kernels *const sb_lanes_scalar = &scalar;
