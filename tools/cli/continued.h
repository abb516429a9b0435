/* continued.h - a session that goes on where a state file left off, and what it feeds behind it. */
#ifndef SB_CLI_CONTINUED_H
#define SB_CLI_CONTINUED_H

#include "ref/run/session.h"
#include "ref/run/state_file.h"

/* Puts a new session where the file at `path` left off; the file has no state afterwards. */
sb_status sb_state_resume(sb_session *session, sb_state_file *from, const char *path,
                          const sb_state_origin *origin, sb_error *err);

/* The ids of a whole sequence: the `before` ones that a file says were fed (NULL: there was none),
 * and `count` new ones. *out stays NULL where the file does not say; free releases it. */
sb_status sb_state_join(const sb_state_file *from, uint64_t before, const uint32_t *ids,
                        size_t count, uint32_t **out, sb_error *err);

#endif
