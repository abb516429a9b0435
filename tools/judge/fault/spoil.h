/* spoil.h - changes steps between the engine and the comparison: spoil.def. */
#ifndef SB_FAULT_SPOIL_H
#define SB_FAULT_SPOIL_H

#include "tools/judge/fault/trial.h"

/* The functions, one per row (spoil.c, spoil_site.c). */
#define SB_PLANTED(kind, where, by, with, words)                                                   \
    sb_status sb_spoil_##by(sb_spoiler *spoiler, sb_step *step);
#define SB_HARMLESS SB_PLANTED
#include "tools/judge/fault/lists/spoil.def"
#undef SB_PLANTED
#undef SB_HARMLESS

/* Frees the memory of a spoiler. */
void sb_spoiler_clear(sb_spoiler *spoiler);

#endif
