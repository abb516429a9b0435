#define _GNU_SOURCE /* pipe2 */
#include "tools/check/remote/curl.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ref/base/mem.h"
#include "ref/container/show.h"

extern char **environ;

enum {
    CONFIG_MAX = 16384, /* fits into a pipe, so that it is written before curl runs */
    HEAD_MAX = 65536,
    CHUNK = 65536,
    CONNECT = 20,   /* seconds for a connection */
    LONGEST = 3600, /* seconds for a request */
    NOT_STARTED = 127
};

/* --- the options of curl ---------------------------------------------------------------------- */

/* The text of --config. Returns its length; 0: it is too long. */
static size_t write_config(const sb_curl_ask *ask, char *text, size_t size)
{
    char range[64] = "", token[4096] = "";
    if (ask->count)
        snprintf(range, sizeof range, "range = \"%" PRIu64 "-%" PRIu64 "\"\n", ask->from,
                 ask->from + ask->count - 1);
    if (ask->token && snprintf(token, sizeof token, "header = \"Authorization: Bearer %s\"\n",
                               ask->token) >= (int)sizeof token)
        return 0;
    int n = snprintf(text, size,
                     "url = \"%s\"\n%s%s"
                     "header = \"Accept-Encoding: identity\"\nuser-agent = \"samebit\"\n"
                     "include\nsilent\nshow-error\ngloboff\nsuppress-connect-headers\n"
                     "proto = \"=http,https\"\nconnect-timeout = %d\nspeed-limit = 1\n"
                     "speed-time = %u\nmax-time = %d\n",
                     ask->url, token, range, CONNECT, ask->stall, LONGEST);
    return n > 0 && (size_t)n < size ? (size_t)n : 0;
}

/* --- the process ------------------------------------------------------------------------------ */

typedef struct child {
    pid_t pid;
    int out, err; /* what curl writes; -1 after its end */
} child;

static void close_both(const int fd[2])
{
    close(fd[0]);
    close(fd[1]);
}

/* A pipe from which the program reads the text as its stdin. */
static int text_pipe(const char *text, size_t n, int fd[2])
{
    if (pipe2(fd, O_CLOEXEC) != 0)
        return 0;
    if (write(fd[1], text, n) == (ssize_t)n)
        return 1;
    close_both(fd);
    return 0;
}

