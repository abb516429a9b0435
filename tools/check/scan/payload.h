/* payload.h - the pass over every byte: each unit once, in file order, on all threads. */
#ifndef SB_CHECK_PAYLOAD_H
#define SB_CHECK_PAYLOAD_H

#include "tools/check/read/check.h"

/* Fills digest and seen for all units of check->self, and for those units of the master that are
 * compared. Adds the findings of the scans in the order of the units. */
sb_status sb_check_payload(sb_check *check, sb_error *err);

#endif
