/* survey.h - opens as much of a checkpoint as possible, for a check that reports everything.
 *
 * Problems that sb_checkpoint_open refuses are reported to the caller, and the survey continues.
 * Damaged and missing files are left out. Files that the index does not name are read. If a tensor
 * is in two files, the copy that the index names is kept, or without an index the copy in the first
 * file by name. The result supports all functions of a checkpoint. */
#ifndef SB_CONTAINER_SURVEY_H
#define SB_CONTAINER_SURVEY_H

#include "ref/container/checkpoint.h"

typedef enum sb_problem {
    SB_PROBLEM_FILE,        /* a file breaks the rules of the container */
    SB_PROBLEM_UNREAD,      /* a file exists, but cannot be read or is not a regular file */
    SB_PROBLEM_INDEX,       /* the index itself is damaged and is ignored */
    SB_PROBLEM_NO_FILE,     /* the index names a file that does not exist */
    SB_PROBLEM_STRAY,       /* a file that the index does not name */
    SB_PROBLEM_UNINDEXED,   /* a tensor that is not in the index, in a file that is in the index */
    SB_PROBLEM_LOST,        /* a tensor missing in the (sound) file that the index names for it */
    SB_PROBLEM_TWIN_EQUAL,  /* a tensor in two files with the same bytes */
    SB_PROBLEM_TWIN_DIFFERS /* a tensor in two files with different bytes, dtype or shape */
} sb_problem;

/* file and tensor are plain names; tensor is NULL if the problem concerns a whole file. message
 * says what was found and what was expected, without the path of the folder. Called in the order of
 * sb_problem, then of files, then of tensors. */
typedef void (*sb_problem_fn)(void *ctx, sb_problem problem, const char *file, const char *tensor,
                              const char *message);

/* Fails only if path cannot be read at all, if no tensor is left, or if there is no memory. */
sb_status sb_checkpoint_survey(const char *path, sb_problem_fn tell, void *ctx, sb_checkpoint **out,
                               sb_error *err);

#endif
