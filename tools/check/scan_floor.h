/* scan_floor.h - packed integers whose bits are zero where words were not written. */
#ifndef SB_CHECK_SCAN_FLOOR_H
#define SB_CHECK_SCAN_FLOOR_H

#include "tools/check/scan.h"

/* Check 21, "words of zeros": one panel of integers; findings go to the panel's. */
void sb_scan_floor(const sb_panel *panel);

#endif
