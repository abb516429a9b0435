/* payload.h - the pass over every byte: each unit once, in the order of the files, on all threads.
 */
#ifndef SB_CHECK_PAYLOAD_H
#define SB_CHECK_PAYLOAD_H

#include "tools/check/check.h"

/* Fills digest and seen of all units of check->self, and of the master's where they are compared,
 * and adds the findings of the scans in the order of the units. */
sb_status sb_check_payload(sb_check *check, sb_error *err);

#endif
