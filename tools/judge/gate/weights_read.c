/* weights_read.c - matrices in the arrays of a case: checks of their tensors, and their values. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/formats/format.h"
#include "ref/formats/wide.h"
#include "ref/math/law.h"
#include "ref/ops/knob.h"
#include "tools/judge/gate/weights_parts.h"
#include "tools/judge/gate/whole.h"

/* --- one of the matrices ---------------------------------------------------------------------- */

static uint32_t scale_block(sb_scheme scheme, uint32_t cols)
{
    switch (scheme) {
    case SB_SCHEME_nvfp4a16_ct:
    case SB_SCHEME_nvfp4_modelopt:
        return 16;
    case SB_SCHEME_mxfp4:
    case SB_SCHEME_mxfp8:
        return 32;
    case SB_SCHEME_fp8_block:
    case SB_SCHEME_fp8_block_ue8m0:
        return 128;
    case SB_SCHEME_fp8_channel:
    case SB_SCHEME_fp8_tensor:
        return cols;
    default:
        return sb_gate_group_of(scheme, cols);
    }
}

static sb_format scale_format(sb_scheme scheme)
{
    switch (scheme) {
    case SB_SCHEME_nvfp4a16_ct:
    case SB_SCHEME_nvfp4_modelopt:
        return SB_FORMAT_e4m3;
    case SB_SCHEME_mxfp4:
    case SB_SCHEME_mxfp8:
        return SB_FORMAT_e8m0;
    case SB_SCHEME_fp8_block:
    case SB_SCHEME_fp8_channel:
    case SB_SCHEME_int4_ct:
        return SB_FORMAT_bf16;
    case SB_SCHEME_fp8_block_ue8m0:
    case SB_SCHEME_fp8_tensor:
        return SB_FORMAT_f32;
    default:
        return SB_FORMAT_f16;
    }
}

/* GPTQ and AWQ store scales, codes and zero points transposed: [K, N] and [G, N]. */
static void lie_across(const sb_gate_case *c, const sb_gate_stored *s, uint32_t expert,
                       sb_container container, sb_quant *q)
{
    q->scale_row = 1;
    q->scale_col = sb_gate_all_rows(s);
    q->packing = container == SB_CONTAINER_int_gptq ? SB_PACKING_gptq : SB_PACKING_awq;
    q->zeros = container == SB_CONTAINER_int_gptq ? SB_ZEROS_gptq_v1 : SB_ZEROS_awq;
    q->zero_points = sb_gate_stored_bytes(c, s, SB_CONTENT_zeros, expert);
    q->group_index = sb_gate_stored_bytes(c, s, SB_CONTENT_index, expert);
    for (uint32_t k = 0; q->group_index && k < s->cols; k++)
        if (sb_load_u32(q->group_index + (size_t)4 * k) != k / q->block_cols)
            return;
    q->group_index = NULL;
}

/* The factor of a part: the factor of NVFP4, or the scale of a whole FP8 tensor. */
static void take_factor(const sb_gate_case *c, const sb_gate_stored *s, uint32_t expert,
                        uint32_t part, sb_scheme scheme, sb_quant *q)
{
    const unsigned char *bytes =
        sb_gate_stored_bytes(c, s, SB_CONTENT_factor, expert) + (size_t)4 * part;
    if (scheme == SB_SCHEME_fp8_tensor) {
        q->scales = bytes;
        q->block_rows = s->rows;
        return;
    }
    q->factor.kind = scheme == SB_SCHEME_nvfp4a16_ct ? SB_DIVISOR : SB_MULTIPLIER;
    q->factor.value = sb_f32_from_bits(sb_load_u32(bytes));
}

