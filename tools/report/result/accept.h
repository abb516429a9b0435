/* accept.h - the document of samebit accept, and its forms. */
#ifndef SB_REPORT_ACCEPT_H
#define SB_REPORT_ACCEPT_H

#include <jansson.h>

#include "tools/judge/accept/verdict.h"

typedef struct sb_accept_document {
    const char *folder, *profile;
    const char *drafter; /* NULL: the head */
    const sb_accept *accept;
    int answered;              /* the texts are answers of the engine */
    const char *observed_file; /* NULL: neither observed nor comparison */
    const sb_observed *observed;
    const sb_accept_comparison *comparison;
    const char *const *arguments; /* the command line after "samebit" */
    size_t argument_count;
} sb_accept_document;

/* verbose: a line for every position */
void sb_accept_print(const sb_accept_document *document, int verbose);
json_t *sb_accept_json(const sb_accept_document *document);
sb_status sb_accept_html(const sb_accept_document *document, const char *path, sb_error *err);

#endif
