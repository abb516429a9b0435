/* rows.h - arrays to steps: the tap of each array, and the rows of its axis 0 (J-2, J-12). */
#ifndef SB_DUMP_ROWS_H
#define SB_DUMP_ROWS_H

#include "tools/dump/arrays.h"
#include "tools/dump/dump.h"

typedef struct sb_dump_rows sb_dump_rows;

/* Reads names, shapes, types and token ids of all arrays, which must outlive *out; `file` names the
 * whole dump. */
sb_status sb_dump_rows_new(const sb_dump_arrays *arrays, const char *file,
                           const sb_dump_options *options, sb_trace_head *head, sb_dump_rows **out,
                           sb_error *err);
sb_status sb_dump_rows_play(const sb_dump_rows *rows, sb_step_fn take, void *ctx, sb_error *err);
void sb_dump_rows_free(sb_dump_rows *rows); /* NULL is fine */

#endif
