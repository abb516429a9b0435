/* zero_pages.c - runs of zeros that end at pages of the file. */
#include "tools/check/check.h"

void sb_check_zero_pages(sb_check *check)
{
    (void)check;
}
