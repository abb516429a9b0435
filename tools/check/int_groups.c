#include "tools/check/check.h"

void sb_check_int_groups(sb_check *check)
{
    (void)check;
}