static int spawn(const int in[2], const int out[2], const int err[2], pid_t *pid)
{
    static char name[] = "curl", disable[] = "--disable", config[] = "--config", from[] = "-";
    char *const words[] = {name, disable, config, from, NULL};
    posix_spawn_file_actions_t actions;
    int failed = posix_spawn_file_actions_init(&actions);
    if (failed)
        return failed;
    failed = posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    if (!failed)
        failed = posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    if (!failed)
        failed = posix_spawn_file_actions_adddup2(&actions, err[1], STDERR_FILENO);
    if (!failed)
        failed = posix_spawnp(pid, words[0], &actions, NULL, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    return failed;
}

static sb_status start(const char *config, size_t n, child *c, sb_error *err)
{
    int in[2], out[2], told[2];
    int failed = EMFILE;
    if (!text_pipe(config, n, in))
        return sb_fail(err, SB_ERR_IO, "curl: cannot make a pipe: %s", strerror(errno));
    if (pipe2(out, O_CLOEXEC) == 0) {
        if (pipe2(told, O_CLOEXEC) == 0) {
            failed = spawn(in, out, told, &c->pid);
            close(told[1]);
            c->err = told[0];
            if (failed)
                close(told[0]);
        }
        close(out[1]);
        c->out = out[0];
        if (failed)
            close(out[0]);
    }
    close_both(in);
    if (failed == ENOENT)
        return sb_fail(err, SB_ERR_IO,
                       "curl: this program is not installed; --remote reads over HTTP with it");
    return failed ? sb_fail(err, SB_ERR_IO, "curl: cannot be started: %s", strerror(failed))
                  : SB_OK;
}

/* --- its output ------------------------------------------------------------------------------- */

/* The output of curl: headers, the last of which belongs to the body. */
typedef struct stream {
    const sb_curl_ask *ask;
    sb_curl_answer *answer;
    unsigned char *bytes;
    size_t count, room;
    int in_body, ended; /* ended: nothing more is wanted */
    int no_memory;
} stream;

/* The end of a header in the bytes, or 0. */
static size_t header_end(const stream *s)
{
    for (size_t i = 3; i < s->count; i++)
        if (memcmp(s->bytes + i - 3, "\r\n\r\n", 4) == 0)
            return i + 1;
    return 0;
}

static unsigned status_of(const unsigned char *head, size_t n)
{
    const unsigned char *blank = memchr(head, ' ', n < 16 ? n : 16);
    unsigned status = 0;
    if (n < 16 || memcmp(head, "HTTP/", 5) != 0 || !blank)
        return 0;
    for (int i = 1; i <= 3; i++) {
        if (!isdigit(blank[i]))
            return 0;
        status = 10 * status + (unsigned)(blank[i] - '0');
    }
    return status;
}

/* Takes the headers off the front of the bytes. An interim answer (1xx) is dropped. */
static void take_headers(stream *s)
{
    sb_curl_answer *a = s->answer;
    for (size_t n; !s->in_body && !s->ended && (n = header_end(s)) > 0;) {
        unsigned status = status_of(s->bytes, n);
        if (status < 100 || status > 199) {
            a->head = sb_alloc(n + 1, 1);
            s->no_memory = !a->head;
            if (a->head)
                memcpy(a->head, s->bytes, n);
            a->status = status;
            s->in_body = 1;
            s->ended = s->no_memory || (status != 200 && status != 206);
        }
        memmove(s->bytes, s->bytes + n, s->count - n);
        s->count -= n;
    }
    if (!s->in_body && s->count > HEAD_MAX)
        s->ended = 1;
}

static void take_bytes(stream *s)
{
    take_headers(s);
    if (s->in_body && s->count > s->ask->limit) {
        s->answer->over = 1;
        s->ended = 1;
    }
}

/* Reads once; closes *fd at its end. */
static void read_out(stream *s, int *fd)
{
    if (s->room - s->count < CHUNK) {
        unsigned char *grown = sb_realloc(s->bytes, 2 * s->room + CHUNK, 1);
        if (!grown) {
            s->no_memory = s->ended = 1;
            return;
        }
        s->bytes = grown;
        s->room = 2 * s->room + CHUNK;
    }
    ssize_t got = read(*fd, s->bytes + s->count, CHUNK);
    if (got > 0) {
        s->count += (size_t)got;
        take_bytes(s);
    } else if (got == 0 || errno != EINTR) {
        close(*fd);
        *fd = -1;
    }
}

static void read_err(sb_curl_answer *a, int *fd)
{
    char text[256];
    size_t used = strlen(a->why);
    ssize_t got = read(*fd, text, sizeof text);
    if (got <= 0) {
        if (got < 0 && errno == EINTR)
            return;
        close(*fd);
        *fd = -1;
        return;
    }
    for (ssize_t i = 0; i < got && used + 1 < sizeof a->why; i++)
        a->why[used++] = text[i];
    a->why[used] = '\0';
}

static void read_both(stream *s, child *c)
{
    while (!s->ended && (c->out >= 0 || c->err >= 0)) {
        struct pollfd both[2] = {{.fd = c->out, .events = POLLIN},
                                 {.fd = c->err, .events = POLLIN}};
        if (poll(both, 2, -1) < 0 && errno != EINTR)
            break;
        if (both[0].revents)
            read_out(s, &c->out);
        if (!s->ended && both[1].revents)
            read_err(s->answer, &c->err);
    }
}

/* Waits for curl, which is ended if nothing more is wanted of it. */
static int finish(const stream *s, child *c)
{
    int how = 0;
    if (c->out >= 0)
        close(c->out);
    if (c->err >= 0)
        close(c->err);
    if (s->ended)
        kill(c->pid, SIGKILL);
    while (waitpid(c->pid, &how, 0) < 0)
        if (errno != EINTR)
            return NOT_STARTED;
    return s->ended ? 0 : WIFEXITED(how) ? WEXITSTATUS(how) : NOT_STARTED;
}

/* "curl: (7) Failed to connect ...\n" becomes "Failed to connect ...". */
static void clean_why(char *why)
{
    const char *from = strncmp(why, "curl: (", 7) == 0 ? strchr(why, ')') : NULL;
    from = from ? from + 1 + strspn(from + 1, " ") : why;
    memmove(why, from, strlen(from) + 1);
    why[strcspn(why, "\r\n")] = '\0';
    sb_clean_text(why);
}

sb_status sb_curl_run(const sb_curl_ask *ask, sb_curl_answer *out, sb_error *err)
{
    char config[CONFIG_MAX];
    size_t n = write_config(ask, config, sizeof config);
    child c = {.out = -1, .err = -1};
    stream s = {.ask = ask, .answer = out};
    *out = (sb_curl_answer){0};
    if (!n)
        return sb_fail(err, SB_ERR_INPUT, "%s: the address or the token is too long",
                       SB_SHOW(ask->url));
    sb_status status = start(config, n, &c, err);
    if (status)
        return status;
    read_both(&s, &c);
    out->exit = finish(&s, &c);
    clean_why(out->why);
    if (s.no_memory)
        status = sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(ask->url));
    out->body = s.bytes;
    out->count = s.in_body ? s.count : 0;
    if (status)
        sb_curl_answer_free(out);
    return status;
}

void sb_curl_answer_free(sb_curl_answer *answer)
{
    free(answer->head);
    free(answer->body);
    *answer = (sb_curl_answer){0};
}

int sb_curl_field(const sb_curl_answer *answer, const char *name, char *out, size_t size)
{
    size_t n = strlen(name);
    for (const char *line = answer->head; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncasecmp(line, name, n) != 0 || line[n] != ':')
            continue;
        line += n + 1;
        line += strspn(line, " \t");
        size_t length = strcspn(line, "\r\n");
        while (length && (line[length - 1] == ' ' || line[length - 1] == '\t'))
            length--;
        snprintf(out, size, "%.*s", (int)(length < size ? length : size - 1), line);
        return 1;
    }
    return 0;
}
