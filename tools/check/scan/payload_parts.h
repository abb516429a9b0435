/* payload_parts.h - shared by the files of the payload pass: payload.c orders the work,
 * payload_unit.c reads one unit, payload_rows.c the rows of a matrix. */
#ifndef SB_CHECK_PAYLOAD_PARTS_H
#define SB_CHECK_PAYLOAD_PARTS_H

#include "tools/check/read/check.h"
#include "tools/check/read/reader.h"
#include "tools/check/scan/scan.h"

/* Slots of the reader: the parts of the unit, those of its original, and the codes of both. */
enum { OWN_SLOT = 0, MASTER_SLOT = SB_PART_COUNT, CODES_SLOT = 2 * SB_PART_COUNT };
/* The codes of the two sides take two slots. */
enum { OTHER_SLOT = CODES_SLOT + 2 };

/* The state of one thread. */
typedef struct sb_worker {
    sb_check *check;
    sb_reader *reader;
    double *scratch;
    size_t scratch_cols;
    unsigned char *columns; /* scratch_cols bytes for scan_columns.h */
    uint64_t bytes;
} sb_worker;

sb_status sb_payload_no_memory(const char *name, sb_error *err);

/* Reads one unit completely: its seen, its digests, and the findings of its pass. */
sb_status sb_read_unit(sb_worker *worker, sb_unit *unit, sb_findings *findings, sb_error *err);

/* The part of a layer that contains the byte; SB_PART_COUNT: none. */
sb_model_part sb_part_of(const sb_found *found, const unsigned char *byte);

/* 1 if the matrix is read in panels of sb_panel_rows rows each, because its rows follow each other
 * in memory. Other matrices come as one panel. */
int sb_is_sliced(const sb_matrix *matrix);
uint64_t sb_row_bytes(const sb_matrix *matrix);
uint32_t sb_panel_rows(const sb_matrix *matrix);

/* Rows first .. first + rows - 1 of a layer's matrix, in memory. name: for messages. */
sb_status sb_fetch_rows(sb_worker *worker, const sb_checkpoint *checkpoint, const char *name,
                        const sb_found *found, const sb_matrix *whole, uint32_t first,
                        uint32_t rows, unsigned slot, sb_matrix *out, sb_error *err);

/* --- payload_same.c: comparison with a quantized original ------------------------------------- */

/* 1 if the bytes of a part mean the same on both sides, so that they can be compared. */
int sb_same_part(const sb_unit *unit, const sb_unit *master, unsigned part);

/* Compares count bytes of a part, from its byte `at` on, in elements of `bits` bits. */
sb_status sb_same_bytes(sb_unit *unit, unsigned part, unsigned bits, uint64_t at,
                        const unsigned char *own, const unsigned char *other, uint64_t count,
                        sb_error *err);

/* 1 if values can be equal at all: both sides FP4, both FP8, or both integers. */
int sb_same_family(const sb_matrix *a, const sb_matrix *b);

/* sb_same_values compares the values of a panel, without global scales; sb_same_factors compares
 * the global scales, and those of inputs. */
sb_status sb_same_values(const sb_panel *panel, sb_unit *unit, uint32_t piece, sb_error *err);
sb_status sb_same_factors(sb_unit *unit, const sb_quant *own, const sb_quant *other, sb_error *err);

#endif
