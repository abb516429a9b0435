#include "tools/check/check.h"

void sb_check_duplicates(sb_check *check)
{
    (void)check;
}

void sb_check_untouched(sb_check *check)
{
    (void)check;
}

void sb_check_dead(sb_check *check)
{
    (void)check;
}

void sb_check_statistics(sb_check *check)
{
    (void)check;
}

void sb_check_experts(sb_check *check)
{
    (void)check;
}

void sb_check_conventions(sb_check *check)
{
    (void)check;
}

void sb_check_kv_scales(sb_check *check)
{
    (void)check;
}
