/* across.h - shared by the checks that compare units. */
#ifndef SB_CHECK_ACROSS_H
#define SB_CHECK_ACROSS_H

#include "tools/check/read/check.h"

/* 1 if sb_scan_plain filled seen of the unit: floats without scales. */
int sb_unit_is_plain(const sb_unit *unit);

/* V-42: "has the values of the original, or is near it": then its statistics are no fault of this
 * checkpoint. */
int sb_values_known(const sb_unit *unit, const sb_seen *seen);

/* Describes an element of piece `piece` of a plain unit: "expert 5 up_proj, row 3, column 17 (byte
 * 123456 of model.safetensors)". Returns room->text. */
typedef struct sb_spot_buffer {
    char text[400];
} sb_spot_buffer;
const char *sb_spot_text(const sb_check *check, const sb_unit *unit, size_t piece, sb_spot spot,
                         sb_spot_buffer *room);

/* A member and its kind. Members of one kind are the same matrix of other layers or experts. */
typedef struct sb_kin {
    const sb_member *member;
    /* "mlp.experts.gate_proj"; with "mtp." before it if the head is a kind of its own */
    char kind[64];
} sb_kin;

/* All members whose bytes were read, sorted by kind and name. NULL if there are none, or if memory
 * runs out (then the findings record it). The caller frees the list. head_apart: matrices of the
 * MTP head are kinds of their own. */
sb_kin *sb_kin_make(sb_check *check, int head_apart, size_t *count);

/* One past the last row of the kind that begins at first. */
size_t sb_kin_end(const sb_kin *kin, size_t count, size_t first);

/* The median; sorts the values. 0 if there are none. */
double sb_median(double *values, size_t count);

/* Square root of a number >= 0, accurate to binary32. For messages. */
double sb_root(double x);

/* All values of a tensor of floats, read from the mapped file; NULL if the tensor is not of floats
 * or memory ran out. */
float *sb_floats_of(const sb_tensor *tensor, uint64_t *count);

#endif
