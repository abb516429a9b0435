/* weights_x.c - the input of a layer: values, or codes with scales. */
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/formats/format.h"
#include "ref/formats/small_float.h"
#include "ref/formats/wide.h"
#include "tools/judge/gate/weights_parts.h"

/* V-133: "In regime least the inputs of quantized weights are normal, because the weights are not".
 * In regime cancellation, coded inputs are normal: codes cannot hold the difference of two large
 * numbers. */
static sb_gate_regime x_regime(const sb_gate_case *c)
{
    int plain = sb_gate_weight_format_of(c)->scheme == SB_SCHEME_plain;
    int coded = sb_gate_coding_of(c) != SB_GATE_CODING_none;
    if ((c->regime == SB_GATE_REGIME_least && !plain) ||
        (c->regime == SB_GATE_REGIME_cancellation && coded))
        return SB_GATE_REGIME_normal;
    return c->regime;
}

static void draw_x(const sb_gate_case *c, uint32_t rows, uint32_t cols, float *values)
{
    const sb_gate_case as = sb_gate_in_regime(c, x_regime(c));
    sb_gate_draw(&as, "x", SB_GATE_ACTIVATION, rows, cols, values);
}

/* V-133: "In regime cancellation every second input given as a code stands for 3/4 of the input
 * before it, with the other sign" */
void sb_gate_draw_codes(const sb_gate_case *c, const sb_gate_stored *s, float *values)
{
    const int cancels = c->regime == SB_GATE_REGIME_cancellation;
    draw_x(c, s->rows, s->cols, values);
    for (uint32_t t = 0; t < s->rows; t++)
        for (uint32_t k = 0; k < s->cols; k++, values++) {
            float x = *values * sb_gate_size_of(c, t, 0, k);
            *values = sb_round_to(SB_FORMAT_bf16, cancels && k % 2 ? -0.75f * values[-1] : x);
        }
}

/* NVFP4 inputs are stored like weights. Inputs of all codings are drawn in this form. */
static sb_gate_stored stored(uint32_t rows, uint32_t cols)
{
    return (sb_gate_stored){.prefix = "x", .parts = 1, .rows = rows, .cols = cols, .input = 1};
}

/* FP8 inputs: the name and the shape of the scales, and the columns that share a scale. */
typedef struct grid {
    const char *name;
    uint32_t rows, cols, across; /* elements of a block, and blocks along a row */
    unsigned rank;
    uint64_t shape[2];
} grid;

static grid grid_of(sb_gate_coding coding, uint32_t rows, uint32_t cols)
{
    uint32_t width = coding == SB_GATE_CODING_fp8_block ? 128 : cols;
    grid g = {.name = "x_scale",
              .rows = 1,
              .cols = width,
              .across = (cols + width - 1) / width,
              .rank = 2};
    g.shape[0] = rows;
    g.shape[1] = g.across;
    if (coding == SB_GATE_CODING_fp8_tensor) {
        g.name = "input_scale";
        g.rank = 0;
        g.rows = rows;
    }
    return g;
}

/* V-134: "amax / 448, rounded up to 20 significant bits" - so that a code times the scale is a
 * binary32 number; 0 for a block of zeros. */
static float scale_of(float amax)
{
    return sb_f32_from_bits((sb_bits_f32(amax / 448.0f) + 15u) & ~15u);
}

/* The block of `rows` rows that starts at element `first` of the values. */
static void encode_block(const float *values, uint32_t stride, uint32_t rows, uint32_t cols,
                         unsigned char *scale, unsigned char *codes)
{
    float amax = 0.0f;
    for (uint32_t t = 0; t < rows; t++)
        for (uint32_t k = 0; k < cols; k++) {
            float x = values[(size_t)t * stride + k];
            x = x < 0 ? -x : x;
            amax = x > amax ? x : amax;
        }
    float s = scale_of(amax);
    sb_store_u32(scale, sb_bits_f32(s));
    for (uint32_t t = 0; t < rows; t++)
        for (uint32_t k = 0; k < cols; k++)
            codes[(size_t)t * stride + k] =
                s == 0.0f ? 0 : sb_f32_to_e4m3(values[(size_t)t * stride + k] / s);
}

