/* scan.h - one pass over the bytes: what each family of formats does with a panel of rows.
 *
 * A panel is some rows of one matrix, all its bytes in memory; the panels of a matrix come in
 * order, and `last` is set with the final one, where the judgements about the whole matrix are
 * made. Panels start at a multiple of the block rows of the scales. Matrices that are not stored
 * row by row (GPTQ, AWQ, ModelOpt's INT4) come whole. Called from many threads, each with its own
 * matrix. */
#ifndef SB_CHECK_SCAN_H
#define SB_CHECK_SCAN_H

#include "tools/check/check.h"

typedef struct sb_panel {
    const sb_check *check;
    const sb_unit *unit;
    const char *name; /* of the matrix: the unit's, or the piece's of a stack */
    sb_matrix matrix; /* rows of the panel, starting at 0; quant.factor as stored, unjudged */
    uint32_t first;   /* which row of the whole matrix row 0 is */
    uint32_t rows;    /* of the whole matrix */
    int last;
    const sb_matrix *master; /* the same rows of the original, plain or quantized; NULL: none */
    sb_seen *seen;           /* kept over the panels of a matrix, zeroed before the first */
    sb_findings *findings;   /* of this unit */
    double *scratch;         /* 2 * cols values */
} sb_panel;

void sb_scan_fp4(const sb_panel *panel);   /* NVFP4 and MXFP4: 15, 16, 18 - 21, 23 - 25 */
void sb_scan_fp8(const sb_panel *panel);   /* FP8 and MXFP8: 28 - 31 */
void sb_scan_int(const sb_panel *panel);   /* all integers: 33 - 38 */
void sb_scan_plain(const sb_panel *panel); /* floats, vectors as one row: 12, 40 */

/* Beside these: 48, on samples. */
void sb_scan_decoding(const sb_panel *panel);

/* Whether the mean and the kurtosis of a unit are asked for, by V-41 and V-45: sums of values and
 * of their fourth powers. Those of other units stay 0. */
static inline int sb_asks_shape(const sb_unit *unit)
{
    return unit->tensor || unit->region == SB_REGION_mtp;
}

/* Adds the values of the next row to the moments, and the row to the zero rows if it is one. For
 * scans that are quicker on their own: only the latter. */
void sb_seen_row(sb_seen *seen, const double *values, uint32_t cols);
void sb_seen_zero(sb_seen *seen, int zero);

/* An element as messages name it: "row 17, block 3 (byte 0x1234 of model-00002-of-3.safetensors)"
 * is made of this. Offset in its file of a byte of a part of the unit. */
uint64_t sb_part_offset(const sb_check *check, const sb_unit *unit, sb_model_part part,
                        uint64_t byte);

#endif
