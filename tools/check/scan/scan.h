/* scan.h - one pass over the bytes: what each family of formats does with a panel of rows.
 *
 * A panel is some rows of one matrix, with all its bytes in memory. The panels of a matrix come in
 * order. `last` is set for the final panel; then the whole matrix is judged. Panels start at a
 * multiple of the block rows of the scales. Matrices that are not stored row by row (GPTQ, AWQ,
 * ModelOpt's INT4) come as one panel. Many threads call these functions, each with its own
 * matrix. */
#ifndef SB_CHECK_SCAN_H
#define SB_CHECK_SCAN_H

#include "tools/check/read/check.h"

typedef struct sb_panel {
    const sb_check *check;
    const sb_unit *unit;
    const char *name; /* the name of the unit, or of the piece of a stack */
    /* rows of the panel, starting at 0; quant.factor as stored, not yet checked */
    sb_matrix matrix;
    uint32_t first; /* the row of the whole matrix that is row 0 here */
    uint32_t rows;  /* number of rows of the whole matrix */
    int last;
    const sb_matrix *master; /* the same rows of the original, plain or quantized; NULL: none */
    sb_seen *seen;           /* kept over the panels of a matrix, zeroed before the first */
    sb_findings *findings;   /* findings of this unit */
    double *scratch;         /* 2 * cols values */
} sb_panel;

void sb_scan_fp4(const sb_panel *panel);   /* NVFP4 and MXFP4: 15, 16, 18 - 21, 23 - 25 */
void sb_scan_fp8(const sb_panel *panel);   /* FP8 and MXFP8: 28 - 31 */
void sb_scan_int(const sb_panel *panel);   /* all integers: 33 - 38 */
void sb_scan_plain(const sb_panel *panel); /* floats, vectors as one row: 12, 40 */

/* Check 48, on samples. Called in addition to the scans above. */
void sb_scan_decoding(const sb_panel *panel);

/* 1 if V-41 or V-45 needs the mean and the kurtosis of a unit: the sums of values and of their
 * fourth powers. For other units these sums stay 0. */
static inline int sb_asks_shape(const sb_unit *unit)
{
    return unit->tensor || unit->region == SB_REGION_mtp;
}

/* sb_seen_row adds the values of the next row to the moments, and notes whether the row is zero.
 * sb_seen_zero only notes whether the row is zero, for scans with faster moments of their own. */
void sb_seen_row(sb_seen *seen, const double *values, uint32_t cols);
void sb_seen_zero(sb_seen *seen, int zero);

/* The file offset of a byte of a part of the unit, for messages such as "row 17, block 3 (byte
 * 0x1234 of model-00002-of-3.safetensors)". */
uint64_t sb_part_offset(const sb_check *check, const sb_unit *unit, sb_model_part part,
                        uint64_t byte);

#endif
