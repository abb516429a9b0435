/* ask.h - asks which checks of `samebit check` report findings for a folder. */
#ifndef SB_FAULT_ASK_H
#define SB_FAULT_ASK_H

#include "ref/base/status.h"

/* Calls `found` with the id ("fp4-global") of each check with a finding of WARN or worse, possibly
 * several times per check. SB_ERR_IO: a file cannot be read, which is no planted fault. */
sb_status sb_ask_check(const char *folder, void (*found)(void *ctx, const char *check), void *ctx,
                       sb_error *err);

#endif
