/* graft.h - the document of samebit graft, and its forms. */
#ifndef SB_REPORT_GRAFT_H
#define SB_REPORT_GRAFT_H

#include <jansson.h>

#include "tools/check/graft/graft.h"

/* Modules of one kind of layer, and what happens to them. */
typedef struct sb_graft_fate {
    char kind[128];
    const char *what, *example;
    uint64_t modules, goes, comes;
    uint64_t renamed; /* new tensors with names that are not in CKPT */
} sb_graft_fate;

typedef struct sb_graft_document {
    const sb_graft_options *options;
    const sb_grafted *grafted;
    sb_graft_fate *fates;
    size_t count;
} sb_graft_document;

sb_status sb_graft_document_make(const sb_graft_options *options, const sb_grafted *grafted,
                                 sb_graft_document *out, sb_error *err);
void sb_graft_document_free(sb_graft_document *document);

void sb_graft_print(const sb_graft_document *document);
json_t *sb_graft_json(const sb_graft_document *document);

#endif
