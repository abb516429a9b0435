/* payload_same.c - compares a quantized layer with a quantized original (V-14). */
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/container/show.h"
#include "ref/formats/format.h"
#include "ref/formats/wide.h"
#include "tools/check/scan/payload_parts.h"
#include "tools/check/scan/scan.h"

static sb_part_difference *difference_of(sb_unit *unit, unsigned row, sb_error *err)
{
    sb_same *s = &unit->same;
    if (!s->differences)
        s->differences = sb_alloc(SB_SAME_ROWS, sizeof *s->differences);
    if (!s->differences) {
        (void)sb_payload_no_memory(unit->name, err);
        return NULL;
    }
    return &s->differences[row];
}

static void note(sb_part_difference *d, uint64_t at, uint64_t own, uint64_t other, unsigned bits)
{
    if (!d->differing++) {
        d->first = at;
        d->own = own;
        d->other = other;
        d->bits = bits;
    }
}

static int same_shape(const sb_tensor *a, const sb_tensor *b)
{
    return a && b && a->dtype == b->dtype && a->rank == b->rank && a->bytes == b->bytes &&
           memcmp(a->shape, b->shape, a->rank * sizeof *a->shape) == 0;
}

/* V-14: "Stored alike" - the container alone does not determine what bytes mean: v1 and v2 of GPTQ
 * have the same tensors. */
static int same_storage(const sb_found *a, const sb_found *b)
{
    const sb_quant *p = &a->matrix.quant, *q = &b->matrix.quant;
    return a->container == b->container && a->container != SB_CONTAINER_plain &&
           a->container != SB_CONTAINER_COUNT && a->experts == b->experts &&
           a->matrix.format == b->matrix.format && p->packing == q->packing &&
           p->zeros == q->zeros && p->zero == q->zero && p->scale_format == q->scale_format &&
           p->block_cols == q->block_cols && p->block_rows == q->block_rows;
}

int sb_same_part(const sb_unit *unit, const sb_unit *master, unsigned part)
{
    return master && !master->tensor && !master->status &&
           same_storage(&unit->found, &master->found) &&
           same_shape(unit->found.part[part], master->found.part[part]);
}

static uint64_t element(const unsigned char *bytes, uint64_t i, unsigned bits)
{
    uint64_t value = 0;
    if (bits == 4)
        return bytes[i / 2] >> (i % 2 * 4) & 15;
    for (unsigned b = 0; b < bits / 8; b++)
        value |= (uint64_t)bytes[i * (bits / 8) + b] << 8 * b;
    return value;
}

static int is_float(const sb_matrix *m)
{
    return m->format == SB_FORMAT_e2m1 || m->format == SB_FORMAT_e4m3;
}

/* A code as a position on the number line: FP4 and FP8 codes are sign and magnitude, integer codes
 * are positions already. */
static int64_t step_of(uint64_t code, unsigned bits, int is_float_code)
{
    int64_t magnitude = (int64_t)(code & ((1u << (bits - 1)) - 1));
    if (!is_float_code)
        return (int64_t)code;
    return code >> (bits - 1) & 1 ? -magnitude : magnitude;
}

/* V-14: "a code and the next one": rounding at a boundary decides between them. A word holds
 * several codes. */
static int is_apart(const sb_matrix *m, uint64_t own, uint64_t other, unsigned bits)
{
    unsigned width = sb_format_bits(m->format);
    for (unsigned at = 0; at + width <= bits; at += width) {
        uint64_t mask = ((uint64_t)1 << width) - 1;
        int64_t x = step_of(own >> at & mask, width, is_float(m));
        int64_t y = step_of(other >> at & mask, width, is_float(m));
        if (x - y > 1 || y - x > 1)
            return 1;
    }
    return 0;
}

