/* folder.h - checkpoint folders in memory, to plant faults in: load, change, write, check, expect.
 *
 *     folder *f = folder_of("T3 nvfp4-ct recipe=plain");
 *     folder_flip(folder_find(f, "model.layers.0.mlp.experts.1.up_proj.weight_scale"), 17, 0x80);
 *     folder_result *r = folder_check(f, "T3 bf16 recipe=plain", NULL);
 *     expect_finding(r, 15, SB_LEVEL_fatal, "layers.0.mlp.experts.1.up_proj");
 *     folder_result_free(r);
 *     folder_free(f);
 *
 * Everything asserts success. Names of tensors may be given as any part of the name that no other
 * tensor has ("layers.0.mlp.gate.weight"); the whole name wins. */
#ifndef SB_TESTS_CHECK_FOLDER_H
#define SB_TESTS_CHECK_FOLDER_H

#include <stddef.h>
#include <stdint.h>

#include "ref/container/safetensors.h"
#include "tools/check/check.h"

typedef struct folder_tensor {
    char *name;
    sb_dtype dtype;
    unsigned rank;
    uint64_t shape[SB_MAX_RANK];
    unsigned char *bytes;
    uint64_t size;
    char *file;    /* the file that holds it */
    int unindexed; /* the index does not have it */
} folder_tensor;

/* A file of the folder that holds no tensors: config.json, and whatever is added. */
typedef struct folder_file {
    char *name;
    unsigned char *bytes;
    size_t size;
} folder_file;

typedef struct folder_damage folder_damage; /* what is done to the written files */

typedef struct folder {
    folder_tensor **tensors; /* in the order in which they lie in their files */
    size_t count, room;
    folder_file *files;
    size_t file_count, file_room;
    int has_index;
    folder_damage *damages;
} folder;

/* --- where folders come from (folder_made.c) ---------------------------------------------------
 * A vehicle is a path ("golden/quant/ct-nvfp4"), or what `samebit make` takes: preset (or "@PATH",
 * a checkpoint whose weights it has; T3 has those of SAMEBIT_WEIGHTS), format, and words of the
 * form recipe=, layout=, storage=, experts=, rule=, group=, layers=, seed=, shards=one, no-mtp, kv,
 * tokenizer. Made once per program. */
const char *folder_path(const char *vehicle);
folder *folder_of(const char *vehicle);
folder *folder_at(const char *path);
folder *folder_copy(const folder *from);
void folder_free(folder *f);

/* --- tensors (folder.c) ------------------------------------------------------------------------
 */
folder_tensor *folder_find(const folder *f, const char *name);
folder_tensor *folder_maybe(const folder *f, const char *name); /* NULL if no tensor is meant */

void folder_drop(folder *f, const char *name);
size_t folder_drop_all(folder *f, const char *part); /* every name with it; how many there were */
void folder_rename(folder *f, const char *name, const char *to);
/* In every name; how many there were. */
size_t folder_rename_all(folder *f, const char *part, const char *by);
/* Behind all tensors of `file` (NULL: the first file), zeros. */
folder_tensor *folder_add(folder *f, const char *name, sb_dtype dtype, unsigned rank,
                          const uint64_t *shape, const char *file);
folder_tensor *folder_twin(folder *f, const char *name, const char *new_name, const char *file);
void folder_move(folder *f, const char *name, const char *file);
void folder_reshape(folder_tensor *t, unsigned rank, const uint64_t *shape); /* same bytes */
void folder_retype(folder_tensor *t, sb_dtype dtype); /* same bytes; the last dimension fits */
void folder_resize(folder_tensor *t, unsigned rank,
                   const uint64_t *shape);            /* cut or zeros behind */
void folder_swap(folder_tensor *a, folder_tensor *b); /* the bytes, of the same size */
void folder_copy_bytes(folder_tensor *to, const folder_tensor *from);

/* --- values ------------------------------------------------------------------------------------
 */
void folder_flip(folder_tensor *t, uint64_t byte, unsigned bits); /* xor */
uint64_t folder_values(const folder_tensor *t);                   /* how many */
float folder_get(const folder_tensor *t, uint64_t i);             /* floats of 8, 16, 32 bits */
void folder_set(folder_tensor *t, uint64_t i, float value);
void folder_fill(folder_tensor *t, float value);
/* Every value through a function; rows first .. first + count - 1 (of the last dimension) alone. */
void folder_map(folder_tensor *t, float (*of)(float));
void folder_zero_rows(folder_tensor *t, uint64_t first, uint64_t count);
unsigned folder_nibble(const folder_tensor *t, uint64_t i); /* low half first */
void folder_set_nibble(folder_tensor *t, uint64_t i, unsigned code);

