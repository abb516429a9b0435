#include "tools/check/scan/rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/container/show.h"
#include "ref/formats/plain_row.h"
#include "ref/formats/wide.h"

static int little_endian(void)
{
    const uint16_t one = 1;
    unsigned char first;
    memcpy(&first, &one, 1);
    return first;
}

/* Most plain values are BF16: the compiler vectorizes this loop over integers. */
void sb_plain_decode(sb_format format, const unsigned char *bytes, size_t count, float *values)
{
    if (format != SB_FORMAT_bf16 || !little_endian()) {
        sb_decode(format, bytes, count, values);
        return;
    }
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        uint16_t half;
        uint32_t word;
        memcpy(&half, bytes + 2 * i, sizeof half);
        word = (uint32_t)half << 16;
        memcpy(values + i, &word, sizeof word);
    }
}

void sb_plain_values(const sb_matrix *matrix, uint32_t row, uint32_t first, uint32_t count,
                     float *values)
{
    sb_plain_decode(matrix->format,
                    sb_matrix_row_bytes(matrix, row) + first * sb_format_bytes(matrix->format),
                    count, values);
}

const float *sb_master_row(const sb_panel *panel, uint32_t row)
{
    const sb_matrix *m = panel->master;
    float *out = (float *)(void *)panel->scratch;
    if (!m)
        return NULL;
    if (!sb_matrix_quantized(m)) {
        sb_plain_values(m, row, 0, m->cols, out);
        return out;
    }
    double factor = m->quant.factor.kind ? (double)sb_factor_multiplier(m->quant.factor) : 1;
    sb_matrix_wide(m, row, panel->scratch);
    /* in place: each float is written at or before the position of its double */
    for (uint32_t k = 0; k < m->cols; k++) {
        double wide;
        memcpy(&wide, (unsigned char *)panel->scratch + 8 * (size_t)k, sizeof wide);
        float narrow = (float)(wide * factor);
        memcpy((unsigned char *)panel->scratch + 4 * (size_t)k, &narrow, sizeof narrow);
    }
    return out;
}

double sb_distance_ratio(const sb_distance *distance)
{
    if (!(distance->master2 > 0) || !(distance->error2 > 0))
        return 0;
    double square = distance->error2 / distance->master2, root = square > 1 ? square : 1;
    if (!(square < 1e300))
        return square;               /* so large that the exact value does not matter */
    for (int i = 0; i < 1100; i++) { /* Heron's method, from above */
        double next = (root + square / root) / 2;
        if (!(next < root))
            break;
        root = next;
    }
    return root;
}

const unsigned char *sb_code_byte(const sb_matrix *m, uint32_t row, uint32_t col)
{
    const sb_quant *q = &m->quant;
    uint64_t stored = sb_matrix_stored_row(m, row), bits = sb_format_bits(m->format);
    static const unsigned awq_nibble[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    switch (q->packing) {
    case SB_PACKING_gptq:
        return m->data + 4 * (col / (32 / bits) * q->stored_rows + stored) + col * bits % 32 / 8;
    case SB_PACKING_awq:
        return m->data + 4 * (((uint64_t)col * q->stored_rows + stored) / 8) +
               awq_nibble[stored % 8] / 2;
    case SB_PACKING_pairs:
        return m->data + stored / 2 * m->cols + col;
    case SB_PACKING_rows:
        break;
    }
    return m->data + stored * (m->cols * bits / 8) + col * bits / 8;
}

const unsigned char *sb_scale_byte(const sb_matrix *m, uint32_t row, uint32_t col)
{
    const sb_quant *q = &m->quant;
    uint32_t group =
        q->group_index ? sb_load_u32(q->group_index + 4 * (uint64_t)col) : col / q->block_cols;
    uint64_t at =
        sb_matrix_stored_row(m, row) / q->block_rows * q->scale_row + group * q->scale_col;
    return q->scales + at * (sb_format_bits(q->scale_format) / 8);
}

static const sb_tensor *tensor_with(const sb_member *member, const unsigned char *byte)
{
    const sb_found *f = &member->unit->found;
    for (unsigned p = 0; p < SB_PART_COUNT; p++)
        if (f->part[p] && byte >= f->part[p]->data && byte < f->part[p]->data + f->part[p]->bytes)
            return f->part[p];
    return NULL;
}

const char *sb_tensor_with(const sb_member *member, const unsigned char *byte)
{
    const sb_tensor *t = tensor_with(member, byte);
    return t ? t->name : sb_unit_tensor(member->unit, SB_PART_COUNT);
}

/* A stored number of `bytes` bytes, little-endian. */
static uint32_t number_at(const unsigned char *p, unsigned bytes)
{
    uint32_t number = 0;
    for (unsigned i = bytes; i-- > 0;)
        number = number << 8 | p[i];
    return number;
}

const char *sb_show_places(const sb_check *check, const sb_member *member, const sb_places *places,
                           sb_byte_fn byte, unsigned bytes, sb_places_text *room)
{
    const sb_checkpoint *checkpoint = check->self.checkpoint;
    size_t used = 0, size = sizeof room->text;
    uint64_t shown = places->count < SB_PLACES ? places->count : SB_PLACES;
    room->text[0] = '\0';
    for (uint64_t i = 0; i < shown; i++) {
        const unsigned char *at = byte(&member->matrix, places->row[i], places->col[i]);
        const sb_tensor *t = tensor_with(member, at);
        int wrote = snprintf(room->text + used, size - used, "%srow %" PRIu32 ", column %" PRIu32,
                             i ? "; " : "", places->row[i], places->col[i]);
        used += wrote > 0 && (size_t)wrote < size - used ? (size_t)wrote : 0;
        if (!t)
            continue;
        uint64_t offset = sb_checkpoint_offset(checkpoint, t) + (uint64_t)(at - t->data);
        wrote = snprintf(room->text + used, size - used, " (0x%0*" PRIx32 " at byte %" PRIu64,
                         (int)(2 * bytes), number_at(at, bytes), offset);
        used += wrote > 0 && (size_t)wrote < size - used ? (size_t)wrote : 0;
        wrote = snprintf(room->text + used, size - used, "%s%s)", i ? "" : " of ",
                         i ? "" : SB_SHOW(sb_checkpoint_shard_name(checkpoint, t->shard)));
        used += wrote > 0 && (size_t)wrote < size - used ? (size_t)wrote : 0;
    }
    if (places->count > shown)
        snprintf(room->text + used, size - used, "; ...");
    return room->text;
}

const char *sb_piece_prefix(const sb_member *member, sb_piece_text *room)
{
    room->text[0] = '\0';
    if (member->unit->found.experts)
        snprintf(room->text, sizeof room->text, "%s: ", SB_SHOW(member->name));
    return room->text;
}
