#include "tools/bench/f32_kernels.h"

#include <string.h>

#include "ref/base/bytes.h"
#include "ref/formats/format.h"
#include "ref/formats/wide.h"
#include "tools/bench/f32_parts.h"

enum { STEP = 128, GROUPS = 256, NVFP4_GROUP = 16 };

const char *sb_f32_kind_name(sb_f32_kind kind)
{
    static const char *const names[] = {"bf16", "nvfp4", "fp8"};
    return names[kind];
}

sb_f32_kind sb_f32_kind_of(const sb_matrix *m)
{
    const sb_quant *q = &m->quant;
    int quantized = sb_matrix_quantized(m);
    if (m->cols == 0 || m->cols % STEP)
        return SB_F32_KINDS;
    if (!quantized)
        return m->format == SB_FORMAT_bf16 ? SB_F32_bf16 : SB_F32_KINDS;
    if (q->packing != SB_PACKING_rows || q->group_index)
        return SB_F32_KINDS;
    if (m->format == SB_FORMAT_e2m1)
        return q->block_cols == NVFP4_GROUP && q->block_rows == 1 && q->scale_col == 1 &&
                       q->scale_format == SB_FORMAT_e4m3
                   ? SB_F32_nvfp4
                   : SB_F32_KINDS;
    return m->format == SB_FORMAT_e4m3 && (q->block_cols % 64 == 0 || q->block_cols >= m->cols) &&
                   q->groups <= GROUPS
               ? SB_F32_fp8
               : SB_F32_KINDS;
}

/* --- portable --------------------------------------------------------------------------------- */

static float bf16(const sb_f32_row *r)
{
    float sum = 0;
    for (size_t k = 0; k < r->n; k++)
        sum += sb_bf16_to_f32(sb_load_u16(r->codes + 2 * k)) * r->x[k];
    return sum;
}

static float of_code(sb_format format, unsigned code)
{
    return sb_code_to_f32(format, code);
}

static float nvfp4(const sb_f32_row *r)
{
    float sum = 0;
    for (size_t k = 0; k < r->n; k++)
        sum += of_code(SB_FORMAT_e2m1, (unsigned)r->codes[k / 2] >> (k % 2 * 4) & 15u) * r->x[k] *
               of_code(SB_FORMAT_e4m3, r->codes_scales[k / NVFP4_GROUP]);
    return sum;
}

static float fp8(const sb_f32_row *r)
{
    float sum = 0;
    for (size_t k = 0; k < r->n; k++)
        sum += of_code(SB_FORMAT_e4m3, r->codes[k]) * r->x[k] * r->scales[k / r->group];
    return sum;
}

static const sb_f32_set portable = {"portable", 1, bf16, nvfp4, fp8};
static const sb_f32_set *selected = &portable;

const char *sb_f32_select(const char *set)
{
    selected = &portable;
    if (strncmp(set, "avx512", 6) == 0 && sb_f32_avx512)
        selected = sb_f32_avx512;
    if (strcmp(set, "avx2") == 0 && sb_f32_avx2)
        selected = sb_f32_avx2;
    return selected->name;
}

/* The place of element i of a run. For E2M1, nibbles with the same index in their doublewords are
 * adjacent. For the others, elements with even and with odd index are separate, for FP8 in two
 * halves. */
static size_t place(sb_f32_kind kind, size_t lanes, size_t i)
{
    if (kind == SB_F32_nvfp4)
        return i % 8 * lanes + i / 8;
    if (kind == SB_F32_bf16)
        return i % 2 * lanes + i / 2;
    return i % 2 * 2 * lanes + i / 2;
}

void sb_f32_lay(sb_f32_kind kind, const float *x, size_t n, float *laid)
{
    size_t lanes = selected->lanes;
    size_t run = kind == SB_F32_nvfp4 ? 8 * lanes : kind == SB_F32_bf16 ? 2 * lanes : 4 * lanes;
    for (size_t k = 0; k < n; k++)
        laid[lanes == 1 ? k : k / run * run + place(kind, lanes, k % run)] = x[k];
}

void sb_f32_rows(const sb_matrix *m, sb_f32_kind kind, uint32_t first, uint32_t count,
                 const float *laid, float *out)
{
    const sb_quant *q = &m->quant;
    float scales[GROUPS];
    uint64_t band = UINT64_MAX;
    sb_f32_row r = {.x = laid, .n = m->cols, .scales = scales, .group = q->block_cols};
    for (uint32_t i = first; i < first + count; i++) {
        uint64_t stored = sb_matrix_stored_row(m, i);
        if (kind == SB_F32_bf16) {
            r.codes = m->data + 2 * stored * m->cols;
            out[i - first] = selected->bf16(&r);
            continue;
        }
        if (kind == SB_F32_nvfp4) {
            r.codes = m->data + stored * (m->cols / 2);
            r.codes_scales = q->scales + stored * q->scale_row;
            out[i - first] = selected->nvfp4(&r);
            continue;
        }
        r.codes = m->data + stored * m->cols;
        r.group = q->block_cols < m->cols ? q->block_cols : m->cols;
        if (stored / q->block_rows != band)
            for (uint32_t k = 0; k < m->cols; k += (uint32_t)r.group)
                scales[k / r.group] = sb_matrix_scale(m, i, k);
        band = stored / q->block_rows;
        out[i - first] = selected->fp8(&r);
    }
}
