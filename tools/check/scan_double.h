/* scan_double.h - values that went through a narrower format before: too few different ones. */
#ifndef SB_CHECK_SCAN_DOUBLE_H
#define SB_CHECK_SCAN_DOUBLE_H

#include "tools/check/scan.h"

/* 40, of a panel of a plain matrix. */
void sb_scan_double(const sb_panel *panel);

#endif
