/* dump.h - what other programs write of a run, handed on as the steps of a trace: docs/dumps.md.
 *
 * A reader makes steps and nothing else; what compares does not know where they come from. One step
 * at a time is in memory, and none is larger than SB_DUMP_STEP_BYTES unless one row is. Hostile
 * files are refused (SB_ERR_INPUT): the message names file, place, what was found and expected. */
#ifndef SB_DUMP_DUMP_H
#define SB_DUMP_DUMP_H

#include "ref/model/config.h"
#include "tools/trace/head.h"
#include "tools/trace/step.h"

enum { SB_DUMP_STEP_BYTES = 64 << 20 };

/* J-1: "What a file does not say is not made up" - what it may leave open, from the command line.
 */
typedef struct sb_dump_options {
    const char *as;             /* a name of dumps.def; NULL: the first that knows the file */
    const uint32_t *const *ids; /* (sequence_count) the tokens that were fed, where the file has */
    const size_t *id_count;     /* none, or to be held against those that it has */
    size_t sequence_count;
    const char *map; /* a file that says which array is which tap (J-2); NULL: names are taps */
    const sb_config *config;     /* of the checkpoint, against which widths are held; or NULL */
    uint32_t vocab_size, layers; /* the same of it, or 0 */
    const char *tokenizer;       /* its folder, where tokens come as text; NULL: refused */
} sb_dump_options;

typedef struct sb_dump sb_dump;

/* A kind of file: one row of dumps.def, one file of this folder. */
typedef struct sb_dump_reader {
    const char *name, *what;
    /* Whether a file or folder is of this kind, from its name and first bytes: no other reader says
     * so of the same one. Never fails. */
    int (*is)(const char *path);
    /* Checks the whole but the numbers; head gets engine and vocab_size as far as they are said. */
    sb_status (*open)(const char *path, const sb_dump_options *options, sb_trace_head *head,
                      void **state, sb_error *err);
    /* From the first step on, and again if asked again. Step numbers are given by the caller. */
    sb_status (*play)(void *state, sb_step_fn take, void *ctx, sb_error *err);
    void (*close)(void *state); /* NULL is fine */
    int mapped;                 /* its arrays have names, and a map says what they are */
} sb_dump_reader;

size_t sb_dump_count(void);
const sb_dump_reader *sb_dump_at(size_t i);

/* The reader of a path, NULL if none knows it. */
const sb_dump_reader *sb_dump_find(const char *path);

/* SB_ERR_USAGE if nothing knows the file or `as` is no reader. The options must live as long as the
 * dump. */
sb_status sb_dump_open(const char *path, const sb_dump_options *options, sb_dump **out,
                       sb_error *err);
void sb_dump_close(sb_dump *dump); /* NULL is fine */

const sb_trace_head *sb_dump_info(const sb_dump *dump);

/* All steps, one after the other, numbered from 0. */
sb_status sb_dump_play(const sb_dump *dump, sb_step_fn take, void *ctx, sb_error *err);

#endif
