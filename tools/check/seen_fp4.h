/* seen_fp4.h - what the payload pass keeps of one matrix: the part of its format. */
#ifndef SB_CHECK_SEEN_FP4_H
#define SB_CHECK_SEEN_FP4_H

#include <stdint.h>

typedef struct sb_seen_fp4 {
    uint64_t values;
} sb_seen_fp4;

#endif
