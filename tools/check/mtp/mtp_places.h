/* mtp_places.h - the files that hold the MTP head, compared with the index. */
#ifndef SB_CHECK_MTP_PLACES_H
#define SB_CHECK_MTP_PLACES_H

#include "tools/check/judge/held_by.h"

typedef struct sb_mtp_places {
    uint64_t unindexed;         /* tensors of the head that exist, but are not in the index */
    const char *unindexed_file; /* the first file with such tensors */
    const char *unindexed_name; /* the first of them */
    int several_files;          /* there are more files with such tensors */
    /* tensors that the index puts into files that are missing or cannot be read */
    uint64_t absent;
    size_t absent_files;
    sb_files_text files; /* names of these files */
    int missing;         /* the first of these files is missing; 0: it cannot be read */
} sb_mtp_places;

void sb_mtp_places_of(const sb_check *check, sb_mtp_places *out);

#endif
