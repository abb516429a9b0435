/* held.h - what was found of a layer, held against what the configuration declares of it. */
#ifndef SB_MODEL_HELD_H
#define SB_MODEL_HELD_H

#include "ref/model/weights.h"

/* Whether the tensors are what is declared; of modules of which nothing is known they are. */
int sb_declaration_agrees(const sb_declaration *declaration, const sb_found *found);

/* The same in two halves: as what they are declared, the sizes of its blocks or groups, which
 * matter where a layer is quantized and declared so, apart. */
int sb_declared_kind_agrees(const sb_declaration *declaration, const sb_found *found);
int sb_declared_blocks_agree(const sb_declaration *declaration, const sb_matrix *matrix);

/* Notes a disagreement in weights; settles with the declaration what tensors leave open.
 * Fails only as sb_declared_for does. */
sb_status sb_hold_against(sb_weights *weights, const sb_declared *declared, const char *module,
                          sb_found *found, sb_error *err);

/* Only the latter, where nobody counts. declared may be NULL. */
sb_status sb_settle_zeros(const sb_declared *declared, const char *module, sb_found *found,
                          sb_error *err);

#endif
