/* payload_parts.h - what the files of the payload pass share: payload.c orders the work,
 * payload_unit.c reads one unit, payload_rows.c the rows of a matrix. */
#ifndef SB_CHECK_PAYLOAD_PARTS_H
#define SB_CHECK_PAYLOAD_PARTS_H

#include "tools/check/check.h"
#include "tools/check/reader.h"

/* Slots of the reader: the parts of the unit, those of its original, and the codes of both. */
enum { OWN_SLOT = 0, MASTER_SLOT = SB_PART_COUNT, CODES_SLOT = 2 * SB_PART_COUNT };

/* What one thread works with. */
typedef struct sb_worker {
    sb_check *check;
    sb_reader *reader;
    double *scratch;
    size_t scratch_cols;
    uint64_t bytes;
} sb_worker;

sb_status sb_payload_no_memory(const char *name, sb_error *err);

/* Everything of one unit: what is seen, the digests, the findings of its pass. */
sb_status sb_read_unit(sb_worker *worker, sb_unit *unit, sb_findings *findings, sb_error *err);

/* Which part of a layer holds the byte; SB_PART_COUNT: none. */
sb_model_part sb_part_of(const sb_found *found, const unsigned char *byte);

/* Only rows that lie one after the other come in panels, of so many rows each. */
int sb_is_sliced(const sb_matrix *matrix);
uint64_t sb_row_bytes(const sb_matrix *matrix);
uint32_t sb_panel_rows(const sb_matrix *matrix);

/* Rows first .. first + rows - 1 of a matrix of a layer, in memory. name: for a message. */
sb_status sb_fetch_rows(sb_worker *worker, const sb_checkpoint *checkpoint, const char *name,
                        const sb_found *found, const sb_matrix *whole, uint32_t first,
                        uint32_t rows, unsigned slot, sb_matrix *out, sb_error *err);

#endif
