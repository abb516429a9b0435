/* edit.h - faults in the files of a checkpoint: values of named tensors changed in place.
 *
 *   zero NAMES           fill NAMES X         add NAMES X         scale NAMES X     invert NAMES
 * (1/x) e4m3 NAMES, int4 NAMES: through FP8, through 4 bits per row, and back swap NAME NAME the
 * bytes of two tensors flip NAME BYTE BITS  clamp NAMES CODE     flush NAMES CODE    nibbles NAMES
 * (bytes of codes) rename PREFIX        the first letter of every name that begins so becomes x
 *
 * separated by "; ". NAMES as in sb_tap_matches. */
#ifndef SB_FAULT_EDIT_H
#define SB_FAULT_EDIT_H

#include "ref/base/status.h"

/* Every file of tensors in a folder. SB_ERR_USAGE if an edit meets no tensor. */
sb_status sb_edit_folder(const char *folder, const char *edits, sb_error *err);

#endif
