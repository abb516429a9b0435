/* rows_parts.h - inside of sb_dump_rows; for rows.c, rows_calls.c and rows_play.c. */
#ifndef SB_DUMP_ROWS_PARTS_H
#define SB_DUMP_ROWS_PARTS_H

#include "tools/dump/map.h"
#include "tools/dump/rows.h"
#include "tools/judge/trace/names.h"

/* J-12: the meaning of an array's axis 0. */
typedef enum sb_dump_axis {
    SB_DUMP_OF_ROWS,    /* all rows of the call */
    SB_DUMP_OF_ENTRIES, /* entries of the MTP head: one fewer at the start of a sequence */
    SB_DUMP_OF_LAST     /* the last row of each sequence */
} sb_dump_axis;

typedef struct sb_dump_item {
    const sb_dump_array *array;
    sb_dump_named named;
    sb_dtype dtype; /* from the file, or from the map */
    sb_tap_name tap;
    int is_logits, is_ids; /* has the rows of logits_rows; has whole numbers */
    sb_dump_axis axis;
    size_t cols;
} sb_dump_item;

/* Rows of one sequence in a call. */
typedef struct sb_dump_span {
    uint32_t sequence;
    uint64_t position;
    size_t row, entry, count; /* row, entry: the first in the arrays of the call */
    const uint32_t *ids;      /* (count) */
} sb_dump_span;

typedef struct sb_dump_call {
    const sb_dump_item *items; /* the consecutive items of this call */
    size_t item_count;
    const sb_dump_item *tokens, *positions; /* NULL: none */
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
    uint32_t vocab_size; /* 0: unknown */
};

/* Fills in calls, spans and ids from items with known names. */
sb_status sb_dump_rows_calls(sb_dump_rows *rows, sb_error *err);

#endif
