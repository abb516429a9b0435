/* linear.cc - linear layers on the bf16 atom, without quantized inputs (docs/gpu-linear.md). */
#include "gpu/kernel/linear_launch.cuh"
#include "gpu/kernel/pack.h"
#include "gpu/op/fused.h"
#include "gpu/op/linear_forms.h"
#include "gpu/op/linear_lowbit.h"
#include "gpu/op/linears.h"

static sb_global<const uint4> weights_of(sb_gpu_work &work, const sb_matrix *matrix,
                                         const sb_linear_shape &shape)
{
    return work.kept<uint4>("weights", matrix, sb_pack_linear,
                            sb_pack_tiles(shape) * shape.tile_bytes, shape.tile_bytes);
}

/* True if a layer can read a staged input and share a launch with other layers. Writes its shape.
 */
static bool takes_staged(const sb_knobs *knobs, const sb_matrix *weight, sb_linear_kind kind,
                         sb_linear_shape *shape)
{
    return sb_input_scheme(knobs, weight) == SB_SCHEME_none &&
           !sb_linear_refusal(knobs, weight, kind) && sb_pack_shape(weight, shape) == SB_OK &&
           !shape->gathers;
}

bool sb_gpu_takes_staged(const sb_gpu *, const sb_knobs *knobs, const sb_matrix *weight,
                         sb_linear_kind kind)
{
    sb_linear_shape shape;
    return takes_staged(knobs, weight, kind, &shape);
}

static sb_global<const uint2> stage(sb_gpu_work &work, const sb_linear_args *a,
                                    sb_global<const uint32_t> order, const sb_linear_shape &shape,
                                    bool many)
{
    const uint32_t rows = static_cast<uint32_t>(a->rows);
    const auto in = work.in("in", a->in, a->rows * a->weight->cols);
    const auto x = work.scratch<uint2>("staged", sb_linear_staged(shape, rows));
    if (work.ok())
        work.did(sb_linear_prepare(work.queue(), in, order, x, shape, rows, many));
    return x;
}

sb_status sb_gpu_linear(sb_gpu *gpu, const sb_knobs *knobs, const sb_linear_args *a)
{
    const sb_act_scheme scheme = sb_input_scheme(knobs, a->weight);
    if (scheme != SB_SCHEME_none)
        return sb_gpu_linear_lowbit(gpu, knobs, a, scheme);
    sb_gpu_work work(gpu);
    const uint32_t rows = static_cast<uint32_t>(a->rows), n = a->weight->rows, k = a->weight->cols;
    const char *why = sb_linear_refusal(knobs, a->weight, a->kind);
    sb_linear_shape shape = sb_linear_shape();
    if (!why && sb_pack_shape(a->weight, &shape) == SB_ERR_UNSUPPORTED)
        why = "its codes do not fit into an operand of the bf16 unit";
    if (!why && !sb_linear_is_bf16(work, a->in, a->rows * k))
        why = "an input is not a bfloat16 number";
    if (why)
        return sb_fail(work.err(), SB_ERR_UNSUPPORTED, "a linear layer of %u x %u: %s", n, k, why);
    if (rows == 0)
        return SB_OK;
    const size_t columns = static_cast<size_t>(shape.chunks) * SB_CHUNK;
    const bool many = sb_wide_takes(shape, rows);
    const auto weights = weights_of(work, a->weight, shape);
    sb_global<const uint32_t> order = nullptr;
    if (shape.gathers)
        order = work.kept<uint32_t>("columns", a->weight, sb_pack_order, 4 * columns, 4 * columns);
    const auto x = stage(work, a, order, shape, many);
    const auto out = work.out("out", a->out, a->rows * n);
    if (work.ok())
        work.did(sb_linear_launch({work.queue(), weights, x, out, shape, rows,
                                   sb_linear_stays_wide(knobs, a->kind) != 0, many}));
    return work.finish();
}

/* --- several layers of one input -------------------------------------------------------------- */
/* Returns how many of the first layers can share one launch, and writes their shapes. Returns 0 if
 * the first layer runs in the blocks for many rows (Y-85), which cannot use an input staged for few
 * rows. */
static size_t join(const sb_knobs *knobs, const sb_linear_args *a, size_t count, const void *staged,
                   sb_linear_shape *shape)
{
    size_t n = takes_staged(knobs, a->weight, a->kind, shape) && a->rows > 0 ? 1 : 0;
    if (n > 0 && !staged && sb_wide_takes(*shape, static_cast<uint32_t>(a->rows)))
        return 0;
    while (n > 0 && n < count && n < SB_LINEAR_MATRICES && a[n].in == a->in &&
           a[n].rows == a->rows && takes_staged(knobs, a[n].weight, a[n].kind, shape + n) &&
           sb_linear_together(*shape, shape[n]) && shape[n].cols == shape->cols)
        n++;
    return n;
}

static sb_status multiply(sb_gpu *gpu, const sb_knobs *knobs, const sb_linear_args *a,
                          const sb_linear_shape *shape, size_t count, const void *staged_input)
{
    sb_gpu_work work(gpu);
    const uint32_t rows = static_cast<uint32_t>(a->rows);
    if (!staged_input && !sb_linear_is_bf16(work, a->in, a->rows * shape->cols))
        return sb_gpu_linear(gpu, knobs, a); /* which reports the error */
    sb_linear_list<float> list = {};
    sb_global<const uint2> x = nullptr;
    list.count = static_cast<uint32_t>(count);
    for (size_t i = 0; i < count; i++)
        list.of[i].weights = weights_of(work, a[i].weight, shape[i]);
    for (size_t i = 0; i < count; i++) {
        list.of[i].out = work.out("out", a[i].out, a->rows * shape[i].rows);
        list.of[i].shape = shape[i];
        list.of[i].wide = sb_linear_stays_wide(knobs, a[i].kind) != 0;
    }
    if (staged_input)
        x = work.in("staged", static_cast<const uint2 *>(staged_input),
                    sb_linear_staged(*shape, rows));
    else
        x = stage(work, a, nullptr, *shape, false);
    if (work.ok())
        work.did(sb_linear_list_launch(work.queue(), list, x, rows, false));
    return work.finish();
}

sb_status sb_gpu_linears(sb_gpu *gpu, const sb_knobs *knobs, const sb_linear_args *a, size_t count,
                         const void *staged)
{
    sb_linear_shape shape[SB_LINEAR_MATRICES];
    sb_status status = SB_OK;
    while (count > 0 && status == SB_OK) {
        size_t n = join(knobs, a, count, staged, shape);
        if (n > 0) {
            status = multiply(gpu, knobs, a, shape, n, staged);
        } else {
            status = sb_gpu_linear(gpu, knobs, a);
            n = 1;
        }
        a += n;
        count -= n;
    }
    return status;
}

sb_status sb_gpu_linear_staged(sb_gpu *gpu, const sb_knobs *knobs, const sb_linear_args *a,
                               const void *staged)
{
    return sb_gpu_linears(gpu, knobs, a, 1, staged);
}
