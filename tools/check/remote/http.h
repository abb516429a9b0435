/* http.h - files of a server, whole or in ranges. Nothing that the server says is trusted: its
 * ranges, lengths and redirects are checked against what was asked, and every size has a limit. */
#ifndef SB_REMOTE_HTTP_H
#define SB_REMOTE_HTTP_H

#include <stddef.h>
#include <stdint.h>

#include "ref/base/status.h"

enum {
    SB_HTTP_URL_MAX = 4096,
    SB_HTTP_TAG_MAX = 256,
    SB_HTTP_WHOLE_MAX = 8 << 20 /* the largest file that is read whole where ranges are needed */
};

/* How requests are made. */
typedef struct sb_http {
    const char *token; /* NULL: none */
    const char *home;  /* an address: only servers of its scheme, host and port get the token */
    unsigned stall;    /* seconds without a byte */
    uint64_t left;     /* bytes that may still be read */
    uint64_t read;     /* bytes that were read */
} sb_http;

/* A file as far as it is known. Zero it, and set the url. */
typedef struct sb_http_file {
    char url[SB_HTTP_URL_MAX];
    int known;                 /* tag and size are those of the first answer */
    char tag[SB_HTTP_TAG_MAX]; /* ETag or date; "": the server gives none */
    uint64_t size;
    unsigned char *whole; /* all bytes, if the server gives no ranges; free() them */
} sb_http_file;

/* Reads bytes from .. from + count - 1, fewer only at the end of the file: *got bytes, which the
 * caller frees. SB_ERR_INPUT if the file is not the one of the first answer. */
sb_status sb_http_range(sb_http *http, sb_http_file *file, uint64_t from, uint64_t count,
                        unsigned char **bytes, size_t *got, sb_error *err);

/* Reads a whole file of at most `limit` bytes; a NUL follows them. If there is no such file (404)
 * and `absent` is not NULL, sets *absent to 1. */
sb_status sb_http_whole(sb_http *http, sb_http_file *file, size_t limit, unsigned char **bytes,
                        size_t *count, int *absent, sb_error *err);

/* 1 if this is an address that is read: http or https, without user, blanks and quotes. */
int sb_http_is_url(const char *text);

/* Appends text to an address of SB_HTTP_URL_MAX bytes; characters that must not stand in an address
 * become %XX. Returns 0 if there is no room. */
int sb_http_append(char *url, const char *text);

#endif
