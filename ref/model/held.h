/* held.h - compares a layer as found with the layer as declared. */
#ifndef SB_MODEL_HELD_H
#define SB_MODEL_HELD_H

#include "ref/model/weights.h"

/* True if the tensors are as declared. Also true if the answer for the module is unknown. */
int sb_declaration_agrees(const sb_declaration *declaration, const sb_found *found);

/* The two halves of sb_declaration_agrees: the kind of storage; and the sizes of blocks or groups,
 * which matter only if the layer is declared as quantized. */
int sb_declared_kind_agrees(const sb_declaration *declaration, const sb_found *found);
int sb_declared_blocks_agree(const sb_declaration *declaration, const sb_matrix *matrix);

/* Counts a disagreement in weights. Lets the declaration decide what the tensors leave open.
 * Fails only as sb_declared_for does. */
sb_status sb_hold_against(sb_weights *weights, const sb_declared *declared, const char *module,
                          sb_found *found, sb_error *err);

/* As sb_hold_against, but counts nothing. declared may be NULL. */
sb_status sb_settle_zeros(const sb_declared *declared, const char *module, sb_found *found,
                          sb_error *err);

#endif
