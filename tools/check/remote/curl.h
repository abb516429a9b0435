/* curl.h - one HTTP request, made by the program `curl`.
 *
 * Its options go through a pipe (--config -), so that no token stands in a list of arguments. A
 * ~/.curlrc is not read; the environment variables of curl (proxies, certificates) are. Redirects
 * are not followed. */
#ifndef SB_REMOTE_CURL_H
#define SB_REMOTE_CURL_H

#include <stddef.h>
#include <stdint.h>

#include "ref/base/status.h"

typedef struct sb_curl_ask {
    const char *url;      /* http or https, printable ASCII without blanks and quotes */
    const char *token;    /* sent as a bearer token; NULL: none */
    uint64_t from, count; /* the range that is asked for; count 0: the whole file */
    size_t limit;         /* more bytes of a body are not read */
    unsigned stall;       /* seconds without a byte, after which curl gives up */
} sb_curl_ask;

typedef struct sb_curl_answer {
    int exit;        /* of curl; 0: it ended well, or was ended at the limit */
    char why[200];   /* what curl said of a failure */
    unsigned status; /* of HTTP; 0: no whole answer */
    char *head;      /* the lines of its header, each with a line break, and a NUL */
    unsigned char *body;
    size_t count;
    int over; /* the body is longer than the limit */
} sb_curl_answer;

/* SB_ERR_IO only if curl is absent or cannot be started; other failures are in *out. The body is
 * read only for the status 200 and 206. */
sb_status sb_curl_run(const sb_curl_ask *ask, sb_curl_answer *out, sb_error *err);
void sb_curl_answer_free(sb_curl_answer *answer);

/* The value of a field of the header, cut to size - 1 bytes; returns 0 if there is none. */
int sb_curl_field(const sb_curl_answer *answer, const char *name, char *out, size_t size);

#endif
