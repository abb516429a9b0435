/* diff_files.h - the files that a comparison leaves: page, lines, JUnit, and the pack of all. */
#ifndef SB_CLI_DIFF_FILES_H
#define SB_CLI_DIFF_FILES_H

#include <jansson.h>

#include "ref/run/model.h"
#include "tools/report/diff.h"

typedef struct sb_diff_files {
    const char *report, *jsonl, *junit, *bundle; /* where they shall stand, or NULL */
    const char
        *replay; /* where the failing op is written meanwhile: bundle itself, or beside a pack */
    char *own;   /* the latter */
} sb_diff_files;

/* Settles `replay`; two reports that would be one file are wrong use. */
sb_status sb_diff_files_begin(sb_diff_files *files, sb_error *err);

/* document: of samebit diff --json; NULL if memory is out. The checkpoint is read for its digest
 * where a page, lines or a pack is wanted. */
sb_status sb_diff_files_write(const sb_diff_files *files, sb_diff_reports *reports,
                              const json_t *document, const sb_model *model, sb_error *err);

/* Removes what stands beside a pack. */
void sb_diff_files_end(sb_diff_files *files);

#endif
