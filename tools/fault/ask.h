/* ask.h - which checks of `samebit check` find something in a folder. */
#ifndef SB_FAULT_ASK_H
#define SB_FAULT_ASK_H

#include "ref/base/status.h"

/* Calls `found` with the id of each check that warns, or says worse ("fp4-global"); a check may
 * come several times. SB_ERR_IO: a file of the folder is there and cannot be read, which is no
 * fault that anybody planted. */
sb_status sb_ask_check(const char *folder, void (*found)(void *ctx, const char *check), void *ctx,
                       sb_error *err);

#endif
