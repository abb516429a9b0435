/* torch_mutate.h - a file of torch.save that is changed where it means something: numbers and texts
 * of its pickle, the data of its storages, names and sums of its members. */
#ifndef SB_TESTS_FUZZ_TORCH_MUTATE_H
#define SB_TESTS_FUZZ_TORCH_MUTATE_H

#include "tests/fuzz/archive.h"
#include "tests/fuzz/json_mutate.h"

enum { TORCH_MEMBERS = 24, TORCH_NAME = 256 };

typedef struct torch_member {
    char name[TORCH_NAME];
    unsigned char *bytes;
    size_t size;
} torch_member;

typedef struct torch_seed {
    torch_member members[TORCH_MEMBERS];
    size_t count;
} torch_seed;

/* A sound file; asserts success, and lives as long as the program. */
void torch_seed_load(torch_seed *seed, const char *path);

/* With `steps` changes; archive_free releases it. */
archive torch_mutate(const torch_seed *from, unsigned steps, json_draws *d);

#endif
