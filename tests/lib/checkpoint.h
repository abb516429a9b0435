/* checkpoint.h - folders for tests: synthetic checkpoints, and copies of them with something
 * changed.
 *
 * All stand under $SAMEBIT_TMP, or test-data in the build folder ($BUILD, or build). Every test
 * program has names of its own, so that programs can run at the same time. */
#ifndef SB_TESTS_LIB_CHECKPOINT_H
#define SB_TESTS_LIB_CHECKPOINT_H

#include "ref/container/safetensors.h"
#include "ref/run/model.h"
#include "tools/make/make.h"

/* Makes a checkpoint for the program `test` and returns its path, which lives as long as the
 * program. format and layout as in `samebit make`; asserts success. */
const char *test_checkpoint(const char *test, const char *preset, const char *recipe,
                            const char *format, const char *layout);

/* The same with every option; options->dir is the last part of the name. The seed is 42 if it is 0.
 */
const char *test_checkpoint_with(const char *test, const sb_make_options *options);

/* "<the folder of test data>/<test>-<name>", which need not exist. */
const char *test_path(const char *test, const char *name);

/* Starts the arithmetic (SAMEBIT_ISA) and opens a folder; asserts success. */
sb_model *test_model_open(const char *folder);

/* One tensor in memory, and all of a folder with its config.json. */
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

/* Writes it all to test_path(test, name), which it returns. */
const char *test_folder_save(const test_folder *folder, const char *test, const char *name);

#endif
