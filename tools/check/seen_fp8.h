/* seen_fp8.h - what the payload pass keeps of one matrix: the part of its format. */
#ifndef SB_CHECK_SEEN_FP8_H
#define SB_CHECK_SEEN_FP8_H

#include <stdint.h>

typedef struct sb_seen_fp8 {
    uint64_t values;
} sb_seen_fp8;

#endif
