/* folder.h - checkpoint folders in memory, to plant faults in: load, change, write, check, expect.
 *
 *     folder *f = folder_of("T3 nvfp4-ct recipe=plain");
 *     folder_flip(folder_find(f, "model.layers.0.mlp.experts.1.up_proj.weight_scale"), 17, 0x80);
 *     folder_result *r = folder_check(f, "T3 bf16 recipe=plain", NULL);
 *     expect_finding(r, 15, SB_LEVEL_fatal, "layers.0.mlp.experts.1.up_proj");
 *     folder_result_free(r);
 *     folder_free(f);
 *
 * Every function asserts success. A tensor may be named by any part of its name that no other
 * tensor's name has ("layers.0.mlp.gate.weight"); the whole name wins. */
#ifndef SB_TESTS_CHECK_FOLDER_H
#define SB_TESTS_CHECK_FOLDER_H

#include <stddef.h>
#include <stdint.h>

#include "ref/container/safetensors.h"
#include "tools/check/read/check.h"

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

/* A file of the folder without tensors: config.json, or a file that a test adds. */
typedef struct folder_file {
    char *name;
    unsigned char *bytes;
    size_t size;
} folder_file;

typedef struct folder_damage folder_damage; /* damage to the written files */

typedef struct folder {
    folder_tensor **tensors; /* in the order in which they lie in their files */
    size_t count, room;
    folder_file *files;
    size_t file_count, file_room;
    int has_index;
    folder_damage *damages;
} folder;

/* --- where folders come from (folder_made.c) -------------------------------------------------- */
/* A vehicle is a path ("golden/quant/ct-nvfp4"), or a text for `samebit make`: preset, format, and
 * words of the form recipe=, layout=, storage=, experts=, rule=, group=, layers=, seed=,
 * shards=one, no-mtp, kv, tokenizer. "@PATH" in place of the preset takes the weights of that
 * checkpoint; T3 takes those of SAMEBIT_WEIGHTS. Each vehicle is made once per program. */
const char *folder_path(const char *vehicle);
folder *folder_of(const char *vehicle);
folder *folder_at(const char *path);
folder *folder_copy(const folder *from);
void folder_free(folder *f);

/* --- tensors (folder.c) ----------------------------------------------------------------------- */
folder_tensor *folder_find(const folder *f, const char *name);
folder_tensor *folder_maybe(const folder *f, const char *name); /* NULL if none or several fit */

void folder_drop(folder *f, const char *name);
/* Drops every tensor with `part` in its name; returns their number. */
size_t folder_drop_all(folder *f, const char *part);
void folder_rename(folder *f, const char *name, const char *to);
/* Replaces `part` by `by` in every name that contains it; returns the number of names. */
size_t folder_rename_all(folder *f, const char *part, const char *by);
/* Adds a tensor of zeros behind all tensors of `file` (NULL: the first file). */
folder_tensor *folder_add(folder *f, const char *name, sb_dtype dtype, unsigned rank,
                          const uint64_t *shape, const char *file);
folder_tensor *folder_twin(folder *f, const char *name, const char *new_name, const char *file);
void folder_move(folder *f, const char *name, const char *file);
void folder_reshape(folder_tensor *t, unsigned rank, const uint64_t *shape); /* same bytes */
void folder_retype(folder_tensor *t, sb_dtype dtype); /* same bytes; adjusts the last dimension */
void folder_resize(folder_tensor *t, unsigned rank,
                   const uint64_t *shape);            /* cut, or extended by zeros */
void folder_swap(folder_tensor *a, folder_tensor *b); /* the bytes; both have the same size */
void folder_copy_bytes(folder_tensor *to, const folder_tensor *from);

/* --- values ----------------------------------------------------------------------------------- */
void folder_flip(folder_tensor *t, uint64_t byte, unsigned bits); /* xor */
uint64_t folder_values(const folder_tensor *t);                   /* the number of values */
float folder_get(const folder_tensor *t, uint64_t i);             /* floats of 8, 16, 32 bits */
void folder_set(folder_tensor *t, uint64_t i, float value);
void folder_fill(folder_tensor *t, float value);
/* folder_map applies a function to every value. folder_zero_rows zeroes `count` rows of the last
 * dimension from row `first` on. */
void folder_map(folder_tensor *t, float (*of)(float));
void folder_zero_rows(folder_tensor *t, uint64_t first, uint64_t count);
unsigned folder_nibble(const folder_tensor *t, uint64_t i); /* the low half of a byte first */
void folder_set_nibble(folder_tensor *t, uint64_t i, unsigned code);

