/* special.h - faults of single incidents in an op (special.def), planted as those of op_faults.h
 * are.
 */
#ifndef SB_FAULT_SPECIAL_H
#define SB_FAULT_SPECIAL_H

#include "tools/fault/op_faults.h"

size_t sb_special_count(void);
const sb_op_fault *sb_special_at(size_t i);
const sb_op_fault *sb_special_find(const char *name); /* NULL: there is none of that name */

#endif
