/* state_place.h - an element of a recorded state as every comparison names it: it belongs to the
 * token that was fed last. */
#ifndef SB_COMPARE_STATE_PLACE_H
#define SB_COMPARE_STATE_PLACE_H

#include "ref/state/piece.h"
#include "tools/compare/verdict.h"

/* The last of so many tokens. */
uint64_t sb_state_token(uint64_t position);

/* Element `at` of a piece of the state behind `position` tokens: all but the numbers. The words end
 * with the place; what they go on with is a verb. */
void sb_state_place(const sb_config *config, const sb_piece *piece, uint32_t sequence,
                    uint64_t position, uint64_t at, sb_place *place);

/* More words behind those that are there. */
void sb_place_say(sb_place *place, const char *format, ...) SB_PRINTF(2, 3);

#endif