sb_status sb_same_bytes(sb_unit *unit, unsigned part, unsigned bits, uint64_t at,
                        const unsigned char *own, const unsigned char *other, uint64_t count,
                        sb_error *err)
{
    bits = bits == 6 ? 8 : bits; /* an element of six bits may cross bytes */
    uint64_t before = at * 8 / bits;
    int is_codes =
        !unit->tensor && part == (unsigned)sb_part_of(&unit->found, unit->found.matrix.data);
    unit->same.compared |= 1u << part;
    unit->same.in_bytes |= 1u << part;
    if (memcmp(own, other, (size_t)count) == 0)
        return SB_OK;
    sb_part_difference *d = difference_of(unit, part, err);
    if (!d)
        return SB_ERR_MEMORY;
    for (uint64_t i = 0; i < count * 8 / bits; i++) {
        uint64_t x = element(own, i, bits), y = element(other, i, bits);
        if (x == y)
            continue;
        note(d, before + i, x, y, bits);
        d->apart += is_codes && is_apart(&unit->found.matrix, x, y, bits);
    }
    return SB_OK;
}

int sb_same_family(const sb_matrix *a, const sb_matrix *b)
{
    return a->format == b->format || (!is_float(a) && !is_float(b));
}

/* V-14: "Zeros of either sign are one value" */
static int same_value(double x, double y)
{
    return x == y || (x != x && y != y);
}

sb_status sb_same_values(const sb_panel *panel, sb_unit *unit, uint32_t piece, sb_error *err)
{
    const sb_matrix *m = &panel->matrix;
    double *own = panel->scratch, *other = own + m->cols;
    unit->same.by_value = 1;
    for (uint32_t i = 0; i < m->rows; i++) {
        sb_matrix_wide(m, i, own);
        sb_matrix_wide(panel->master, i, other);
        for (uint32_t k = 0; k < m->cols; k++) {
            if (same_value(own[k], other[k]))
                continue;
            sb_part_difference *d = difference_of(unit, SB_SAME_VALUES, err);
            if (!d)
                return SB_ERR_MEMORY;
            if (!d->differing)
                d->piece = piece;
            note(d, ((uint64_t)panel->first + i) * m->cols + k, sb_bits_f64(own[k]),
                 sb_bits_f64(other[k]), 64);
        }
    }
    return SB_OK;
}

/* V-14: "a divisor and a multiplier are the same if either is the other's binary32 reciprocal" */
static int same_factor(sb_factor a, sb_factor b)
{
    if (a.kind == b.kind)
        return sb_bits_f32(a.value) == sb_bits_f32(b.value);
    if (a.kind == SB_NO_FACTOR || b.kind == SB_NO_FACTOR)
        return 0;
    return 1.0f / a.value == b.value || 1.0f / b.value == a.value;
}

static sb_status same_number(sb_unit *unit, const sb_model_part parts[2], sb_factor own,
                             sb_factor other, sb_error *err)
{
    for (unsigned i = 0; i < 2; i++) {
        unsigned p = parts[i];
        if (!unit->found.part[p] || (unit->same.in_bytes >> p & 1))
            continue;
        if (own.kind == SB_NO_FACTOR || other.kind == SB_NO_FACTOR)
            continue;
        unit->same.compared |= 1u << p;
        if (same_factor(own, other))
            continue;
        sb_part_difference *d = difference_of(unit, p, err);
        if (!d)
            return SB_ERR_MEMORY;
        note(d, 0, sb_bits_f32(own.value), sb_bits_f32(other.value), 32);
    }
    return SB_OK;
}

sb_status sb_same_factors(sb_unit *unit, const sb_quant *own, const sb_quant *other, sb_error *err)
{
    static const sb_model_part weights[2] = {SB_PART_weight_global_scale, SB_PART_weight_scale_2};
    static const sb_model_part inputs[2] = {SB_PART_input_global_scale, SB_PART_input_scale};
    sb_status status = same_number(unit, weights, own->factor, other->factor, err);
    return status ? status : same_number(unit, inputs, own->input, other->input, err);
}
