/* map.h - a file mapped read-only. */
#ifndef SB_CONTAINER_MAP_H
#define SB_CONTAINER_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "ref/base/status.h"

/* data is never NULL; a file of 0 bytes has size 0. The file must not shrink while it is mapped:
 * no program that maps a file can survive that. */
typedef struct sb_map {
    const unsigned char *data;
    size_t size;
} sb_map;

/* Maps a regular file; a symbolic link is followed. SB_ERR_IO, naming the path, on failure. */
sb_status sb_map_open(const char *path, sb_map *out, sb_error *err);
void sb_map_close(sb_map *map);

/* What a caller knows of pages that it will or will not read; never more than advice. */
typedef enum sb_pages {
    SB_PAGES_soon,  /* soon: reading may begin */
    SB_PAGES_large, /* all of them, again and again: if the system has larger pages for files, what
                       is not in memory yet may be read in those */
    SB_PAGES_usual, /* no longer so */
    SB_PAGES_done   /* not for long: they leave this process, and come back when touched */
} sb_pages;

/* The pages of some bytes of a mapping. Bytes that no file backs must not be among them. */
void sb_map_advise(const unsigned char *from, uint64_t bytes, sb_pages what);

#endif
