/* device_round.h - speculation rounds on a device, run as in a loop, and the plain steps to compare
 * them with.
 *
 * B-20: "k drafts of the MTP head, a verify of k + 1 rows, and keeping the right rows" */
#ifndef SB_BENCH_DEVICE_ROUND_H
#define SB_BENCH_DEVICE_ROUND_H

#include "tools/bench/device.h"

/* Fills in out->plain and out->round. The model must have an MTP head. */
sb_status sb_device_rounds(const sb_device_options *options, const sb_model *model,
                           sb_device_report *out, sb_error *err);

#endif