/* --- other files, and damage (folder_files.c) --------------------------------------------------
 * Texts of JSON files are replaced as texts, or values set by a path of keys and positions
 * ("quantization_config.ignore.0"); the value is JSON, NULL removes it. */
folder_file *folder_text(const folder *f, const char *name); /* NULL: no such file */
void folder_put(folder *f, const char *name, const void *bytes, size_t size);
void folder_remove(folder *f, const char *name); /* a file; one of tensors with its tensors */
void folder_replace(folder *f, const char *name, const char *old, const char *by);
void folder_json(folder *f, const char *name, const char *path, const char *value);
/* The value as text, for messages and edits; "" if there is none. The result lives until the next
 * call. */
const char *folder_json_get(const folder *f, const char *name, const char *path);

/* Done when the folder is written, in the order of the calls. file: a name, or NULL for the only or
 * first file of tensors. */
void folder_damage_byte(folder *f, const char *file, uint64_t at, unsigned bits); /* xor */
void folder_damage_cut(folder *f, const char *file, uint64_t bytes); /* so many off the end */
void folder_damage_append(folder *f, const char *file, uint64_t bytes);
/* In the header, whose length field follows; the first occurrence. */
void folder_damage_header(folder *f, const char *file, const char *old, const char *by);
void folder_damage_zero(folder *f, const char *file, uint64_t at, uint64_t count);
void folder_damage_copy(folder *f, const char *file, uint64_t from, uint64_t to, uint64_t count);
/* `count` bytes at `at` are left out, and as many zeros stand at the end. */
void folder_damage_shift(folder *f, const char *file, uint64_t at, uint64_t count);
void folder_damage_random(folder *f, const char *file, uint64_t at, uint64_t count, uint64_t seed);
void folder_damage_lost(folder *f, const char *file); /* the file is not written */
/* The index puts this tensor there, whatever is true; NULL: nowhere. */
void folder_damage_index(folder *f, const char *tensor, const char *file);

/* Pages of the file of 4 KiB become zeros as far as they are of this tensor: from the one that the
 * tensor begins in, less `first`. */
void folder_damage_pages(folder *f, const char *tensor, uint64_t first, unsigned count);

/* Writes everything, as it is, into a folder of its own that is removed when the program ends, or
 * by folder_result_free; returns its path, which lives as long as the program. */
const char *folder_write(const folder *f);

/* --- checks (folder_expect.c) ------------------------------------------------------------------
 */
typedef struct folder_result {
    sb_check_options options;
    sb_check check;
    sb_status status; /* of sb_check_run, and what it says */
    sb_error why;
    const char *path;
    int temporary;
    char *what; /* "T3 nvfp4-ct --against T3 bf16", for messages */
} folder_result;

/* against: a vehicle, or NULL. options: skip, headers_only, need_mtp are taken; NULL: all checks.
 * folder_check asserts that the run itself succeeds, folder_try does not. */
folder_result *folder_check(const folder *f, const char *against, const sb_check_options *options);
folder_result *folder_try(const folder *f, const char *against, const sb_check_options *options);
/* The same of a vehicle as it stands, without a copy. */
folder_result *folder_check_made(const char *vehicle, const char *against,
                                 const sb_check_options *options);
folder_result *folder_try_made(const char *vehicle, const char *against,
                               const sb_check_options *options);
void folder_result_free(folder_result *r);

/* For options.skip: everything but one check, or a list that ends with 0. */
void folder_only(sb_check_options *options, const unsigned *checks);

/* The first finding of a check, of exactly this level, at a tensor whose name has this part ("" or
 * NULL: any); NULL if there is none. check 0: any check. */
const sb_finding *folder_finding(const folder_result *r, unsigned check, sb_level level,
                                 const char *part);
void folder_print(const folder_result *r); /* all findings */

/* Each prints all findings on failure. */
void expect_finding(const folder_result *r, unsigned check, sb_level level, const char *part);
void expect_none(const folder_result *r, unsigned check); /* of this check */
void expect_none_above(const folder_result *r,
                       sb_level level); /* "above warn": no error, no fatal */
/* What is above INFO is of this check and has this part in its tensor's name; and there is some. */
void expect_only(const folder_result *r, unsigned check, const char *part);
/* What is above INFO and not in `clean` has this part in its tensor's name. */
void expect_nowhere_else(const folder_result *r, const folder_result *clean, const char *part);
/* Whether a result has a finding of the same check, level and tensor. */
int folder_has(const folder_result *r, const sb_finding *finding);

#endif
