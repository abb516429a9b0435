#include "tools/check/scan.h"

void sb_scan_int(const sb_panel *panel)
{
    (void)panel;
}
