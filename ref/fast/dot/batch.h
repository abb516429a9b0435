/* batch.h - many inputs against one pass over the weights: the bits of one input at a time.
 *
 * A few rows are decoded to doubles, once, and meet every input before the next rows do. The sums
 * know the magnitudes of their terms only through the norms of rows and inputs; where the rounding
 * stays open, an output is taken again by itself. */
#ifndef SB_DOT_BATCH_H
#define SB_DOT_BATCH_H

#include "ref/fast/dot/dot.h"

/* What sb_dot_matrix of row.h is, for several inputs. The chosen set must have a tile. */
sb_status sb_dot_batch(const sb_matrix *w, const double *x, size_t count, const sb_scalar *factor,
                       float *out);

#endif
