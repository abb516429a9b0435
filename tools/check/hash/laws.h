/* laws.h - counts the values of a layer in which two laws of dequantization differ. */
#ifndef SB_HASH_LAWS_H
#define SB_HASH_LAWS_H

#include "ref/base/status.h"
#include "ref/math/law.h"

/* Without law factor_last: its factor follows the dot product, so it has no weights of its own. */
enum {
    SB_LAWS_COMPARED = SB_LAW_COUNT - 1,
    SB_LAW_PAIRS = SB_LAWS_COMPARED * (SB_LAWS_COMPARED - 1) / 2
};

typedef struct sb_law_counts {
    uint64_t values;
    uint64_t f32[SB_LAW_PAIRS];  /* values that differ as binary32 */
    uint64_t bf16[SB_LAW_PAIRS]; /* values that still differ after rounding to bf16 */
    uint32_t ulp[SB_LAW_PAIRS];  /* the largest distance in binary32 steps */
} sb_law_counts;

/* The two laws of a pair. Pair 0 has the first two laws of laws.def. */
void sb_law_pair(unsigned pair, sb_law *a, sb_law *b);

/* True if laws can differ. If the tensor has no factor, every law except bf16_scale is RN(q s). If
 * scales are no wider than bf16, bf16_scale is RN(q s), too. */
int sb_laws_differ(const sb_matrix *matrix);

/* Adds the counts of a matrix whose laws differ. Both zeros count as equal, and so do all NaNs.
 * SB_ERR_UNSUPPORTED for a factor with codes other than FP4 in rows, which no layer has. */
sb_status sb_law_count(const sb_matrix *matrix, sb_law_counts *counts, sb_error *err);

#endif
