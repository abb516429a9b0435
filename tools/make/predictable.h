/* predictable.h - parts that the files of recipe `predictable` share. */
#ifndef SB_TOOLS_MAKE_PREDICTABLE_H
#define SB_TOOLS_MAKE_PREDICTABLE_H

#include "tools/make/fill.h"

/* True for matrices and vectors of the MTP head. */
int sb_make_is_of_head(const sb_make_matrix *m);

/* The noise, relative to the codes, that causes only a few wrong drafts in an MTP head that adds
 * nothing but noise to the output of mtp.fc. */
float sb_make_bearable(const sb_codes *codes);

/* The gain that gives the sum of all experts a variance of about 1. */
float sb_make_mixture_gain(const sb_config *config);

/* Adds the recipe's entries to a row of the MTP head, which holds noise. */
void sb_make_head_row(const sb_maker *maker, const sb_make_matrix *m, uint64_t row, uint64_t col,
                      size_t n, float *out);

#endif
