/* checkpoint.h - folders for tests: synthetic checkpoints, and changed copies of them.
 *
 * All folders are in $SAMEBIT_TMP, or in test-data of the build folder ($BUILD, or build). Every
 * test program has its own names, so that programs can run at the same time. */
#ifndef SB_TESTS_LIB_CHECKPOINT_H
#define SB_TESTS_LIB_CHECKPOINT_H

#include "ref/container/safetensors.h"
#include "ref/run/model.h"
#include "tools/make/make.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Makes a checkpoint for the program `test` and returns its path, which stays valid until the
 * program ends. format and layout as in `samebit make`; asserts success. */
const char *test_checkpoint(const char *test, const char *preset, const char *recipe,
                            const char *format, const char *layout);

/* The same with all options. options->dir is the last part of the name. A seed of 0 becomes 42. */
const char *test_checkpoint_with(const char *test, const sb_make_options *options);

/* The names of the formats of `samebit make` that quantize, in the order of formats.def; NULL after
 * the last. */
const char *test_quantized_format(size_t i);

/* "<the folder of test data>/<test>-<name>", which need not exist. */
const char *test_path(const char *test, const char *name);

/* Starts the arithmetic (SAMEBIT_ISA) and opens a folder; asserts success. */
sb_model *test_model_open(const char *folder);

/* One tensor in memory; and all tensors of a folder with its config.json. */
typedef struct test_tensor {
    char name[256];
    sb_dtype dtype;
    unsigned rank;
    uint64_t shape[SB_MAX_RANK];
    unsigned char *bytes;
    uint64_t size;
} test_tensor;

typedef struct test_folder {
    char *config;
    test_tensor *tensors;
    size_t count, room;
} test_folder;

test_folder test_folder_load(const char *folder);
void test_folder_free(test_folder *folder);

/* find asserts that the tensor is there. */
test_tensor *test_folder_find(const test_folder *folder, const char *name);
void test_folder_remove(test_folder *folder, const char *name);

/* A new tensor of zeros. */
test_tensor *test_folder_add(test_folder *folder, const char *name, sb_dtype dtype, unsigned rank,
                             const uint64_t *shape);

/* Replaces the first `old` in config.json; asserts that it is there. */
void test_folder_configure(test_folder *folder, const char *old, const char *with);

/* Writes the folder to test_path(test, name) and returns that path. */
const char *test_folder_save(const test_folder *folder, const char *test, const char *name);

#ifdef __cplusplus
}
#endif

#endif
