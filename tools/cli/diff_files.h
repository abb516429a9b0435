/* diff_files.h - the files that a comparison writes: page, lines, JUnit, and the pack of all. */
#ifndef SB_CLI_DIFF_FILES_H
#define SB_CLI_DIFF_FILES_H

#include <jansson.h>

#include "ref/run/model.h"
#include "tools/report/diff/diff.h"

typedef struct sb_diff_files {
    const char *report, *jsonl, *junit, *bundle; /* paths, or NULL */
    const char *replay; /* for the failing op, during the run: `bundle` or `own` */
    char *own;          /* a file next to the pack */
} sb_diff_files;

/* Sets `replay`. Two reports in the same file are SB_ERR_USAGE. */
sb_status sb_diff_files_begin(sb_diff_files *files, sb_error *err);

/* document: the document of samebit diff --json; NULL if memory is out. Reads the checkpoint for
 * its digest if a page, lines or a pack is requested. */
sb_status sb_diff_files_write(const sb_diff_files *files, sb_diff_reports *reports,
                              const json_t *document, const sb_model *model, sb_error *err);

/* Removes the file next to a pack. */
void sb_diff_files_end(sb_diff_files *files);

#endif
