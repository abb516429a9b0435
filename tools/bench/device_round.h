/* device_round.h - rounds of speculation on a device, as a loop of them would run, and the plain
 * steps that they are held against.
 *
 * B-20: "k drafts of the MTP head, a verify of k + 1 rows, and what is right of them is kept" */
#ifndef SB_BENCH_DEVICE_ROUND_H
#define SB_BENCH_DEVICE_ROUND_H

#include "tools/bench/device.h"

/* Into out->plain and out->round. The model has an MTP head. */
sb_status sb_device_rounds(const sb_device_options *options, const sb_model *model,
                           sb_device_report *out, sb_error *err);

#endif
