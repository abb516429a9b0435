/* sparse.h - checkpoints of any size that take no room: the headers, the index and config.json are
 * real, the data is a hole in the file, which reads as zeros.
 *
 * For programs that look at headers only. Every function asserts success. A folder is made if it is
 * absent; what test_path gives is removed at the end of the program. */
#ifndef SB_TESTS_LIB_SPARSE_H
#define SB_TESTS_LIB_SPARSE_H

#include "ref/container/dtype.h"
#include "ref/model/names.h"
#include "tools/make/make.h"
#include "tools/make/scheme.h"

/* A folder tensor by tensor, in shards of at most shard_bytes bytes of data (0: one shard). save
 * writes and releases it; config is the text of config.json, or NULL for none. */
typedef struct sb_writer test_sparse;
test_sparse *test_sparse_new(const char *folder, uint64_t shard_bytes);
void test_sparse_add(test_sparse *sparse, const char *name, sb_dtype dtype, unsigned rank,
                     const uint64_t *shape);
void test_sparse_save(test_sparse *sparse, const char *config);

/* The folder that `samebit make` writes with these options, to the last byte of its headers. */
void test_sparse_make(const sb_make_options *options);

/* A model of a preset in which `choose` says how each weight is stored; layer counts as in
 * sb_expected, and of experts it is asked for the weights of one. With `stacked` the experts of a
 * layer are one tensor per part, [E, ...]; without, quantized ones are tensors of their own, and
 * plain ones a stack. Nothing is declared in config.json. */
typedef sb_scheme (*test_sparse_choice)(void *ctx, const sb_expected *weight, int in_mtp);
void test_sparse_model(const char *folder, const char *preset, int stacked,
                       test_sparse_choice choose, void *ctx);

#endif
