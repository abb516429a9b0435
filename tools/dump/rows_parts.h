/* rows_parts.h - inside of sb_dump_rows; for rows.c, rows_calls.c and rows_play.c. */
#ifndef SB_DUMP_ROWS_PARTS_H
#define SB_DUMP_ROWS_PARTS_H

#include "tools/dump/map.h"
#include "tools/dump/rows.h"
#include "tools/trace/names.h"

/* J-12: whose the entries of an array are. */
typedef enum sb_dump_axis {
    SB_DUMP_OF_ROWS,    /* all rows of the call */
    SB_DUMP_OF_ENTRIES, /* those of the MTP head: one less where a sequence begins */
    SB_DUMP_OF_LAST     /* the last row of each sequence */
} sb_dump_axis;

typedef struct sb_dump_item {
    const sb_dump_array *array;
    sb_dump_named named;
    sb_dtype dtype; /* of the file, or of the map */
    sb_tap_name tap;
    int is_logits, is_ids; /* one of those that logits_rows counts; whole numbers */
    sb_dump_axis axis;
    size_t cols;
} sb_dump_item;

/* Rows of one sequence in a call. */
typedef struct sb_dump_span {
    uint32_t sequence;
    uint64_t position;
    size_t row, entry, count; /* the first in the arrays of the call */
    const uint32_t *ids;      /* (count) */
} sb_dump_span;

typedef struct sb_dump_call {
    const sb_dump_item *items; /* those of this call, one behind the other */
    size_t item_count;
    const sb_dump_item *tokens, *positions; /* NULL: it has none */
    size_t unknown;
    const char *first_unknown;
    const sb_dump_span *spans;
    size_t span_count, rows, entries;
    uint64_t each; /* rows of every span, 0 if they differ */
} sb_dump_call;

struct sb_dump_rows {
    const char *file;
    const sb_dump_options *options;
    sb_dump_map *map;
    sb_dump_item *items; /* (item_count) in the order of the calls */
    sb_dump_call *calls;
    sb_dump_span *spans;
    uint32_t *ids;
    size_t item_count, call_count, span_count, id_count;
    uint32_t vocab_size; /* 0: not known */
};

/* Fills calls, spans and ids from items that have their names. */
sb_status sb_dump_rows_calls(sb_dump_rows *rows, sb_error *err);

#endif
