#include "tools/check/scan.h"

void sb_scan_plain(const sb_panel *panel)
{
    (void)panel;
}
