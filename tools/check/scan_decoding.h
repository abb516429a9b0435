/* scan_decoding.h - the definition of every container once more, for a sample. */
#ifndef SB_CHECK_SCAN_DECODING_H
#define SB_CHECK_SCAN_DECODING_H

#include "tools/check/scan.h"

/* values are those of sb_matrix_wide for a row of a quantized matrix. Returns the first sampled
 * column with a value other than the definition's (*expected); if there is none, the number of
 * columns. */
uint32_t sb_decoding_differs(const sb_matrix *matrix, uint32_t row, const double *values,
                             double *expected);

#endif
