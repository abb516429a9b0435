/* nvfp4_folder.h - small folders with NVFP4 layers, for the tests of hash and convert. */
#ifndef SB_TESTS_NVFP4_FOLDER_H
#define SB_TESTS_NVFP4_FOLDER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/lib/checkpoint.h"

typedef enum nvfp4_dialect { NVFP4_CT, NVFP4_MODELOPT } nvfp4_dialect;

/* An empty folder whose config.json declares NVFP4 in this dialect for all layers but lm_head. */
test_folder nvfp4_folder(nvfp4_dialect dialect);

/* A layer (rows, cols) with codes and scales drawn from its name. factor is stored unchanged: a
 * divisor in one dialect, a multiplier in the other. input 0: no input factor. */
void nvfp4_layer(test_folder *folder, nvfp4_dialect dialect, const char *name, uint64_t rows,
                 uint64_t cols, float factor, float input);

/* A tensor of F32 numbers, and a tensor of bytes drawn from the name `from`. */
test_tensor *nvfp4_numbers(test_folder *folder, const char *name, unsigned rank, uint64_t count,
                           const float *values);
test_tensor *nvfp4_bytes(test_folder *folder, const char *name, sb_dtype dtype, unsigned rank,
                         const uint64_t *shape, const char *from, uint64_t first);

/* A plain BF16 matrix. */
void nvfp4_plain(test_folder *folder, const char *name, uint64_t rows, uint64_t cols);

float nvfp4_number_of(const test_folder *folder, const char *name);

#endif
