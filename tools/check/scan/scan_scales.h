/* scan_scales.h - block scales that differ from the other scales of their row and of their
 * column. */
#ifndef SB_CHECK_SCAN_SCALES_H
#define SB_CHECK_SCAN_SCALES_H

#include "tools/check/scan/scan.h"

/* V-154: one panel of a quantized matrix. Fills seen->lone; scales of zero are findings of the
 * panel. */
void sb_scan_scales(const sb_panel *panel);

/* A part of check 54: judges all matrices together. */
void sb_check_lone_scales(sb_check *check);

/* The name of the tensor with the block scales. */
const char *sb_scale_name(const sb_unit *unit);

#endif
