#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include "tools/check/remote/http.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "ref/base/mem.h"
#include "ref/base/text.h"
#include "ref/container/show.h"
#include "tools/check/remote/curl.h"

enum { ATTEMPTS = 4, REDIRECTS = 5, WAIT_MAX = 30 };

/* --- addresses -------------------------------------------------------------------------------- */

static size_t scheme_bytes(const char *url)
{
    return strncasecmp(url, "https://", 8) == 0 ? 8 : strncasecmp(url, "http://", 7) == 0 ? 7 : 0;
}

int sb_http_is_url(const char *text)
{
    size_t n = scheme_bytes(text), host = strcspn(text + n, "/?#");
    if (!n || !host || memchr(text + n, '@', host) || strlen(text) >= SB_HTTP_URL_MAX)
        return 0;
    for (const char *c = text; *c; c++)
        if (*c <= ' ' || *c > '~' || *c == '"' || *c == '\\')
            return 0;
    return 1;
}

int sb_http_append(char *url, const char *text)
{
    size_t n = strlen(url);
    for (; *text; text++) {
        int plain = isalnum((unsigned char)*text) || strchr("-._~/:", *text);
        if (n + 4 > SB_HTTP_URL_MAX)
            return 0;
        n += (size_t)sprintf(url + n, plain ? "%c" : "%%%02X", (unsigned char)*text);
    }
    return 1;
}

/* The port of an address without its scheme; 0: none is written. */
static unsigned port_of(const char *host, size_t n)
{
    const char *colon = memchr(host, ':', n);
    if (*host == '[') { /* an IPv6 address has colons of its own */
        const char *end = memchr(host, ']', n);
        colon = end && end + 1 < host + n && end[1] == ':' ? end + 1 : NULL;
    }
    return colon ? (unsigned)strtoul(colon + 1, NULL, 10) : 0;
}

/* 1 if both have the same scheme, host and port. */
static int same_server(const char *a, const char *b)
{
    size_t scheme = scheme_bytes(a);
    if (!scheme || scheme != scheme_bytes(b))
        return 0;
    unsigned usual = scheme == 8 ? 443 : 80;
    const char *x = a + scheme, *y = b + scheme;
    size_t n = strcspn(x, "/?#"), m = strcspn(y, "/?#");
    unsigned p = port_of(x, n), q = port_of(y, m);
    size_t host = *x == '[' ? strcspn(x, "]") : strcspn(x, ":/?#");
    size_t other = *y == '[' ? strcspn(y, "]") : strcspn(y, ":/?#");
    return host == other && strncasecmp(x, y, host) == 0 && (p ? p : usual) == (q ? q : usual);
}

/* The address to which an answer sends: absolute, or from the root of the same server. */
static int redirected(const char *from, const char *location, char *to)
{
    size_t scheme = scheme_bytes(from), host = strcspn(from + scheme, "/?#");
    int n = 0;
    if (location[0] == '/' && location[1] == '/')
        n = snprintf(to, SB_HTTP_URL_MAX, "%.*s:%s", scheme == 8 ? 5 : 4, "https", location);
    else if (location[0] == '/')
        n = snprintf(to, SB_HTTP_URL_MAX, "%.*s%s", (int)(scheme + host), from, location);
    else
        n = snprintf(to, SB_HTTP_URL_MAX, "%s", location);
    if (n <= 0 || n >= SB_HTTP_URL_MAX)
        return 0;
    to[strcspn(to, "#")] = '\0';
    return sb_http_is_url(to);
}

/* --- one answer ------------------------------------------------------------------------------- */

/* What is asked, and what the servers have said along the way. */
typedef struct question {
    sb_http *http;
    const char *url; /* of the file, for messages */
    uint64_t from, count;
    size_t limit;
    int sent;                     /* the token was sent with the last request */
    char linked[SB_HTTP_TAG_MAX]; /* X-Linked-ETag: what the hub says of a file elsewhere */
} question;

/* Failures of curl that may pass: no name, no connection, a connection that broke. */
static int may_pass(const sb_curl_answer *a)
{
    static const int exits[] = {5, 6, 7, 16, 18, 35, 52, 55, 56, 92};
    for (size_t i = 0; a->exit && i < sizeof exits / sizeof *exits; i++)
        if (a->exit == exits[i])
            return 1;
    return !a->exit && (a->status == 429 || (a->status >= 500 && a->status <= 599));
}

/* Waits before attempt 1, 2, ...: 0.5, 1, 2 seconds, or as long as the server asks for. */
static void wait_before(unsigned attempt, const sb_curl_answer *last)
{
    char asked[16] = "";
    struct timespec time = {.tv_nsec = 500000000};
    if (attempt > 1)
        time = (struct timespec){.tv_sec = 1 << (attempt - 2)};
    if (sb_curl_field(last, "retry-after", asked, sizeof asked) && isdigit((unsigned char)*asked)) {
        unsigned long seconds = strtoul(asked, NULL, 10);
        if (seconds > (unsigned long)time.tv_sec)
            time = (struct timespec){.tv_sec = (time_t)(seconds < WAIT_MAX ? seconds : WAIT_MAX)};
    }
    nanosleep(&time, NULL);
}