sb_matrix sb_gate_stored_matrix(const sb_gate_case *c, const sb_gate_stored *s, uint32_t expert,
                                uint32_t part)
{
    const sb_gate_weight_format *f = sb_gate_weight_format_of(c);
    const sb_scheme_info *info = sb_scheme_at(f->scheme);
    const uint64_t bits = sb_format_bits(f->stored);
    sb_matrix m = {.data = sb_gate_stored_bytes(c, s, SB_CONTENT_codes, expert),
                   .format = f->stored,
                   .rows = s->rows,
                   .cols = s->cols,
                   .first_row = part * s->rows};
    sb_quant *q = &m.quant;
    if (f->scheme == SB_SCHEME_plain)
        return m;
    *q = (sb_quant){.scales = sb_gate_stored_bytes(c, s, SB_CONTENT_scales, expert),
                    .scale_format = scale_format(f->scheme),
                    .block_rows = info->band > 1 ? info->band : 1,
                    .block_cols = scale_block(f->scheme, s->cols),
                    .scale_col = 1,
                    .stored_rows = (uint32_t)sb_gate_all_rows(s),
                    .container = info->container,
                    .zero = f->scheme == SB_SCHEME_int4_ct ? 8 : 0};
    q->groups = (s->cols + q->block_cols - 1) / q->block_cols;
    q->scale_row = q->groups;
    if (info->container == SB_CONTAINER_int_gptq || info->container == SB_CONTAINER_int_awq)
        lie_across(c, s, expert, info->container, q);
    if (!info->factor)
        return m;
    m.data += (uint64_t)part * s->rows * s->cols * bits / 8;
    m.first_row = 0;
    if (q->scales)
        q->scales += (uint64_t)part * s->rows * q->groups;
    take_factor(c, s, expert, part, f->scheme, q);
    return m;
}

/* --- checks of tensors from a file ------------------------------------------------------------ */

static sb_status wrong(const char *name, const char *what, sb_error *err)
{
    return sb_fail(err, SB_ERR_INPUT, "in.%s: %s", name, what);
}

/* V-131: "in.weight_scale_swizzled has the same scales" */
static sb_status need_same_scales(const sb_gate_case *c, const sb_gate_stored *s, uint32_t expert,
                                  sb_error *err)
{
    const sb_gate_array *a = sb_gate_stored_find(c, s, SB_CONTENT_scales, 1);
    const unsigned char *scales = sb_gate_stored_bytes(c, s, SB_CONTENT_scales, expert);
    const uint64_t groups = s->cols / 16;
    if (!a)
        return SB_OK;
    const unsigned char *blocks = a->data + a->bytes / (s->experts ? s->experts : 1) * expert;
    for (uint64_t row = 0; row < sb_gate_all_rows(s); row++)
        for (uint64_t g = 0; g < groups; g++)
            if (blocks[sb_gate_swizzled(row, g, groups)] != scales[row * groups + g])
                return wrong(a->name, "scales that differ from those of the tensor without blocks",
                             err);
    return SB_OK;
}

static sb_status need_groups(const sb_gate_case *c, const sb_gate_stored *s, uint32_t expert,
                             sb_error *err)
{
    const unsigned char *index = sb_gate_stored_bytes(c, s, SB_CONTENT_index, expert);
    const unsigned char *shape = sb_gate_stored_bytes(c, s, SB_CONTENT_shape, expert);
    uint32_t each = sb_gate_group_of(sb_gate_weight_format_of(c)->scheme, s->cols);
    for (uint32_t k = 0; index && k < s->cols; k++)
        if (sb_load_u32(index + (size_t)4 * k) >= s->cols / each)
            return wrong(sb_gate_stored_find(c, s, SB_CONTENT_index, 0)->name,
                         "a group that does not exist", err);
    if (shape && (sb_load_u64(shape) != sb_gate_all_rows(s) || sb_load_u64(shape + 8) != s->cols))
        return wrong(sb_gate_stored_find(c, s, SB_CONTENT_shape, 0)->name,
                     "another shape than the matrix", err);
    return SB_OK;
}

static sb_status need_finite(const sb_matrix *m, const char *name, double *row, sb_error *err)
{
    const double factor = (double)sb_factor_multiplier(m->quant.factor);
    if (m->quant.factor.kind != SB_NO_FACTOR && !(factor > 0 && factor < 0x1p127))
        return wrong(name, "a factor that is not finite and above 0", err);
    for (uint32_t i = 0; i < m->rows; i++) {
        sb_matrix_wide(m, i, row);
        for (uint32_t k = 0; k < m->cols; k++)
            if (!(row[k] - row[k] == 0.0))
                return wrong(name, "a value, or its scale, that is not finite", err);
    }
    return SB_OK;
}

