/* magnitudes.c - sizes of vectors and convolutions. */
#include "tools/check/check.h"

void sb_check_magnitudes(sb_check *check)
{
    (void)check;
}
