/* sparse.h - checkpoints of any size that take no disk space: headers, index and config.json are
 * real, but the data is a hole in the file, which reads as zeros.
 *
 * They suit programs that read only headers. Every function asserts success. A folder is made if it
 * is absent. Folders from test_path are removed at the end of the program. */
#ifndef SB_TESTS_LIB_SPARSE_H
#define SB_TESTS_LIB_SPARSE_H

#include "ref/container/dtype.h"
#include "ref/model/names.h"
#include "tools/make/make.h"
#include "tools/make/scheme.h"

/* A folder made tensor by tensor, in shards of at most shard_bytes bytes of data (0: one shard).
 * save writes the folder and frees this object; config is the text of config.json, or NULL for
 * none. */
typedef struct sb_writer test_sparse;
test_sparse *test_sparse_new(const char *folder, uint64_t shard_bytes);
void test_sparse_add(test_sparse *sparse, const char *name, sb_dtype dtype, unsigned rank,
                     const uint64_t *shape);
void test_sparse_save(test_sparse *sparse, const char *config);

/* The folder that `samebit make` writes with these options; its headers have the same bytes. */
void test_sparse_make(const sb_make_options *options);

/* A model of a preset. `choose` gives the scheme of each weight; the layer is numbered as in
 * sb_expected. For experts it is called only for the weights of one expert. With `stacked`, the
 * experts of a layer share one tensor per part, [E, ...]. Otherwise quantized experts have their
 * own tensors, and plain ones are a stack. config.json declares no quantization. */
typedef sb_scheme (*test_sparse_choice)(void *ctx, const sb_expected *weight, int in_mtp);
void test_sparse_model(const char *folder, const char *preset, int stacked,
                       test_sparse_choice choose, void *ctx);

#endif
