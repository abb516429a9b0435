/* edit.h - faults in the files of a checkpoint: values of named tensors changed in place.
 *
 *   zero NAMES    fill NAMES X    add NAMES X    scale NAMES X
 *   invert NAMES                                     1 / x
 *   e4m3 NAMES    int4 NAMES                         to FP8, or to 4 bits per row, and back
 *   swap NAME NAME                                   the bytes of two tensors
 *   flip NAME BYTE BITS
 *   alike NAMES                                      further rows: first row + 1/4 of themselves
 *   clamp NAMES CODE    flush NAMES CODE    nibbles NAMES    (bytes of codes)
 *   rename PREFIX     the first letter of every name with this prefix becomes x
 *
 * Edits are separated by "; ". NAMES are patterns as in sb_tap_matches. */
#ifndef SB_FAULT_EDIT_H
#define SB_FAULT_EDIT_H

#include "ref/base/status.h"

/* Edits all tensor files of a folder. SB_ERR_USAGE if an edit matches no tensor. */
sb_status sb_edit_folder(const char *folder, const char *edits, sb_error *err);

#endif
