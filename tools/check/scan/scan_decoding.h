/* scan_decoding.h - decodes a sample of every container a second time, as its format is defined. */
#ifndef SB_CHECK_SCAN_DECODING_H
#define SB_CHECK_SCAN_DECODING_H

#include "tools/check/scan/scan.h"

/* values: a row of a quantized matrix, as sb_matrix_wide gives it. Returns the first sampled column
 * whose value differs from the definition, with the correct value in *expected; if there is none,
 * the number of columns. */
uint32_t sb_decoding_differs(const sb_matrix *matrix, uint32_t row, const double *values,
                             double *expected);

#endif
