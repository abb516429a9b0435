/* held_by.h - which files exist, and what the missing ones hold: counts of modules by kind. */
#ifndef SB_CHECK_HELD_BY_H
#define SB_CHECK_HELD_BY_H

#include "tools/check/read/check.h"

typedef enum sb_file_state { SB_FILE_OPEN, SB_FILE_MISSING, SB_FILE_UNREADABLE } sb_file_state;

/* The state of a file that the index names. */
sb_file_state sb_file_state_of(const sb_checkpoint *checkpoint, const char *file);
/* 1 if the state is SB_FILE_OPEN; makes no system call */
int sb_file_is_open(const sb_checkpoint *checkpoint, const char *file);

/* 1 if the index names the file, or if the file is found without an index. */
int sb_file_is_named(const sb_check *check, const char *file);

/* The first few names, and the arguments that download them. */
typedef struct sb_files_text {
    char names[256];
    char patterns[360]; /* " --include ..." of each; "" if there are too many */
} sb_files_text;
size_t sb_files_in_state(const sb_check *check, sb_file_state state, sb_files_text *text);

typedef struct sb_held_by {
    size_t tensors, mtp; /* mtp: tensors whose names begin with "mtp." */
    char text[320];      /* "mtp.* 17 modules, mlp.experts.gate_proj 256, ... of layers 3 to 5" */
} sb_held_by;

/* Counts the tensors that the index puts into all files with this state. */
void sb_held_by_files(const sb_check *check, sb_file_state state, sb_held_by *out);

/* Counts the tensors that are read from one file, given by sb_tensor.shard. */
void sb_held_by_shard(const sb_check *check, uint32_t shard, sb_held_by *out);

#endif
