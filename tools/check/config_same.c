/* config_same.c - the configuration against the original's. */
#include "tools/check/check.h"

void sb_check_config_same(sb_check *check)
{
    (void)check;
}
