/* spoil.h - steps changed behind the engine and before the comparison: spoil.def. */
#ifndef SB_FAULT_SPOIL_H
#define SB_FAULT_SPOIL_H

#include "tools/fault/trial.h"

/* Sets *out up; SB_ERR_USAGE if there is none of that name. sb_spoiler_clear afterwards. */
sb_status sb_spoiler_new(const char *name, sb_spoiler *out, sb_error *err);
void sb_spoiler_clear(sb_spoiler *spoiler);

#endif
