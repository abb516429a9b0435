/* seen_int.h - what the payload pass keeps of one matrix: the part of its format. */
#ifndef SB_CHECK_SEEN_INT_H
#define SB_CHECK_SEEN_INT_H

#include <stdint.h>

typedef struct sb_seen_int {
    uint64_t values;
} sb_seen_int;

#endif
