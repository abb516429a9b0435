/* payload_rows.c - the rows of a matrix in memory, whether mapped or read. */
#include "ref/container/show.h"
#include "ref/formats/format.h"
#include "tools/check/scan/payload_parts.h"

/* Elements of a panel: with this number, the codes, the original's BF16 and two rows of doubles
 * stay in the cache. */
enum { PANEL = 1 << 19 };

sb_model_part sb_part_of(const sb_found *found, const unsigned char *byte)
{
    for (unsigned p = 0; p < SB_PART_COUNT && byte; p++)
        if (found->part[p] && byte >= found->part[p]->data &&
            byte < found->part[p]->data + found->part[p]->bytes)
            return (sb_model_part)p;
    return SB_PART_COUNT;
}

int sb_is_sliced(const sb_matrix *m)
{
    return m->quant.packing == SB_PACKING_rows;
}

uint64_t sb_row_bytes(const sb_matrix *m)
{
    return (uint64_t)m->cols * sb_format_bits(m->format) / 8;
}

/* The number of rows that share a scale or a word of zero points; panels start at a multiple of it.
 * A scale that all rows of a matrix share does not count. */
static uint32_t shared_rows(const sb_matrix *m)
{
    const sb_quant *q = &m->quant;
    uint32_t block = q->scales && q->block_rows < q->stored_rows ? q->block_rows : 1;
    uint32_t word = m->quant.zeros == SB_ZEROS_rows ? 32 / sb_format_bits(m->format) : 1;
    return block > word ? block : word;
}

uint32_t sb_panel_rows(const sb_matrix *m)
{
    uint32_t block = shared_rows(m);
    uint32_t rows = m->cols ? PANEL / m->cols : 1;
    if (!sb_is_sliced(m))
        return m->rows;
    rows = rows / block * block;
    return rows ? rows : block;
}

/* Moves a pointer into a part to the place of that part in memory. */
static sb_status move_whole(sb_worker *w, const sb_checkpoint *checkpoint, const sb_found *found,
                            unsigned slot, const unsigned char **byte, sb_error *err)
{
    sb_model_part part = sb_part_of(found, *byte);
    const unsigned char *bytes;
    if (part == SB_PART_COUNT)
        return SB_OK;
    const sb_tensor *t = found->part[part];
    sb_status status =
        sb_reader_fetch(w->reader, checkpoint, t, 0, t->bytes, slot + part, &bytes, err);
    if (!status)
        *byte = bytes + (*byte - t->data);
    return status;
}

sb_status sb_fetch_rows(sb_worker *w, const sb_checkpoint *checkpoint, const char *name,
                        const sb_found *found, const sb_matrix *whole, uint32_t first,
                        uint32_t rows, unsigned slot, sb_matrix *out, sb_error *err)
{
    sb_quant *q = &out->quant;
    *out = *whole;
    out->rows = rows;
    sb_status status = move_whole(w, checkpoint, found, slot, &q->scales, err);
    if (!status)
        status = move_whole(w, checkpoint, found, slot, &q->zero_points, err);
    if (!status)
        status = move_whole(w, checkpoint, found, slot, &q->group_index, err);
    if (status || !sb_is_sliced(whole))
        return status ? status : move_whole(w, checkpoint, found, slot, &out->data, err);
    sb_model_part part = sb_part_of(found, whole->data);
    if (part == SB_PART_COUNT)
        return sb_fail(err, SB_ERR_INPUT, "%s: has no bytes", SB_SHOW(name));
    const sb_tensor *t = found->part[part];
    uint64_t start = whole->first_row + (uint64_t)first;
    /* a piece of a stack may start inside a block of rows: then fetch from the start of that
     * block */
    uint32_t inside = (uint32_t)(start % shared_rows(whole));
    uint64_t at = (uint64_t)(whole->data - t->data) + (start - inside) * sb_row_bytes(whole);
    status = sb_reader_fetch(w->reader, checkpoint, t, at, (rows + inside) * sb_row_bytes(whole),
                             CODES_SLOT + (slot == MASTER_SLOT), &out->data, err);
    out->first_row = inside;
    if (q->scales && q->block_rows)
        q->scales +=
            (start - inside) / q->block_rows * q->scale_row * (sb_format_bits(q->scale_format) / 8);
    if (q->zeros == SB_ZEROS_rows) /* 4 bytes per group for 32 / bits rows */
        q->zero_points += (start - inside) * sb_format_bits(whole->format) / 8 * q->groups;
    w->bytes += rows * sb_row_bytes(whole);
    return status;
}
