/* sample.h - which units a check reads, if it does not read all (V-161, check --sample N). */
#ifndef SB_CHECK_SAMPLE_H
#define SB_CHECK_SAMPLE_H

#include "tools/check/read/units.h"

enum {
    SB_SAMPLE_MOST = 4096,          /* units of a sample */
    SB_SAMPLE_UNIT_BYTES = 64 << 20 /* a larger unit is never in a sample */
};

/* Sets `chosen` of at most count units that can be read: one of each kind (of the trunk, of the MTP
 * head, ...) before a second one of any, in an order that the names alone determine. Layers that
 * engines fuse (fused.h) are chosen together or not at all. *chosen: the number of chosen units;
 * *bytes: the sum of their bytes. SB_ERR_MEMORY. */
sb_status sb_sample_choose(sb_units *units, size_t count, size_t *chosen, uint64_t *bytes,
                           sb_error *err);

/* What a sample of units shows about a check. */
typedef enum sb_sample_word {
    SB_SAMPLE_nothing, /* compares whole layers, asks how many of all are so, or is about files */
    SB_SAMPLE_hints,   /* compares units with the others of the checkpoint, most of which are unread
                        */
    SB_SAMPLE_verdict, /* judges each unit by itself */
} sb_sample_word;
sb_sample_word sb_sample_says(unsigned number);

#endif
