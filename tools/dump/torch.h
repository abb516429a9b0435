/* torch.h - a file of torch.save: an archive with a pickle of what is in it, and the data (J-17).
 */
#ifndef SB_DUMP_TORCH_H
#define SB_DUMP_TORCH_H

#include "tools/dump/pickle.h"
#include "tools/dump/store.h"

typedef struct sb_torch sb_torch;

/* Whether a path can be one: an archive with a pickle, or a file with the name of one. */
int sb_torch_is(const char *path);

/* Opens a file, which the store keeps. */
sb_status sb_torch_open(sb_dump_store *store, const char *path, sb_torch **out, sb_error *err);

/* The same of bytes in memory, which must outlive the store, as must the name. */
sb_status sb_torch_parse(sb_dump_store *store, const unsigned char *bytes, size_t size,
                         const char *file, sb_torch **out, sb_error *err);

const sb_pickle *sb_torch_tree(const sb_torch *torch);
const sb_pickle_node *sb_torch_root(const sb_torch *torch);

/* Adds the tensors in a node to the arrays of the store, as seen in a call. Keys of dictionaries
 * and places in lists are joined to the name with dots; what is no tensor is passed over. */
sb_status sb_torch_add(const sb_torch *torch, const sb_pickle_node *node, const char *name,
                       size_t call, sb_dump_store *store, sb_error *err);

#endif