static sb_status store_fp8(sb_gate_case *c, uint32_t rows, uint32_t cols)
{
    const grid g = grid_of(sb_gate_coding_of(c), rows, cols);
    const uint64_t shape[] = {rows, cols};
    const sb_gate_stored s = stored(rows, cols);
    sb_gate_array *x = sb_gate_add(c, "x", SB_DTYPE_F8_E4M3, "token,column", 2, shape);
    sb_gate_array *scale = x ? sb_gate_add(c, g.name, SB_DTYPE_F32,
                                           g.rank == 0 ? "element" : "token,block", g.rank, g.shape)
                             : NULL;
    float *values = scale ? sb_alloc((size_t)rows * cols, sizeof *values) : NULL;
    if (!values)
        return SB_ERR_MEMORY;
    sb_gate_draw_codes(c, &s, values);
    for (uint32_t t = 0; t < rows; t += g.rows)
        for (uint32_t k = 0; k < cols; k += g.cols) {
            uint32_t left = cols - k;
            encode_block(values + (size_t)t * cols + k, cols, g.rows, left < g.cols ? left : g.cols,
                         scale->data + ((size_t)4 * (t / g.rows) * g.across + 4 * (k / g.cols)),
                         x->data + (size_t)t * cols + k);
        }
    free(values);
    return SB_OK;
}

sb_status sb_gate_store_x(sb_gate_case *c, uint32_t rows, uint32_t cols, sb_error *err)
{
    const sb_gate_coding coding = sb_gate_coding_of(c);
    const sb_gate_stored s = stored(rows, cols);
    const uint64_t shape[] = {rows, cols};
    if (coding == SB_GATE_CODING_nvfp4)
        return sb_gate_store(c, &s, err);
    if (coding != SB_GATE_CODING_none)
        return store_fp8(c, rows, cols);
    float *values = sb_alloc((size_t)rows * cols, sizeof *values);
    if (!values)
        return SB_ERR_MEMORY;
    draw_x(c, rows, cols, values);
    sb_status status = sb_gate_add_values(c, "x", "token,column", 2, shape, values);
    free(values);
    return status;
}

sb_matrix sb_gate_x(const sb_gate_case *c, uint32_t rows, uint32_t cols)
{
    const sb_gate_coding coding = sb_gate_coding_of(c);
    const sb_gate_stored s = stored(rows, cols);
    if (coding == SB_GATE_CODING_nvfp4)
        return sb_gate_stored_matrix(c, &s, 0, 0);
    if (coding == SB_GATE_CODING_none)
        return sb_gate_matrix(c, "x", rows, cols);
    const grid g = grid_of(coding, rows, cols);
    return (sb_matrix){.data = sb_gate_input(c, "x")->data,
                       .format = SB_FORMAT_e4m3,
                       .rows = rows,
                       .cols = cols,
                       .quant = {.scales = sb_gate_input(c, g.name)->data,
                                 .scale_format = SB_FORMAT_f32,
                                 .block_rows = g.rows,
                                 .block_cols = g.cols,
                                 .scale_row = g.across,
                                 .scale_col = 1,
                                 .groups = g.across,
                                 .stored_rows = rows,
                                 .container = SB_CONTAINER_fp8_block_ct}};
}

sb_status sb_gate_refresh_x(sb_gate_case *c, uint32_t rows, uint32_t cols)
{
    const sb_gate_stored s = stored(rows, cols);
    return sb_gate_coding_of(c) == SB_GATE_CODING_nvfp4 ? sb_gate_swizzle_again(c, &s) : SB_OK;
}

/* V-134: "a code times its scale is a binary32 number" */
static sb_status need_exact(const sb_matrix *x, sb_error *err)
{
    double *row = sb_alloc(x->cols, sizeof *row);
    sb_status status = row ? SB_OK : SB_ERR_MEMORY;
    for (uint32_t t = 0; !status && t < x->rows; t++) {
        sb_matrix_wide(x, t, row);
        for (uint32_t k = 0; !status && k < x->cols; k++)
            if (!((double)(float)row[k] - row[k] == 0.0))
                status = sb_fail(err, SB_ERR_INPUT,
                                 "in.x: token %u, column %u, times its scale is not a finite "
                                 "binary32 number",
                                 t, k);
    }
    free(row);
    return status;
}

sb_status sb_gate_need_x(const sb_gate_case *c, uint32_t rows, uint32_t cols, sb_error *err)
{
    const sb_gate_coding coding = sb_gate_coding_of(c);
    const sb_gate_stored s = stored(rows, cols);
    const uint64_t shape[] = {rows, cols};
    const grid g = grid_of(coding, rows, cols);
    sb_status status;
    if (coding == SB_GATE_CODING_nvfp4)
        status = sb_gate_need_stored(c, &s, err);
    else if (coding == SB_GATE_CODING_none)
        status = sb_gate_need_typed(c, "x", c->input, 2, shape, err);
    else {
        status = sb_gate_need_typed(c, "x", SB_DTYPE_F8_E4M3, 2, shape, err);
        if (!status)
            status = sb_gate_need_typed(c, g.name, SB_DTYPE_F32, g.rank, g.shape, err);
    }
    if (status)
        return status;
    const sb_matrix x = sb_gate_x(c, rows, cols);
    return need_exact(&x, err);
}
