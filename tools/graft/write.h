/* write.h - the files of a graft; for graft.c. */
#ifndef SB_GRAFT_WRITE_H
#define SB_GRAFT_WRITE_H

#include "tools/graft/graft.h"

/* What becomes of every file of tensors: fills files, total. */
sb_status sb_graft_files(sb_grafted *g, sb_error *err);

/* Links, rewrites and creates them in a folder that is made for them; the actions become what was
 * possible. */
sb_status sb_graft_write(sb_grafted *g, const sb_graft_options *options, const char *folder,
                         sb_error *err);

/* The index of the result, the last file of all. */
sb_status sb_graft_write_index(const sb_grafted *g, const char *folder, sb_error *err);

#endif
