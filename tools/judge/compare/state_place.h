/* state_place.h - how every comparison names an element of a recorded state. The element belongs to
 * the last token that was fed. */
#ifndef SB_COMPARE_STATE_PLACE_H
#define SB_COMPARE_STATE_PLACE_H

#include "ref/state/piece.h"
#include "tools/judge/compare/verdict.h"

/* The position of the last of `position` tokens. */
uint64_t sb_state_token(uint64_t position);

/* Describes element `at` of a piece of the state after `position` tokens; sets everything but
 * found, expected and bound. The words end with the place; the caller appends a verb and the rest.
 */
void sb_state_place(const sb_config *config, const sb_piece *piece, uint32_t sequence,
                    uint64_t position, uint64_t at, sb_place *place);

/* Appends to the words. */
void sb_place_say(sb_place *place, const char *format, ...) SB_PRINTF(2, 3);

#endif
