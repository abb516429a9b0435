/* seen_plain.h - what the payload pass keeps of one matrix: the part of its format. */
#ifndef SB_CHECK_SEEN_PLAIN_H
#define SB_CHECK_SEEN_PLAIN_H

#include <stdint.h>

typedef struct sb_seen_plain {
    uint64_t values;
} sb_seen_plain;

#endif
