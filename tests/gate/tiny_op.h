/* tiny_op.h - a small op for the tests of cases: adds a weight to rows, and finds the index of the
 * largest element of each row. */
#ifndef SB_TESTS_GATE_TINY_OP_H
#define SB_TESTS_GATE_TINY_OP_H

#include "tools/judge/gate/gate.h"

const sb_gate_op *tiny_op(void);

/* The op by its name, for readers of files. */
const sb_gate_op *tiny_find(const char *name);

#endif
