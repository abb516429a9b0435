/* continued.h - a session that continues from a state file, and the ids of its whole sequence. */
#ifndef SB_CLI_CONTINUED_H
#define SB_CLI_CONTINUED_H

#include "ref/run/session.h"
#include "ref/run/state_file.h"

/* Moves the state of the file at `path` into a new session; *from has no state afterwards. */
sb_status sb_state_resume(sb_session *session, sb_state_file *from, const char *path,
                          const sb_state_origin *origin, sb_error *err);

/* A note that a run without a drafter leaves out the entries of one in the file. */
void sb_state_note_entries(const sb_state_file *from, const char *path);

/* The ids of a whole sequence: `before` ids fed before, from the state file (NULL: no file), and
 * `count` new ones. *out stays NULL if the file has no ids. The caller frees it. */
sb_status sb_state_join(const sb_state_file *from, uint64_t before, const uint32_t *ids,
                        size_t count, uint32_t **out, sb_error *err);

#endif
