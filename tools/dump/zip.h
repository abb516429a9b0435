/* zip.h - the members of an untrusted ZIP archive in memory: J-15.
 *
 * Stored members are read in place; compressed ones are unpacked on request. */
#ifndef SB_DUMP_ZIP_H
#define SB_DUMP_ZIP_H

#include <stddef.h>
#include <stdint.h>

#include "ref/base/status.h"

enum {
    SB_ZIP_MAX_MEMBERS = 1 << 17,
    SB_ZIP_MAX_NAME = 1024,
    /* All compressed members together may unpack to TIMES the size of the archive plus MORE. */
    SB_ZIP_TIMES = 8,
    SB_ZIP_MORE = 1 << 20
};

typedef struct sb_zip sb_zip;

/* Reads and checks the whole directory. The bytes and `file`, which is for messages, must outlive
 * the archive. */
sb_status sb_zip_open(const unsigned char *bytes, size_t size, const char *file, sb_zip **out,
                      sb_error *err);
void sb_zip_close(void *zip); /* NULL is fine */

size_t sb_zip_count(const sb_zip *zip);
const char *sb_zip_name(const sb_zip *zip, size_t i); /* ascending, without duplicates */
int sb_zip_find(const sb_zip *zip, const char *name, size_t *out);

/* The bytes of a member, after a check of its checksum; they live as long as the archive. */
sb_status sb_zip_read(sb_zip *zip, size_t i, const unsigned char **bytes, size_t *size,
                      sb_error *err);

#endif