/* One request, repeated while its failure may pass. */
static sb_status ask_server(question *q, const char *at, sb_curl_answer *out, sb_error *err)
{
    sb_http *h = q->http;
    q->sent = h->token && same_server(at, h->home);
    sb_curl_ask ask = {.url = at,
                       .token = q->sent ? h->token : NULL,
                       .from = q->from,
                       .count = q->count,
                       .limit = q->limit < h->left ? q->limit : (size_t)h->left,
                       .stall = h->stall};
    for (unsigned attempt = 1;; attempt++) {
        sb_status status = sb_curl_run(&ask, out, err);
        if (status)
            return status;
        h->read += out->count;
        h->left -= out->count < h->left ? out->count : h->left;
        if (!may_pass(out) || attempt == ATTEMPTS)
            return SB_OK;
        wait_before(attempt, out);
        sb_curl_answer_free(out);
    }
}

static int is_redirect(unsigned status)
{
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/* Follows redirects, so that another server never gets the token. */
static sb_status follow(question *q, sb_curl_answer *out, sb_error *err)
{
    char at[SB_HTTP_URL_MAX], location[SB_HTTP_URL_MAX], next[SB_HTTP_URL_MAX];
    snprintf(at, sizeof at, "%s", q->url);
    for (unsigned hops = 0;; hops++) {
        sb_status status = ask_server(q, at, out, err);
        if (status || out->exit || !is_redirect(out->status))
            return status;
        if (!sb_curl_field(out, "location", location, sizeof location) ||
            !redirected(at, location, next))
            status = sb_fail(err, SB_ERR_INPUT,
                             "%s: HTTP %u redirects to \"%s\", expected an http or https address",
                             SB_SHOW(q->url), out->status, SB_SHOW(location));
        else if (hops == REDIRECTS)
            status = sb_fail(err, SB_ERR_INPUT, "%s: more than %d redirects", SB_SHOW(q->url),
                             REDIRECTS);
        if (!*q->linked)
            sb_curl_field(out, "x-linked-etag", q->linked, sizeof q->linked);
        sb_curl_answer_free(out);
        if (status)
            return status;
        memcpy(at, next, sizeof at);
    }
}

static sb_status refuse_status(const question *q, unsigned status, sb_error *err)
{
    const char *url = SB_SHOW(q->url);
    if (status == 401 || status == 403)
        return sb_fail(err, SB_ERR_IO, "%s: HTTP %u: %s", url, status,
                       q->sent ? "the token in HF_TOKEN gives no access to it"
                       : q->http->token
                           ? "the token in HF_TOKEN is not for this server, and was not sent"
                           : "not public, or it does not exist: set HF_TOKEN to a token that may "
                             "read it");
    if (status == 404)
        return sb_fail(err, SB_ERR_IO, "%s: HTTP 404: there is no such file", url);
    if (status == 429 || status >= 500)
        return sb_fail(err, SB_ERR_IO, "%s: HTTP %u, after %d attempts", url, status, ATTEMPTS);
    return sb_fail(err, SB_ERR_IO, "%s: HTTP %u, expected 200 or 206", url, status);
}

/* Asks, and refuses what is no answer. */
static sb_status ask(question *q, sb_curl_answer *out, int *absent, sb_error *err)
{
    sb_status status = follow(q, out, err);
    if (status)
        return status;
    if (out->exit)
        status = sb_fail(err, SB_ERR_IO, "%s: %s (curl %d)", SB_SHOW(q->url),
                         out->exit == 28 ? "the server is silent" : SB_SHOW(out->why), out->exit);
    else if (!out->status)
        status = sb_fail(err, SB_ERR_INPUT, "%s: the answer is not HTTP", SB_SHOW(q->url));
    else if (out->status == 404 && absent)
        *absent = 1;
    else if (out->status != 200 && out->status != 206)
        status = refuse_status(q, out->status, err);
    else if (out->over && !q->http->left)
        status = sb_fail(err, SB_ERR_INPUT,
                         "%s: the limit of %" PRIu64 " bytes for all reads is reached",
                         SB_SHOW(q->url), q->http->read);
    if (status)
        sb_curl_answer_free(out);
    return status;
}

/* --- a file ----------------------------------------------------------------------------------- */

/* Holds the answer against the first one of this file. */
static sb_status same_file(const question *q, const sb_curl_answer *a, uint64_t size,
                           sb_http_file *file, sb_error *err)
{
    char tag[SB_HTTP_TAG_MAX] = "";
    if (*q->linked)
        snprintf(tag, sizeof tag, "%s", q->linked);
    else if (!sb_curl_field(a, "etag", tag, sizeof tag))
        sb_curl_field(a, "last-modified", tag, sizeof tag);
    if (!file->known) {
        snprintf(file->tag, sizeof file->tag, "%s", tag);
        file->size = size;
        file->known = 1;
    }
    if (strcmp(file->tag, tag) != 0)
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: changed while it was read: its ETag was %s and is now %s",
                       SB_SHOW(file->url), SB_SHOW(file->tag), SB_SHOW(tag));
    if (file->size != size)
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: changed while it was read: it had %" PRIu64
                       " bytes and now has %" PRIu64,
                       SB_SHOW(file->url), file->size, size);
    return SB_OK;
}

