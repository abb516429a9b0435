/* dump.h - files of other programs about a run, passed on as the steps of a trace: docs/dumps.md.
 *
 * A reader only makes steps; the comparison does not know their origin. One step at a time is in
 * memory. No step is larger than SB_DUMP_STEP_BYTES, unless a single row is. Hostile files are
 * refused (SB_ERR_INPUT): the message names file, place, the found and the expected content. */
#ifndef SB_DUMP_DUMP_H
#define SB_DUMP_DUMP_H

#include "ref/model/config.h"
#include "tools/judge/trace/head.h"
#include "tools/judge/trace/step.h"

enum { SB_DUMP_STEP_BYTES = 64 << 20 };

/* J-1: "What a file does not say is not made up" - data that the file may omit, from the command
 * line. */
typedef struct sb_dump_options {
    const char *as; /* a name of dumps.def; NULL: the first reader that recognizes the file */
    const uint32_t *const *ids; /* (sequence_count) the fed tokens, if the file has none; */
    const size_t *id_count;     /* otherwise compared with the file's tokens */
    size_t sequence_count;
    const char *map;         /* a file that maps arrays to taps (J-2); NULL: their names are taps */
    const sb_config *config; /* of the checkpoint, to check widths; or NULL */
    uint32_t vocab_size, layers; /* of the checkpoint, or 0 */
    const char *tokenizer;       /* its folder, for tokens given as text; NULL: refuses them */
} sb_dump_options;

typedef struct sb_dump sb_dump;

/* A kind of file: one row of dumps.def, one file of this folder. */
typedef struct sb_dump_reader {
    const char *name, *what;
    /* True if a file or folder is of this kind, judged by its name and first bytes. At most one
     * reader accepts a path. Never fails. */
    int (*is)(const char *path);
    /* Checks everything except the numbers; sets engine and vocab_size of *head if the file has
     * them. */
    sb_status (*open)(const char *path, const sb_dump_options *options, sb_trace_head *head,
                      void **state, sb_error *err);
    /* Every call passes on all steps, beginning with the first. The caller numbers the steps. */
    sb_status (*play)(void *state, sb_step_fn take, void *ctx, sb_error *err);
    void (*close)(void *state); /* NULL is fine */
    int mapped;                 /* its arrays have names, so a map can name their taps */
} sb_dump_reader;

size_t sb_dump_count(void);
const sb_dump_reader *sb_dump_at(size_t i);

/* The reader of a path; NULL if no reader recognizes it. */
const sb_dump_reader *sb_dump_find(const char *path);

/* SB_ERR_USAGE if no reader recognizes the file or `as` is no reader. The options must live as long
 * as the dump. */
sb_status sb_dump_open(const char *path, const sb_dump_options *options, sb_dump **out,
                       sb_error *err);
void sb_dump_close(sb_dump *dump); /* NULL is fine */

const sb_trace_head *sb_dump_info(const sb_dump *dump);

/* Passes on all steps in order, numbered from 0. */
sb_status sb_dump_play(const sb_dump *dump, sb_step_fn take, void *ctx, sb_error *err);

#endif
