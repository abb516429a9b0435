/* payload_parts.h - what the files of the payload pass share: payload.c orders the work,
 * payload_unit.c reads one unit, payload_rows.c the rows of a matrix. */
#ifndef SB_CHECK_PAYLOAD_PARTS_H
#define SB_CHECK_PAYLOAD_PARTS_H

#include "tools/check/check.h"
#include "tools/check/reader.h"
#include "tools/check/scan.h"

/* Slots of the reader: the parts of the unit, those of its original, and the codes of both. */
enum { OWN_SLOT = 0, MASTER_SLOT = SB_PART_COUNT, CODES_SLOT = 2 * SB_PART_COUNT };
/* The codes of both sides are two slots. */
enum { OTHER_SLOT = CODES_SLOT + 2 };

/* What one thread works with. */
typedef struct sb_worker {
    sb_check *check;
    sb_reader *reader;
    double *scratch;
    size_t scratch_cols;
    unsigned char *columns; /* scratch_cols bytes, of scan_columns.h */
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

/* --- payload_same.c: beside a quantized original ------------------------------------------------
 */

/* Whether the bytes of a part mean the same on both sides, and can be compared. */
int sb_same_part(const sb_unit *unit, const sb_unit *master, unsigned part);

/* So many bytes of a part, from byte `at` of it on, in elements of so many bits. */
sb_status sb_same_bytes(sb_unit *unit, unsigned part, unsigned bits, uint64_t at,
                        const unsigned char *own, const unsigned char *other, uint64_t count,
                        sb_error *err);

/* Whether values can be equal at all: both FP4, both FP8, or both integers. */
int sb_same_family(const sb_matrix *a, const sb_matrix *b);

/* The values of a panel, without global scales; these, and those of inputs. */
sb_status sb_same_values(const sb_panel *panel, sb_unit *unit, uint32_t piece, sb_error *err);
sb_status sb_same_factors(sb_unit *unit, const sb_quant *own, const sb_quant *other, sb_error *err);

#endif
