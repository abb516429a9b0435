/* side_files.c - tokenizer, generation settings, leftovers of downloads. */
#include "tools/check/check.h"

void sb_check_side_files(sb_check *check)
{
    (void)check;
}
