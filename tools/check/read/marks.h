/* marks.h - check 13: keys of the rows, pages and sectors of a tensor, taken while its bytes are
 * read.
 *
 * A key is made of the first 64 bytes. Equal keys only show where to look: repeats.c compares the
 * bytes. */
#ifndef SB_CHECK_MARKS_H
#define SB_CHECK_MARKS_H

#include <stddef.h>
#include <stdint.h>

#include "ref/container/safetensors.h"

/* What starts at a mark. V-13: "rows of at least 64 bytes", "pages of 4 KiB of the file",
 * "stretches of 512 bytes of scales and zero points". */
typedef enum sb_grid { SB_GRID_row, SB_GRID_page, SB_GRID_sector, SB_GRIDS } sb_grid;

enum { SB_MARK_KEY = 64 };

/* Kept small: a checkpoint may have millions. */
typedef struct sb_mark {
    uint64_t key;
    uint64_t place; /* position in the tensor, part of the unit, and grid: decoded below */
} sb_mark;

static inline uint64_t sb_mark_at(const sb_mark *mark)
{
    return mark->place >> 16;
}

static inline unsigned sb_mark_part(const sb_mark *mark)
{
    return mark->place >> 8 & 0xff;
}

static inline sb_grid sb_mark_grid(const sb_mark *mark)
{
    return (sb_grid)(mark->place & 0xff);
}

/* Equal for marks with equal keys on the same grid. */
static inline uint64_t sb_mark_kind(const sb_mark *mark)
{
    return mark->key ^ (uint64_t)sb_mark_grid(mark) << 40;
}

typedef struct sb_mark_list {
    sb_mark *rows;
    size_t count, room;
} sb_mark_list;

typedef struct sb_mark_line {
    uint64_t next, step, last; /* the next mark, and the last possible one */
    unsigned have;             /* bytes in `held` */
    unsigned char held[SB_MARK_KEY];
} sb_mark_line;

/* State of one tensor while it is read. */
typedef struct sb_mark_scan {
    sb_mark_list *list;
    uint64_t at;   /* position of the next byte */
    uint64_t mask; /* V-13: "only parts whose key has a certain number of zero bits are compared" */
    uint8_t part;
    int lost; /* memory ran out */
    sb_mark_line lines[SB_GRIDS];
} sb_mark_scan;

/* Bytes of a row of the last dimension; 0: not a whole number of bytes, or no rows. */
uint64_t sb_tensor_row(const sb_tensor *tensor);

/* The number of bytes that a mark of the tensor stands for. */
uint64_t sb_mark_size(const sb_tensor *tensor, sb_grid grid);

/* An upper bound for the number of marks of a tensor. */
uint64_t sb_mark_most(const sb_tensor *tensor);

/* The mask for this number of marks in total. */
uint64_t sb_mark_mask(uint64_t marks);

/* offset: of the tensor in its file. scales: whether it has sectors, too. */
void sb_mark_begin(sb_mark_scan *scan, sb_mark_list *list, const sb_tensor *tensor, unsigned part,
                   int scales, uint64_t offset, uint64_t mask);
void sb_mark_bytes(sb_mark_scan *scan, const unsigned char *bytes, size_t count);

#endif
