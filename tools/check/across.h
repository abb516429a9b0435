/* across.h - what the checks that compare units have in common. */
#ifndef SB_CHECK_ACROSS_H
#define SB_CHECK_ACROSS_H

#include "tools/check/check.h"

/* Whether seen of the unit was filled by sb_scan_plain: floats without scales. */
int sb_unit_is_plain(const sb_unit *unit);

/* "expert 5 up_proj, row 3, column 17 (byte 123456 of model.safetensors)": element of piece `piece`
 * of a plain unit. Returns room->text. */
typedef struct sb_spot_room {
    char text[400];
} sb_spot_room;
const char *sb_spot_text(const sb_check *check, const sb_unit *unit, size_t piece, sb_spot spot,
                         sb_spot_room *room);

/* Members by kind: what is the same matrix in another layer or expert. */
typedef struct sb_kin {
    const sb_member *member;
    char kind[64]; /* "mlp.experts.gate_proj"; with "mtp." before it if the head is apart */
} sb_kin;

/* All members whose bytes were read, sorted by kind and name; NULL if memory is out (which the
 * findings remember) or there are none. To be freed. head_apart: matrices of the MTP head are kinds
 * of their own. */
sb_kin *sb_kin_make(sb_check *check, int head_apart, size_t *count);

/* One past the last row of the kind that begins at first. */
size_t sb_kin_end(const sb_kin *kin, size_t count, size_t first);

/* The median; sorts the values. 0 of none. */
double sb_median(double *values, size_t count);

/* Square root of a number >= 0, of the accuracy of a binary32: for messages. */
double sb_root(double x);

/* All values of a tensor of floats, read in place; NULL if it holds none or memory is out. */
float *sb_floats_of(const sb_tensor *tensor, uint64_t *count);

#endif
