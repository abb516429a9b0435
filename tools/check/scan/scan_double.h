/* scan_double.h - values that went through a narrower format before: too few distinct ones. */
#ifndef SB_CHECK_SCAN_DOUBLE_H
#define SB_CHECK_SCAN_DOUBLE_H

#include "tools/check/scan/scan.h"

/* Check 40 for a panel of a plain matrix. */
void sb_scan_double(const sb_panel *panel);

#endif
