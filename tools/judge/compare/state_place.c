#include "tools/judge/compare/state_place.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

uint64_t sb_state_token(uint64_t position)
{
    return position ? position - 1 : 0;
}

void sb_state_place(const sb_config *config, const sb_piece *piece, uint32_t sequence,
                    uint64_t position, uint64_t at, sb_place *place)
{
    sb_piece_place in = sb_piece_find(config, piece, at);
    *place = (sb_place){.sequence = sequence,
                        .token = sb_state_token(position),
                        .layer = piece->layer,
                        .op = "state",
                        .rank = SB_ELEMENT_RANK,
                        .element = {in.has_head ? in.head : 0, in.row, in.col}};
    snprintf(place->name, sizeof place->name, "%s", piece->name);
    if (position)
        sb_place_say(place,
                     "state after token %llu of sequence %u: ", (unsigned long long)place->token,
                     (unsigned)sequence);
    else
        sb_place_say(place, "state before the first token of sequence %u: ", (unsigned)sequence);
    sb_place_say(place, "%s%s%s, head %llu, row %llu, column %llu", piece->name, in.part ? " " : "",
                 in.part ? in.part : "", (unsigned long long)place->element[0],
                 (unsigned long long)in.row, (unsigned long long)in.col);
}

void sb_place_say(sb_place *place, const char *format, ...)
{
    size_t used = strlen(place->words);
    va_list args;
    va_start(args, format);
    vsnprintf(place->words + used, sizeof place->words - used, format, args);
    va_end(args);
}
