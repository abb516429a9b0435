/* archive.h - a ZIP archive of stored members, written as numpy and torch write theirs. */
#ifndef SB_TESTS_FUZZ_ARCHIVE_H
#define SB_TESTS_FUZZ_ARCHIVE_H

#include <stddef.h>

typedef struct archive_text {
    unsigned char *bytes;
    size_t size, room;
} archive_text;

typedef struct archive {
    archive_text file, directory;
    size_t members;
} archive;

/* Adds a member and its entry of the directory; `wrong` is added to its checksum. Aborts if memory
 * runs out. */
void archive_add(archive *a, const char *name, const void *content, size_t size, unsigned wrong);
void archive_finish(archive *a); /* completes `file`, which is valid until archive_free */
void archive_free(archive *a);

#endif
