/* fused.h - layers whose weights engines fuse, by the last part of their names. */
#ifndef SB_CHECK_FUSED_H
#define SB_CHECK_FUSED_H

enum { SB_FUSED_SETS = 4, SB_FUSED_MOST = 3 };

/* NULL behind the last name of a set. */
extern const char *const sb_fused_sets[SB_FUSED_SETS][SB_FUSED_MOST];

#endif
