/* values.h - the hash of a layer's meaning: the same in every dialect that can express the layer
 * (D-5). */
#ifndef SB_HASH_VALUES_H
#define SB_HASH_VALUES_H

#include "ref/base/hash.h"
#include "ref/model/layers.h"

typedef struct sb_value_hash {
    sb_digest values; /* of codes, block scales and divisor: D-5 */
    sb_digest exact;  /* of the values themselves, each rounded once to binary32: D-6 */
    int has_divisor, has_input;
    float divisor; /* the canonical divisors of the weights and of the inputs */
    float input;
} sb_value_hash;

/* The canonical divisor of a factor. origin: its origin in the checkpoint, or 0. */
float sb_canonical_divisor(sb_factor factor, float origin);

/* Rows are shared among threads; the result does not depend on their number. */
sb_status sb_value_hash_of(const sb_checkpoint *checkpoint, const sb_piece *piece,
                           sb_value_hash *out, sb_error *err);

/* Row i under the law exact, cols values: the same bits as sb_law_row, but faster. wide is scratch
 * for cols values. */
void sb_exact_values(const sb_matrix *matrix, uint32_t row, double *wide, float *values);

#endif
