/* accept_html.h - the page of samebit accept. */
#ifndef SB_CLI_ACCEPT_HTML_H
#define SB_CLI_ACCEPT_HTML_H

#include "tools/judge/accept/verdict.h"

typedef struct sb_accept_page {
    const char *folder, *profile;
    const char *observed_file; /* NULL: neither observed nor comparison */
    const sb_accept *accept;
    const sb_observed *observed;
    const sb_accept_comparison *comparison;
    const char *const *arguments; /* the command line after "samebit" */
    size_t argument_count;
} sb_accept_page;

sb_status sb_accept_html(const sb_accept_page *page, const char *path, sb_error *err);

#endif
