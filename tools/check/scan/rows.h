/* rows.h - shared by the scans of FP8 and integers and by their judgements. */
#ifndef SB_CHECK_ROWS_H
#define SB_CHECK_ROWS_H

#include "tools/check/read/places.h"
#include "tools/check/scan/scan.h"

/* The original's values of a row of the panel, in the first half of panel->scratch; NULL: no
 * original. Exact for a plain original, else rounded to binary32. */
const float *sb_master_row(const sb_panel *panel, uint32_t row);

/* Decodes values of a plain format, with a fast path for BF16. */
void sb_plain_decode(sb_format format, const unsigned char *bytes, size_t count, float *values);

/* Decodes columns first .. first + count - 1 of a row of a plain matrix. */
void sb_plain_values(const sb_matrix *matrix, uint32_t row, uint32_t first, uint32_t count,
                     float *values);

/* error / master of a distance, not squared; 0 if the original is 0. */
double sb_distance_ratio(const sb_distance *distance);

/* Describes the first places of a member: "row 17, column 300 (byte 0xff at 0x1a2b of
 * model-00001-of-00002.safetensors); row ...". `byte` returns the byte of the mapped file where an
 * element starts. */
typedef struct sb_places_text {
    char text[640];
} sb_places_text;

typedef const unsigned char *(*sb_byte_fn)(const sb_matrix *matrix, uint32_t row, uint32_t col);

const char *sb_show_places(const sb_check *check, const sb_member *member, const sb_places *places,
                           sb_byte_fn byte, unsigned bytes, sb_places_text *room);

/* Two such functions: for the code of an element, and for its scale. */
const unsigned char *sb_code_byte(const sb_matrix *matrix, uint32_t row, uint32_t col);
const unsigned char *sb_scale_byte(const sb_matrix *matrix, uint32_t row, uint32_t col);

/* The beginning of a finding's text: "NAME: " for a piece of a stack, because the finding names the
 * tensor of the whole stack; else "". */
typedef struct sb_piece_text {
    char text[288];
} sb_piece_text;

const char *sb_piece_prefix(const sb_member *member, sb_piece_text *room);
#define SB_PIECE(member) sb_piece_prefix((member), &(sb_piece_text){{0}})

/* The name of the tensor that contains this byte; if there is none, of the tensor with the
 * codes. */
const char *sb_tensor_with(const sb_member *member, const unsigned char *byte);

#endif
