#include "gpu/kernel/rope.cuh"
#include "gpu/op/fused.h"

#include <stdlib.h>

#include "ref/math/fn.h"

/* K-8: "exact is RN( theta^(-2f/rd) )" */
static float *frequencies(const sb_rope_args *a)
{
    float *all = static_cast<float *>(sb_alloc(a->rd / 2, sizeof *all));
    for (size_t f = 0; all && f < a->rd / 2; f++)
        all[f] = sb_root_power(a->theta, -static_cast<int>(2 * f), static_cast<unsigned>(a->rd));
    return all;
}

static sb_rope_positions bring_positions(sb_gpu_work &work, const sb_rope_args *a)
{
    sb_rope_positions positions = {};
    for (int i = 0; i < (a->section ? 3 : 1); i++)
        positions.stream[i] = work.in("position", a->position[i], a->rows);
    if (a->section) {
        positions.height_end = 3 * a->section[1];
        positions.width_end = 3 * a->section[2];
    }
    return positions;
}

/* bring(work, angles) returns the memory for the table of rotations. The table is written there,
 * then then(work, table) is called. */
template <class BRING, class THEN>
static sb_status with_table(sb_gpu *gpu, const sb_rope_args *args, BRING bring, THEN then)
{
    const size_t half = args->rd / 2, angles = args->rows * half;
    if (args->yarn_factor > 0) {
        sb_gpu_work work(gpu);
        return sb_fail(work.err(), SB_ERR_UNSUPPORTED, "the rotation of R-24 (yarn)");
    }
    float *frequency = frequencies(args);
    if (!frequency)
        return SB_ERR_MEMORY;
    sb_status status;
    {
        sb_gpu_work work(gpu);
        const auto known = work.constant("frequency", frequency, half);
        const sb_global<float2> table = bring(work, angles);
        const sb_rope_positions positions = bring_positions(work, args);
        SB_GPU_RUN(work, sb_rope_table_kernel, sb_gpu_blocks(angles, SB_ROPE_THREADS),
                   SB_ROPE_THREADS, 0, positions, known, table, static_cast<uint32_t>(args->rows),
                   half);
        then(work, table);
        status = work.finish();
    }
    free(frequency);
    return status;
}

sb_status sb_gpu_rope(sb_gpu *gpu, const sb_knobs *, const sb_rope_args *args)
{
    const size_t half = args->rd / 2, pairs = args->rows * half * args->heads;
    return with_table(
        gpu, args,
        [](sb_gpu_work &work, size_t angles) { return work.scratch<float2>("table", angles); },
        [&](sb_gpu_work &work, sb_global<float2> table) {
            const auto x = work.inout("x", args->x, args->rows * args->heads * args->hd);
            SB_GPU_RUN(work, sb_rope_kernel<float>, sb_gpu_blocks(pairs, SB_ROPE_THREADS),
                       SB_ROPE_THREADS, 0, x, table, static_cast<uint32_t>(args->rows), args->heads,
                       args->hd, half);
        });
}

sb_status sb_gpu_turns(sb_gpu *gpu, const sb_rope_args *args, float *to)
{
    return with_table(
        gpu, args,
        [&](sb_gpu_work &work, size_t angles) {
            return sb_cast<float2>(work.out("turns", to, 2 * angles));
        },
        [](sb_gpu_work &, sb_global<float2>) {});
}
