/* plant.h - what planted op faults remember from call to call. */
#ifndef SB_FAULT_PLANT_H
#define SB_FAULT_PLANT_H

#include "ref/ops/values.h"
#include "tools/fault/op_faults.h"

/* The last row of an output becomes the row before it: of the same call, or of the call before. */
sb_status sb_plant_stale(sb_plant *plant, const sb_op_call *call, size_t output,
                         const sb_op_value *value);

#endif
