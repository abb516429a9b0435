/* zip.h - the members of a ZIP archive in memory, nothing of which is believed: J-15.
 *
 * Members that are stored are the bytes of the archive themselves; compressed ones are unpacked
 * when they are asked for. */
#ifndef SB_DUMP_ZIP_H
#define SB_DUMP_ZIP_H

#include <stddef.h>
#include <stdint.h>

#include "ref/base/status.h"

enum {
    SB_ZIP_MAX_MEMBERS = 1 << 17,
    SB_ZIP_MAX_NAME = 1024,
    /* What is compressed may unpack, all together, to so many times the archive, and this. */
    SB_ZIP_TIMES = 8,
    SB_ZIP_MORE = 1 << 20
};

typedef struct sb_zip sb_zip;

/* The directory, checked whole. The bytes must outlive the archive; `file` is for messages, and
 * lives as long. */
sb_status sb_zip_open(const unsigned char *bytes, size_t size, const char *file, sb_zip **out,
                      sb_error *err);
void sb_zip_close(void *zip); /* NULL is fine */

size_t sb_zip_count(const sb_zip *zip);
const char *sb_zip_name(const sb_zip *zip, size_t i); /* ascending, none twice */
int sb_zip_find(const sb_zip *zip, const char *name, size_t *out);

/* The bytes of a member, held against its checksum; they live as long as the archive. */
sb_status sb_zip_read(sb_zip *zip, size_t i, const unsigned char **bytes, size_t *size,
                      sb_error *err);

#endif
