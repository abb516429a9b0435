#include "tools/check/hash/nvfp4_table.h"

#include "ref/formats/format.h"

int sb_fp4_table_fits(const sb_matrix *m)
{
    const sb_quant *q = &m->quant;
    return sb_matrix_quantized(m) && m->format == SB_FORMAT_e2m1 && q->packing == SB_PACKING_rows &&
           sb_format_bytes(q->scale_format) == 1 && q->block_rows == 1 && q->scale_col == 1 &&
           q->block_cols % 2 == 0 && !q->group_index && q->zeros == SB_ZEROS_none && q->zero == 0;
}

void sb_fp4_table_make(const sb_matrix *matrix, sb_law law, sb_fp4_table *table)
{
    unsigned char codes[256 * 8], scales[256];
    double wide[16];
    sb_matrix all = {.data = codes, .format = SB_FORMAT_e2m1, .rows = 256, .cols = 16};
    for (unsigned i = 0; i < sizeof codes; i++)
        codes[i] = (unsigned char)(i % 8 * 0x22 + 0x10); /* 0x10, 0x32, ... 0xfe: all codes */
    for (unsigned i = 0; i < sizeof scales; i++)
        scales[i] = (unsigned char)i;
    all.quant = (sb_quant){.scales = scales,
                           .scale_format = matrix->quant.scale_format,
                           .block_rows = 1,
                           .block_cols = 16,
                           .scale_row = 1,
                           .scale_col = 1,
                           .groups = 1,
                           .packing = SB_PACKING_rows,
                           .stored_rows = 256,
                           .factor = matrix->quant.factor};
    for (uint32_t scale = 0; scale < 256; scale++)
        sb_law_row(&all, scale, law, wide, table->value[scale]);
}

const unsigned char *sb_fp4_codes(const sb_matrix *m, uint32_t row)
{
    return m->data + sb_matrix_stored_row(m, row) * (m->cols / 2);
}

const unsigned char *sb_fp4_scales(const sb_matrix *m, uint32_t row)
{
    return m->quant.scales + sb_matrix_stored_row(m, row) * m->quant.scale_row;
}
