/* predictable.h - what the files of recipe `predictable` share. */
#ifndef SB_TOOLS_MAKE_PREDICTABLE_H
#define SB_TOOLS_MAKE_PREDICTABLE_H

#include "tools/make/fill.h"

/* Of a matrix or vector of the MTP head. */
int sb_make_is_of_head(const sb_make_matrix *m);

/* How much noise, relative to the codes, an MTP head bears with few wrong drafts, in which nothing
 * but noise is added to what mtp.fc gives. */
float sb_make_bearable(const sb_codes *codes);

/* What gives the sum of all experts a variance of about 1. */
float sb_make_mixture_gain(const sb_config *config);

/* Adds to a row of the MTP head's noise what the recipe has in it. */
void sb_make_head_row(const sb_maker *maker, const sb_make_matrix *m, uint64_t row, uint64_t col,
                      size_t n, float *out);

#endif
