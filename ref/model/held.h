/* held.h - compares a layer as it is stored with its declaration. */
#ifndef SB_MODEL_HELD_H
#define SB_MODEL_HELD_H

#include "ref/model/weights.h"

/* True if the tensors are stored as declared. Also true if the declaration does not cover the
 * module (SB_DECLARED_UNKNOWN). */
int sb_declaration_agrees(const sb_declaration *declaration, const sb_found *found);

/* The two halves of sb_declaration_agrees. The first compares the kind of storage. The second
 * compares the sizes of blocks or groups, which matter only if the layer is declared as
 * quantized. */
int sb_declared_kind_agrees(const sb_declaration *declaration, const sb_found *found);
int sb_declared_blocks_agree(const sb_declaration *declaration, const sb_matrix *matrix);

/* Compares a layer with its declaration, and counts a disagreement in `weights`. Sets in `found`
 * the details that the tensors do not show, as declared. Fails only if sb_declared_for
 * fails. */
sb_status sb_hold_against(sb_weights *weights, const sb_declared *declared, const char *module,
                          sb_found *found, sb_error *err);

/* As sb_hold_against, but counts nothing. declared may be NULL. */
sb_status sb_settle_zeros(const sb_declared *declared, const char *module, sb_found *found,
                          sb_error *err);

#endif
