/* scan_decoding.h - the definition of every container once more, for samples. */
#ifndef SB_CHECK_SCAN_DECODING_H
#define SB_CHECK_SCAN_DECODING_H

#include "tools/check/scan.h"

/* The first sampled column of a row of a quantized matrix where values, as sb_matrix_wide gives
 * them, are not what the definition gives (*expected); the number of columns: none. */
uint32_t sb_decoding_differs(const sb_matrix *matrix, uint32_t row, const double *values,
                             double *expected);

#endif
