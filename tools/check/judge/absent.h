/* absent.h - check 4: modules that the configuration implies and that are not there. */
#ifndef SB_CHECK_ABSENT_H
#define SB_CHECK_ABSENT_H

#include "tools/check/scan/group.h"

void sb_tell_absent(sb_check *check, sb_groups *groups);

#endif
