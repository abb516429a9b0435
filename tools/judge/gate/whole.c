#include "tools/judge/gate/whole.h"

#include <stdlib.h>

#include "ref/base/bytes.h"
#include "ref/formats/format.h"
#include "ref/ops/knob.h"

sb_status sb_gate_add_whole(sb_gate_case *c, const char *name, sb_dtype dtype, const char *axes,
                            unsigned rank, const uint64_t *shape, const int64_t *values)
{
    sb_gate_array *array = sb_gate_add(c, name, dtype, axes, rank, shape);
    if (!array)
        return SB_ERR_MEMORY;
    size_t width = sb_dtype_bits(dtype) / 8;
    for (size_t i = 0; i < array->bytes / width; i++)
        if (dtype == SB_DTYPE_I64)
            sb_store_u64(array->data + i * width, (uint64_t)values[i]);
        else
            sb_store_u32(array->data + i * width, (uint32_t)values[i]);
    return SB_OK;
}

int64_t sb_gate_whole(const sb_gate_array *array, size_t i)
{
    if (array->dtype == SB_DTYPE_I64)
        return (int64_t)sb_load_u64(array->data + i * 8);
    return (int32_t)sb_load_u32(array->data + i * 4);
}

float sb_gate_single(const sb_gate_array *array, size_t i)
{
    return sb_f32_from_bits(sb_load_u32(array->data + i * 4));
}

sb_status sb_gate_add_singles(sb_gate_case *c, const char *name, const char *axes, unsigned rank,
                              const uint64_t *shape, const float *values)
{
    sb_gate_array *array = sb_gate_add(c, name, SB_DTYPE_F32, axes, rank, shape);
    if (!array)
        return SB_ERR_MEMORY;
    for (size_t i = 0; i < array->bytes / 4; i++)
        sb_store_u32(array->data + i * 4, sb_bits_f32(values[i]));
    return SB_OK;
}

sb_status sb_gate_need_type(const sb_gate_case *c, const char *name, sb_dtype dtype, sb_error *err)
{
    const sb_gate_array *array = sb_gate_input(c, name);
    if (array && array->dtype == dtype)
        return SB_OK;
    return sb_fail(err, SB_ERR_INPUT, "in.%s is %s; expected %s", name,
                   array ? sb_dtype_name(array->dtype) : "absent", sb_dtype_name(dtype));
}

sb_status sb_gate_need_finite(const sb_gate_case *c, const char *name, size_t count, sb_error *err)
{
    sb_dtype dtype = sb_gate_input(c, name)->dtype;
    if (dtype != SB_DTYPE_BF16 && dtype != SB_DTYPE_F16 && dtype != SB_DTYPE_F32)
        return sb_fail(err, SB_ERR_INPUT, "in.%s is %s; expected BF16, F16 or F32", name,
                       sb_dtype_name(dtype));
    float *values = sb_gate_values(c, name);
    if (!values)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for in.%s", name);
    size_t i = 0;
    while (i < count && sb_is_finite_f32(values[i]))
        i++;
    free(values);
    if (i == count)
        return SB_OK;
    return sb_fail(err, SB_ERR_INPUT, "element %zu of in.%s is not finite", i, name);
}

float sb_gate_fit(const sb_gate_case *c, float x)
{
    if (c->input == SB_DTYPE_BF16)
        return sb_round_to(SB_FORMAT_bf16, x);
    return c->input == SB_DTYPE_F16 ? sb_round_to(SB_FORMAT_f16, x) : x;
}

void sb_gate_draw_in(const sb_gate_case *c, sb_gate_regime regime, const char *name,
                     sb_gate_role role, size_t rows, size_t cols, float *values)
{
    sb_gate_case other = *c;
    other.regime = regime;
    sb_gate_draw(&other, name, role, rows, cols, values);
}

void sb_gate_cover(sb_ball *sum, const sb_ball *more, size_t count, int first)
{
    for (size_t i = 0; i < count; i++)
        sum[i] = first ? more[i] : sb_ball_hull(sum[i], more[i]);
}

sb_knobs sb_gate_unrounded(const sb_knobs *knobs)
{
    sb_knobs plain = *knobs;
    plain.value[SB_KNOB_act] = SB_act_f32;
    return plain;
}
