/* mtp_places.h - in which files the MTP head stands, held against the index. */
#ifndef SB_CHECK_MTP_PLACES_H
#define SB_CHECK_MTP_PLACES_H

#include "tools/check/held_by.h"

typedef struct sb_mtp_places {
    uint64_t unindexed;         /* tensors of the head that are here and not in the index */
    const char *unindexed_file; /* the first file with such */
    const char *unindexed_name; /* the first of them */
    int several_files;          /* and there are more such files */
    uint64_t absent;            /* tensors that the index puts into files that cannot be had */
    size_t absent_files;
    sb_files_text files; /* those */
    int missing;         /* the first of them is missing; else it cannot be read */
} sb_mtp_places;

void sb_mtp_places_of(const sb_check *check, sb_mtp_places *out);

#endif