/* "bytes 0-99/1000" */
static int parse_range(const char *text, uint64_t *first, uint64_t *last, uint64_t *size)
{
    uint64_t *const to[] = {first, last, size};
    static const char ends[] = {'-', '/', '\0'};
    if (strncasecmp(text, "bytes ", 6) != 0)
        return 0;
    text += 6;
    for (int i = 0; i < 3; i++, text++) {
        uint64_t n = 0;
        if (!isdigit((unsigned char)*text))
            return 0;
        for (; isdigit((unsigned char)*text); text++) {
            if (n > (UINT64_MAX >> 1) / 10)
                return 0;
            n = 10 * n + (uint64_t)(*text - '0');
        }
        *to[i] = n;
        if (*text != ends[i])
            return 0;
    }
    return 1;
}

static sb_status take_range(const question *q, const sb_curl_answer *a, sb_http_file *file,
                            sb_error *err)
{
    char text[128] = "";
    uint64_t first = 0, last = 0, size = 0, end = q->from + q->count;
    sb_curl_field(a, "content-range", text, sizeof text);
    int sound = parse_range(text, &first, &last, &size) && first == q->from && last >= first &&
                last < size && last + 1 == (size < end ? size : end);
    if (!sound)
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: Content-Range is \"%s\", expected bytes %" PRIu64 " to %" PRIu64,
                       SB_SHOW(q->url), SB_SHOW(text), q->from, end - 1);
    if (a->over || a->count != last - first + 1)
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: Content-Range is \"%s\", but %s%zu bytes were received",
                       SB_SHOW(q->url), SB_SHOW(text), a->over ? "more than " : "", a->count);
    return same_file(q, a, size, file, err);
}

/* A copy of bytes of file->whole. */
static sb_status cut(const sb_http_file *file, uint64_t from, uint64_t count, unsigned char **bytes,
                     size_t *got, sb_error *err)
{
    uint64_t there = from < file->size ? file->size - from : 0;
    *got = (size_t)(count < there ? count : there);
    *bytes = sb_alloc(*got + 1, 1);
    if (!*bytes)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(file->url));
    memcpy(*bytes, file->whole + (from < file->size ? from : 0), *got);
    return SB_OK;
}

/* Takes the body as the whole file. */
static sb_status take_whole(const question *q, sb_curl_answer *a, sb_http_file *file, sb_error *err)
{
    if (a->over)
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: this server does not send ranges (HTTP 200 instead of 206), and the "
                       "file has more than %zu bytes, the most that is read without ranges",
                       SB_SHOW(q->url), q->limit);
    sb_status status = same_file(q, a, a->count, file, err);
    if (status)
        return status;
    free(file->whole);
    file->whole = a->body ? a->body : sb_alloc(1, 1);
    a->body = NULL;
    return file->whole ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(q->url));
}

sb_status sb_http_range(sb_http *http, sb_http_file *file, uint64_t from, uint64_t count,
                        unsigned char **bytes, size_t *got, sb_error *err)
{
    question q = {.http = http,
                  .url = file->url,
                  .from = from,
                  .count = count,
                  .limit = count > SB_HTTP_WHOLE_MAX ? (size_t)count : SB_HTTP_WHOLE_MAX};
    sb_curl_answer a;
    if (file->whole)
        return cut(file, from, count, bytes, got, err);
    sb_status status = ask(&q, &a, NULL, err);
    if (status)
        return status;
    if (a.status == 200) {
        status = take_whole(&q, &a, file, err);
        if (!status)
            status = cut(file, from, count, bytes, got, err);
    } else {
        status = take_range(&q, &a, file, err);
        *bytes = status ? NULL : a.body;
        *got = a.count;
        a.body = status ? a.body : NULL;
    }
    sb_curl_answer_free(&a);
    return status;
}

sb_status sb_http_whole(sb_http *http, sb_http_file *file, size_t limit, unsigned char **bytes,
                        size_t *count, int *absent, sb_error *err)
{
    question q = {.http = http, .url = file->url, .limit = limit};
    sb_curl_answer a;
    sb_status status = ask(&q, &a, absent, err);
    if (status || (absent && *absent)) {
        if (!status)
            sb_curl_answer_free(&a);
        return status;
    }
    if (a.over || a.status != 200)
        status = sb_fail(err, SB_ERR_INPUT, "%s: HTTP %u with %s%zu bytes, expected at most %zu",
                         SB_SHOW(q.url), a.status, a.over ? "more than " : "", limit, limit);
    if (!status)
        status = same_file(&q, &a, a.count, file, err);
    unsigned char *text = status ? NULL : sb_alloc(a.count + 1, 1);
    if (!status && !text)
        status = sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(q.url));
    if (text && a.count)
        memcpy(text, a.body, a.count);
    *bytes = text;
    *count = a.count;
    sb_curl_answer_free(&a);
    return status;
}
