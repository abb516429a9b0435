/* torch.h - a file of torch.save: an archive with a pickle of its structure, and the data
 * (J-17). */
#ifndef SB_DUMP_TORCH_H
#define SB_DUMP_TORCH_H

#include "tools/dump/pickle.h"
#include "tools/dump/store.h"

typedef struct sb_torch sb_torch;

/* True if a path can be such a file: an archive with a pickle, or a file with such a name. */
int sb_torch_is(const char *path);

/* Opens a file; the store keeps it. */
sb_status sb_torch_open(sb_dump_store *store, const char *path, sb_torch **out, sb_error *err);

/* The same for bytes in memory. The bytes and the name must outlive the store. */
sb_status sb_torch_parse(sb_dump_store *store, const unsigned char *bytes, size_t size,
                         const char *file, sb_torch **out, sb_error *err);

const sb_pickle *sb_torch_tree(const sb_torch *torch);
const sb_pickle_node *sb_torch_root(const sb_torch *torch);

/* Adds the tensors in a node to the arrays of the store, with the number of their call. Keys of
 * dictionaries and indices of lists are appended to the name with dots. Skips everything that is no
 * tensor. */
sb_status sb_torch_add(const sb_torch *torch, const sb_pickle_node *node, const char *name,
                       size_t call, sb_dump_store *store, sb_error *err);

#endif
