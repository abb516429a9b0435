/* plant.h - the memory of planted op faults from call to call. */
#ifndef SB_FAULT_PLANT_H
#define SB_FAULT_PLANT_H

#include "ref/ops/values.h"
#include "tools/judge/fault/op_faults.h"

/* Replaces the last row of an output by the row before it, in the same call or in the previous one.
 */
sb_status sb_plant_stale(sb_plant *plant, const sb_op_call *call, size_t output,
                         const sb_op_value *value);

#endif
