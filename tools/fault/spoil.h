/* spoil.h - steps changed behind the engine and before the comparison: spoil.def. */
#ifndef SB_FAULT_SPOIL_H
#define SB_FAULT_SPOIL_H

#include "tools/fault/trial.h"

/* Releases what a spoiler remembers. */
void sb_spoiler_clear(sb_spoiler *spoiler);

#endif
