/* scan_floor.h - packed integers with zero bits where words were never written. */
#ifndef SB_CHECK_SCAN_FLOOR_H
#define SB_CHECK_SCAN_FLOOR_H

#include "tools/check/scan/scan.h"

/* Check 21, "words of zeros": one panel of integers; adds to the panel's findings. */
void sb_scan_floor(const sb_panel *panel);

#endif
