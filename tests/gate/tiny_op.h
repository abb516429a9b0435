/* tiny_op.h - an op for tests of what cases are made of: rows scaled by a weight, and the place of
 * the largest element of each row. */
#ifndef SB_TESTS_GATE_TINY_OP_H
#define SB_TESTS_GATE_TINY_OP_H

#include "tools/gate/gate.h"

const sb_gate_op *tiny_op(void);

/* The same by its name, for readers of files. */
const sb_gate_op *tiny_find(const char *name);

#endif
