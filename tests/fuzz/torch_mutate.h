/* torch_mutate.h - changes the meaningful parts of a torch.save file: numbers and texts of its
 * pickle, the data of its storages, names and checksums of its members. */
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

/* Loads a sound file; asserts success. The result stays valid until the program ends. */
void torch_seed_load(torch_seed *seed, const char *path);

/* A copy with `steps` changes; archive_free frees it. */
archive torch_mutate(const torch_seed *from, unsigned steps, json_draws *d);

#endif
