/* batch.h - many inputs in one pass over the weights. The bits are the same as for one input at a
 * time.
 *
 * A few rows at a time are decoded to doubles once and multiplied with every input. The magnitudes
 * of terms are bounded by the norms of rows and inputs. If the rounding test cannot decide an
 * output, this output is computed again alone. */
#ifndef SB_DOT_BATCH_H
#define SB_DOT_BATCH_H

#include "ref/fast/dot/dot.h"

/* sb_dot_matrix of row.h for several inputs. The chosen set must have a tile. */
sb_status sb_dot_batch(const sb_matrix *w, const double *x, size_t count, const sb_scalar *factor,
                       float *out);

#endif
