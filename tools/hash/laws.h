/* laws.h - in how many values of a layer two laws of dequantization differ. */
#ifndef SB_HASH_LAWS_H
#define SB_HASH_LAWS_H

#include "ref/base/status.h"
#include "ref/math/law.h"

/* Law factor_last is left out: its factor follows the dot product, so it has no weights of its own.
 */
enum {
    SB_LAWS_COMPARED = SB_LAW_COUNT - 1,
    SB_LAW_PAIRS = SB_LAWS_COMPARED * (SB_LAWS_COMPARED - 1) / 2
};

typedef struct sb_law_counts {
    uint64_t values;
    uint64_t f32[SB_LAW_PAIRS];  /* values that differ as binary32 */
    uint64_t bf16[SB_LAW_PAIRS]; /* and still do when both are rounded to bf16 */
    uint32_t ulp[SB_LAW_PAIRS];  /* the largest distance as binary32, in steps */
} sb_law_counts;

/* The two laws of a pair; the pair of 0 is that of the first two laws of laws.def. */
void sb_law_pair(unsigned pair, sb_law *a, sb_law *b);

/* Whether laws can differ: without a factor of the whole tensor all of them are RN(q s), but for
 * law bf16_scale, and that is the same where scales are no wider than bf16. */
int sb_laws_differ(const sb_matrix *matrix);

/* Adds the counts of a matrix whose laws differ. Zeros of both signs are one value, and so are all
 * NaN. SB_ERR_UNSUPPORTED for a factor with codes other than FP4 in rows, which no layer has. */
sb_status sb_law_count(const sb_matrix *matrix, sb_law_counts *counts, sb_error *err);

#endif
