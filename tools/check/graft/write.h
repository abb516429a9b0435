/* write.h - writes the files of a graft; for graft.c. */
#ifndef SB_GRAFT_WRITE_H
#define SB_GRAFT_WRITE_H

#include "tools/check/graft/graft.h"

/* Plans every file of tensors: fills files and total. */
sb_status sb_graft_files(sb_grafted *g, sb_error *err);

/* Links, rewrites and creates the files in a new folder; sets the actions to what was possible. */
sb_status sb_graft_write(sb_grafted *g, const sb_graft_options *options, const char *folder,
                         sb_error *err);

/* Writes the index of the result. Call last. */
sb_status sb_graft_write_index(const sb_grafted *g, const char *folder, sb_error *err);

#endif
