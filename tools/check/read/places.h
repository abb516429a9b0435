/* places.h - how often something was seen in a matrix, and the first few places. */
#ifndef SB_CHECK_PLACES_H
#define SB_CHECK_PLACES_H

#include <stdint.h>

enum { SB_PLACES = 3 };

typedef struct sb_places {
    uint64_t count;
    /* coordinates of the first places, in the whole matrix */
    uint32_t row[SB_PLACES], col[SB_PLACES];
} sb_places;

static inline void sb_note_place(sb_places *places, uint32_t row, uint32_t col)
{
    if (places->count < SB_PLACES) {
        places->row[places->count] = row;
        places->col[places->count] = col;
    }
    places->count++;
}

#endif