sb_status sb_gate_need_typed(const sb_gate_case *c, const char *name, sb_dtype dtype, unsigned rank,
                             const uint64_t *shape, sb_error *err)
{
    sb_status status = sb_gate_need(c, name, rank, shape, err);
    return status ? status : sb_gate_need_type(c, name, dtype, err);
}

static sb_status need_tensors(const sb_gate_case *c, const sb_gate_stored *s, sb_error *err)
{
    sb_gate_stored_part part;
    sb_status status = SB_OK;
    for (size_t i = 0; !status && sb_gate_stored_tensor(c, s, i, &part); i++)
        status = sb_gate_need_typed(c, part.name, part.dtype, part.rank, part.shape, err);
    return status;
}

sb_status sb_gate_need_stored(const sb_gate_case *c, const sb_gate_stored *s, sb_error *err)
{
    sb_status status = need_tensors(c, s, err);
    double *row = status ? NULL : sb_alloc(s->cols, sizeof *row);
    if (status || !row)
        return status ? status : SB_ERR_MEMORY;
    const char *name = sb_gate_stored_find(c, s, SB_CONTENT_codes, 0)->name;
    for (uint32_t e = 0; !status && e < (s->experts ? s->experts : 1); e++) {
        status = need_same_scales(c, s, e, err);
        if (!status)
            status = need_groups(c, s, e, err);
        for (uint32_t p = 0; !status && p < s->parts; p++) {
            const sb_matrix m = sb_gate_stored_matrix(c, s, e, p);
            status = need_finite(&m, name, row, err);
        }
    }
    free(row);
    return status;
}

/* --- values ----------------------------------------------------------------------------------- */

float *sb_gate_matrix_values(const sb_matrix *m)
{
    float *values = sb_alloc((size_t)m->rows * m->cols, sizeof *values);
    double *row = sb_alloc(m->cols, sizeof *row);
    for (uint32_t i = 0; values && row && i < m->rows; i++) {
        sb_matrix_wide(m, i, row);
        for (uint32_t k = 0; k < m->cols; k++)
            values[(size_t)i * m->cols + k] = (float)row[k];
    }
    if (!row) {
        free(values);
        return NULL;
    }
    free(row);
    return values;
}

/* V-132: "the sum of exact products" - codes, scales and inputs are exact in binary64; each
 * addition has a relative error of 2^-100. */
sb_status sb_gate_real_linear(const sb_matrix *w, const sb_dd *x, size_t rows, sb_dd *out)
{
    const sb_scalar factor = sb_matrix_factor(w);
    double *row = sb_alloc(w->cols, sizeof *row);
    if (!row)
        return SB_ERR_MEMORY;
    for (uint32_t n = 0; n < w->rows; n++) {
        sb_matrix_wide(w, n, row);
        for (size_t t = 0; t < rows; t++) {
            sb_dd sum = sb_dd_of(0.0);
            for (uint32_t k = 0; k < w->cols; k++)
                sum = sb_dd_fma(sum, sb_dd_of(row[k]), x[t * w->cols + k]);
            sum = sb_dd_mul(sum, sb_dd_of((double)factor.mul[0]));
            out[t * w->rows + n] = sb_dd_div(sum, sb_dd_of((double)factor.div[0]));
        }
    }
    free(row);
    return SB_OK;
}

/* V-130: "an input is what the kernel is given, not what an engine would make of it" */
sb_knobs sb_gate_given_inputs(const sb_knobs *knobs)
{
    static const struct {
        sb_knob knob;
        sb_knob_value off;
    } quantizers[] = {{SB_KNOB_act_fp4, SB_act_fp4_off},
                      {SB_KNOB_act_fp8_group, SB_act_fp8_group_off},
                      {SB_KNOB_act_fp8_token, SB_act_fp8_token_off},
                      {SB_KNOB_act_fp8_static, SB_act_fp8_static_off},
                      {SB_KNOB_act_mx, SB_act_mx_off}};
    sb_knobs given = *knobs;
    for (size_t i = 0; i < sizeof quantizers / sizeof *quantizers; i++)
        given.value[quantizers[i].knob] = quantizers[i].off;
    return given;
}
