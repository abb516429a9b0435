/* topk.h - the experts of each token of a case, and their weights. */
#ifndef SB_GATE_TOPK_H
#define SB_GATE_TOPK_H

#include "tools/judge/gate/gate.h"

/* Adds in.topk_ids (rows, slots), different experts in no particular order, and in.topk_weights,
 * positive and different, with a sum of about 1. */
sb_status sb_gate_add_topk(sb_gate_case *c, uint32_t rows, uint32_t slots, uint32_t experts);

/* Fails if they are wrong. */
sb_status sb_gate_need_topk(const sb_gate_case *c, uint32_t rows, uint32_t slots, uint32_t experts,
                            sb_error *err);

/* Slot `slot` of a token. */
uint32_t sb_gate_topk_id(const sb_gate_case *c, size_t slots, size_t token, size_t slot);
float sb_gate_topk_weight(const sb_gate_case *c, size_t slots, size_t token, size_t slot);

#endif
