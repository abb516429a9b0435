/* emu_gates.cu - the kernels of the emulator's tests, compiled by nvcc: the same source, with a
 * launch. */
#include "tests/gpu/emu_kernels.cuh"

sb_status launch_all(const sb_queue *queue, sb_global<const int> x, sb_global<const float> fx,
                     sb_global<int> out, sb_global<float> fout, sb_global<unsigned> counter)
{
    const sb_status statuses[] = {
        SB_LAUNCH(queue, sum_blocks<NONE>, 8, 96, 0, x, out, 700),
        SB_LAUNCH(queue, transpose<NONE>, dim3(2, 2), dim3(32, 8), 0, fx, fout, 50, 40),
        SB_LAUNCH(queue, pipeline<NONE>, 1, 64, 512, x, out, 7),
        SB_LAUNCH(queue, bulk<NONE>, 1, 64, 0, x, out, 7),
        SB_LAUNCH(queue, produce<NONE>, 1, 96, 0, x, out, 9),
        SB_LAUNCH(queue, two_copies<NONE>, 1, 64, 0, x, out),
        SB_LAUNCH(queue, persistent<NONE>, 3, 64, 0, x, out, counter, 10u),
        SB_LAUNCH(queue, hand_over<NONE>, 1, 64, 0, out, 9),
        SB_LAUNCH(queue, turn<NONE>, 1, 32, 0, out, 9),
    };
    for (const sb_status status : statuses)
        if (status != SB_OK)
            return status;
    return SB_OK;
}
