/* weights.h - values from a checkpoint instead of drawn ones: `samebit make --weights`. */
#ifndef SB_TOOLS_MAKE_WEIGHTS_H
#define SB_TOOLS_MAKE_WEIGHTS_H

#include "tools/make/choices.h"
#include "tools/make/fill.h"

typedef struct sb_weights sb_weights;

/* Opens a checkpoint with every tensor of its text model as BF16, F16 or F32. Returns SB_ERR_USAGE
 * for Qwen3-Next, whose projections are interleaved. */
sb_status sb_weights_open(const char *path, sb_weights **out, sb_error *err);
void sb_weights_close(sb_weights *weights);

/* The dimensions of the checkpoint in the form of presets.def, and whether it has an MTP head. */
void sb_weights_shape(const sb_weights *weights, sb_make_preset *dims);
int sb_weights_have_mtp(const sb_weights *weights);

/* SB_ERR_USAGE if this configuration describes another model. */
sb_status sb_weights_fit(const sb_weights *weights, const sb_config *made, sb_error *err);

/* n values of a row of a matrix, from column col on. */
void sb_weights_row(const sb_weights *weights, const sb_make_matrix *matrix, uint64_t row,
                    uint64_t col, size_t n, float *out);

#endif
