/* survey.h - a checkpoint opened as far as it can be: for a check that reports everything.
 *
 * What sb_checkpoint_open refuses is told to the caller, and the walk goes on: damaged and missing
 * files are left out, files that nothing names are read, and of a tensor that stands in two files
 * the one that the index names is kept (without an index, that of the first file by name). What
 * comes out can be asked everything that a checkpoint can be asked. */
#ifndef SB_CONTAINER_SURVEY_H
#define SB_CONTAINER_SURVEY_H

#include "ref/container/checkpoint.h"

typedef enum sb_problem {
    SB_PROBLEM_FILE,        /* a file breaks the rules of the container */
    SB_PROBLEM_UNREAD,      /* a file is there and cannot be read, or is no regular file */
    SB_PROBLEM_INDEX,       /* the index itself is damaged; it is then as if there were none */
    SB_PROBLEM_NO_FILE,     /* the index names a file that is not there */
    SB_PROBLEM_STRAY,       /* a file that nothing names */
    SB_PROBLEM_UNINDEXED,   /* a tensor that the index does not have, of a file that it names */
    SB_PROBLEM_LOST,        /* a tensor that is not in the (sound) file where the index puts it */
    SB_PROBLEM_TWIN_EQUAL,  /* a tensor that stands in two files with the same bytes */
    SB_PROBLEM_TWIN_DIFFERS /* and with other bytes, dtype or shape */
} sb_problem;

/* file and tensor are plain names, tensor NULL where it is the whole file; message says what was
 * found and what was expected, without the path of the folder. Called in order of kind, of each
 * kind in order of file and tensor. */
typedef void (*sb_problem_fn)(void *ctx, sb_problem problem, const char *file, const char *tensor,
                              const char *message);

/* Fails only if path cannot be read at all, no tensor is left, or memory is out. */
sb_status sb_checkpoint_survey(const char *path, sb_problem_fn tell, void *ctx, sb_checkpoint **out,
                               sb_error *err);

#endif