/* --- other files, and damage (folder_files.c) ------------------------------------------------- */
/* A JSON file is changed as text, or a value is set by a path of keys and positions
 * ("quantization_config.ignore.0"). The value is JSON; NULL removes the key. */
folder_file *folder_text(const folder *f, const char *name); /* NULL if there is no such file */
void folder_put(folder *f, const char *name, const void *bytes, size_t size);
void folder_remove(folder *f, const char *name); /* a file, with its tensors if it has any */
void folder_replace(folder *f, const char *name, const char *old, const char *by);
void folder_json(folder *f, const char *name, const char *path, const char *value);
/* The value as text, for messages and edits; "" if there is none. The result lives until the next
 * call. */
const char *folder_json_get(const folder *f, const char *name, const char *path);

/* Damage is done when the folder is written, in the order of the calls. file: a name, or NULL for
 * the first file of tensors. */
void folder_damage_byte(folder *f, const char *file, uint64_t at, unsigned bits); /* xor */
void folder_damage_cut(folder *f, const char *file, uint64_t bytes); /* `bytes` off the end */
void folder_damage_append(folder *f, const char *file, uint64_t bytes);
/* Replaces the first occurrence in the header; the length field is adjusted. */
void folder_damage_header(folder *f, const char *file, const char *old, const char *by);
void folder_damage_zero(folder *f, const char *file, uint64_t at, uint64_t count);
void folder_damage_copy(folder *f, const char *file, uint64_t from, uint64_t to, uint64_t count);
/* Leaves out `count` bytes at `at` and adds as many zeros at the end. */
void folder_damage_shift(folder *f, const char *file, uint64_t at, uint64_t count);
void folder_damage_random(folder *f, const char *file, uint64_t at, uint64_t count, uint64_t seed);
void folder_damage_lost(folder *f, const char *file); /* the file is not written */
/* The index names this file for the tensor, right or wrong; NULL: the index lacks the tensor. */
void folder_damage_index(folder *f, const char *tensor, const char *file);

/* Zeroes `count` pages of 4 KiB of the file, as far as they belong to this tensor. Page 0 is the
 * page in which the tensor begins; `first` is the first page to zero. */
void folder_damage_pages(folder *f, const char *tensor, uint64_t first, unsigned count);

/* Writes the folder as it is into a directory, and returns the path, which lives as long as the
 * program. The directory is removed at the end of the program, by folder_result_free, or when its
 * path is used again, after 64 calls. */
const char *folder_write(const folder *f);

/* --- checks (folder_expect.c) ----------------------------------------------------------------- */
typedef struct folder_result {
    sb_check_options options;
    sb_check check;
    sb_status status; /* the result of sb_check_run, and its message */
    sb_error why;
    const char *path;
    int temporary;
    char *what; /* "T3 nvfp4-ct --against T3 bf16", for messages */
} folder_result;

/* against: a vehicle, or NULL; "for:VEHICLE" is the target of a drafter instead. options: NULL for
 * all checks; `path` and `against` in it are ignored. folder_check asserts that the run itself
 * succeeds, folder_try does not. */
folder_result *folder_check(const folder *f, const char *against, const sb_check_options *options);
folder_result *folder_try(const folder *f, const char *against, const sb_check_options *options);
/* The same for a vehicle as it is, without a copy. */
folder_result *folder_check_made(const char *vehicle, const char *against,
                                 const sb_check_options *options);
folder_result *folder_try_made(const char *vehicle, const char *against,
                               const sb_check_options *options);
void folder_result_free(folder_result *r);

/* Sets options->skip so that only the listed checks run; the list ends with 0. */
void folder_only(sb_check_options *options, const unsigned *checks);

/* The first finding of a check, of exactly this level, at a tensor whose name has this part ("" or
 * NULL: any); NULL if there is none. check 0: any check. */
const sb_finding *folder_finding(const folder_result *r, unsigned check, sb_level level,
                                 const char *part);
void folder_print(const folder_result *r); /* all findings */

/* Each prints all findings on failure. */
void expect_finding(const folder_result *r, unsigned check, sb_level level, const char *part);
void expect_none(const folder_result *r, unsigned check); /* no finding of this check */
void expect_none_above(const folder_result *r,
                       sb_level level); /* "above warn": no error, no fatal */
/* Every finding above INFO is of this check, at a tensor with `part` in its name; and there is at
 * least one. */
void expect_only(const folder_result *r, unsigned check, const char *part);
/* Every finding above INFO that `clean` lacks is at a tensor with `part` in its name. */
void expect_nowhere_else(const folder_result *r, const folder_result *clean, const char *part);
/* True if a result has a finding of the same check, level and tensor. */
int folder_has(const folder_result *r, const sb_finding *finding);

#endif
