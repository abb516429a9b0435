/* scan_fit.h - do the codes of a matrix match its scales and zero points? */
#ifndef SB_CHECK_SCAN_FIT_H
#define SB_CHECK_SCAN_FIT_H

#include "tools/check/scan/scan.h"

/* V-155: adds one panel of a quantized matrix to seen->fit. */
void sb_scan_fit(const sb_panel *panel);

#endif
