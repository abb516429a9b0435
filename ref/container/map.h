/* map.h - a file mapped read-only. */
#ifndef SB_CONTAINER_MAP_H
#define SB_CONTAINER_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "ref/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* data is never NULL; a file of 0 bytes has size 0. The file must not shrink while it is mapped:
 * access to the lost pages would kill the process. */
typedef struct sb_map {
    const unsigned char *data;
    size_t size;
} sb_map;

/* Maps a regular file; a symbolic link is followed. Fails with SB_ERR_IO and the path in the
 * message. */
sb_status sb_map_open(const char *path, sb_map *out, sb_error *err);
void sb_map_close(sb_map *map);

/* Advice about pages that the caller will or will not read. Never required for correctness. */
typedef enum sb_pages {
    SB_PAGES_soon,  /* needed soon: reading may begin */
    SB_PAGES_large, /* all pages are needed again and again; pages that are not yet in memory may be
                       read as large pages, if the system has these for files */
    SB_PAGES_usual, /* ends SB_PAGES_large */
    SB_PAGES_done   /* not needed for a long time: the pages leave this process and are read again
                       when touched */
} sb_pages;

/* Gives advice about the pages of some bytes of a mapping. All of these bytes must belong to the
 * file. */
void sb_map_advise(const unsigned char *from, uint64_t bytes, sb_pages what);

#ifdef __cplusplus
}
#endif

#endif
