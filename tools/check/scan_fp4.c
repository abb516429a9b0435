/* scan_fp4.c - NVFP4 and MXFP4: a panel, row by row. */
#include <float.h>

#include "ref/base/bytes.h"
#include "ref/formats/small_float.h"
#include "ref/formats/wide.h"
#include "tools/check/fp4.h"

enum { CHUNK = 16 };

/* V-23: "producers that declare to round otherwise" */
static int rounds_to_nearest(const sb_panel *p)
{
    sb_error err;
    sb_declaration d;
    const sb_declared *declared = p->check->self.declared;
    if (p->unit->found.part[SB_PART_pre_quant_scale])
        return 0;
    if (!declared)
        return 1;
    if (sb_declared_dialect(declared) == SB_DIALECT_auto_round ||
        sb_declared_dialect(declared) == SB_DIALECT_gptq ||
        sb_declared_dialect(declared) == SB_DIALECT_awq)
        return 0;
    return sb_declared_for(declared, p->unit->name, &d, &err) != SB_OK || !d.pre_scaled;
}

static void prepare_values(sb_fp4 *f)
{
    for (unsigned i = 0; i < 256; i++) {
        int number = f->mx ? i != 0xff : i > 0 && i < 0x7f;
        float v = f->mx ? sb_e8m0_to_f32((uint8_t)i) : sb_e4m3_to_f32((uint8_t)i);
        double inverse = 1 / ((double)v * f->multiplier);
        f->value[i] = number ? v : 0;
        f->scale[i] = (double)f->value[i];
        /* outside of this the fast test says nothing, and the slow one is asked */
        f->inverse[i] = number && inverse < 0x1p100 && inverse > 0x1p-100 ? (float)inverse : 0;
    }
}

static void prepare(const sb_panel *p, sb_fp4 *f)
{
    const sb_matrix *m = &p->matrix;
    const sb_factor *factor = &m->quant.factor;
    *f = (sb_fp4){.panel = p, .seen = &p->seen->fp4, .multiplier = 1, .usable = 1};
    f->mx = m->quant.scale_format == SB_FORMAT_e8m0;
    f->chunks = f->mx ? 2 : 1;
    f->blocks = m->cols / (f->chunks * 16);
    if (factor->kind != SB_NO_FACTOR && !f->mx) {
        double v = (double)factor->value;
        f->usable = v > (double)FLT_MIN && v <= (double)FLT_MAX;
        f->multiplier = !f->usable ? 1 : factor->kind == SB_DIVISOR ? 1 / v : v;
    }
    prepare_values(f);
    if (!p->master || !f->usable)
        return;
    if (p->first == 0)
        f->seen->nearest = !sb_matrix_quantized(p->master) && rounds_to_nearest(p);
    f->nearest = f->seen->nearest;
    f->seen->has_master = 1;
    p->seen->has_distance = 1;
    sb_fp4_prepare_scales(f);
}

/* BF16 is what originals are stored in: 16 values, and the largest magnitude among them. */
static float bf16_chunk(const unsigned char *bytes, float *values)
{
    enum { HALF = CHUNK / 2 };
    uint16_t code[CHUNK];
    uint32_t bits[CHUNK];
    int16_t largest[HALF], all = 0;
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    memcpy(code, bytes, sizeof code);
#else
    for (unsigned k = 0; k < CHUNK; k++)
        code[k] = sb_load_u16(bytes + 2 * (size_t)k);
#endif
#pragma omp simd
    for (unsigned k = 0; k < HALF; k++) {
        int16_t a = (int16_t)(code[k] & 0x7fff), b = (int16_t)(code[k + HALF] & 0x7fff);
        largest[k] = a > b ? a : b;
    }
#pragma omp simd
    for (unsigned k = 0; k < CHUNK; k++)
        bits[k] = (uint32_t)code[k] << 16;
    memcpy(values, bits, sizeof bits);
    for (unsigned k = 0; k < HALF; k++)
        all = largest[k] > all ? largest[k] : all;
    return sb_f32_from_bits((uint32_t)all << 16);
}

/* A row of the original in binary32. */
static void master_row(const sb_panel *p, uint32_t i, float *values, float *largest)
{
    const sb_matrix *m = p->master;
    double *wide = p->scratch + m->cols;
    if (m->format == SB_FORMAT_bf16 && !sb_matrix_quantized(m)) {
        const unsigned char *bytes = sb_matrix_row_bytes(m, i);
        for (uint32_t k = 0; k < m->cols; k += CHUNK)
            largest[k / CHUNK] = bf16_chunk(bytes + 2 * (size_t)k, values + k);
        return;
    }
    float factor = m->quant.factor.kind == SB_NO_FACTOR ? 1 : sb_factor_multiplier(m->quant.factor);
    sb_matrix_wide(m, i, wide);
    for (uint32_t k = 0; k < m->cols; k++) {
        float *all = &largest[k / CHUNK];
        values[k] = (float)(wide[k] * (double)factor);
        float a = values[k] < 0 ? -values[k] : values[k];
        if (k % CHUNK == 0 || a > *all)
            *all = a;
    }
}

static void fold(sb_seen_fp4 *seen, const uint32_t *histogram)
{
    for (unsigned i = 0; i < 512; i++)
        for (unsigned half = 0; half < 2; half++) {
            unsigned code = i >> 4 * half & 15u;
            seen->magnitude[code & 7u] += histogram[i];
            seen->negative += code > 8 ? histogram[i] : 0;
            seen->minus_zero += code == 8 ? histogram[i] : 0;
        }
}

void sb_scan_fp4(const sb_panel *panel)
{
    sb_fp4 f;
    uint32_t histogram[512] = {0};
    const sb_matrix *m = &panel->matrix;
    float *weights = (float *)panel->scratch, *largest = weights + m->cols;
    sb_fp4_line line = {.weights = weights, .largest = largest};
    prepare(panel, &f);
    for (uint32_t i = 0; i < m->rows; i++) {
        uint64_t stored = sb_matrix_stored_row(m, i), dead = panel->seen->zero_rows;
        line.codes = m->data + stored * (m->cols / 2);
        line.scales = m->quant.scales + stored * m->quant.scale_row;
        line.row = panel->first + i;
        sb_fp4_row(&f, line.codes, line.scales, line.row, histogram);
        if (!panel->master || !f.usable)
            continue;
        master_row(panel, i, weights, largest);
        if (sb_fp4_against(&f, &line) && panel->seen->zero_rows > dead)
            sb_fp4_place(&f.seen->died, line.row, 0);
    }
    fold(f.seen, histogram);
    if (panel->last)
        sb_fp4_judge(&f);
}
