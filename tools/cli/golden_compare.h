/* golden_compare.h - compares a recorded run with its repetition: G-4. */
#ifndef SB_CLI_GOLDEN_COMPARE_H
#define SB_CLI_GOLDEN_COMPARE_H

#include <jansson.h>

#include "ref/base/status.h"

/* Two golden documents of one request. SB_ERR_DIFF names the sequence and the first position or
 * round that differs. SB_ERR_INPUT: the recorded document cannot be compared. */
sb_status sb_golden_compare(const json_t *was, const json_t *is, sb_error *err);

#endif
