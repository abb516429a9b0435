/* linear_gates.cu - the linear kernels as nvcc sees them, for tests/gpu/linear_gates.sh. */
#include "gpu/kernel/linear_launch.cuh"

sb_status launch_all(const sb_linear_call &call, sb_global<const float> in,
                     sb_global<const uint32_t> columns, sb_global<uint2> staged)
{
    const sb_status status = SB_LAUNCH(call.queue, sb_linear_stage<float>, 1, 256, 0, in, columns,
                                       staged, call.shape, call.rows);
    return status == SB_OK ? sb_linear_launch(call) : status;
}
