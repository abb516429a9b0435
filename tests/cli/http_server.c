/* http_server.c - for remote.sh: serves files over HTTP on a port of 127.0.0.1, well or badly.
 *
 * http_server ROOT LOG [OTHER] prints its port and serves until it is ended, or for ten minutes.
 * The address /MODE/a/b gives the file ROOT/a/b in the way of MODE (the table `modes`);
 * /MODE/org/name/resolve/REVISION/file gives ROOT/org/name/file, and
 * /MODE/api/models/org/name/revision/REVISION the list of the files in ROOT/org/name, as the hub
 * does. OTHER is the port of a second server. Each request is a line of LOG: path, authorization,
 * range. */
#define _POSIX_C_SOURCE 200809L
#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define COMMIT "0123456789abcdef0123456789abcdef01234567"

typedef enum mode {
    PLAIN,     /* with ranges */
    NO_RANGES, /* always the whole file */
    BAD_RANGE, /* Content-Range begins one byte later than asked */
    BAD_SIZE,  /* Content-Range says a longer file */
    EXTRA,     /* more bytes than Content-Range says */
    CUT,       /* the connection ends within the body */
    STALL,     /* silence within the body */
    CHANGES,   /* another ETag in every answer */
    AWAY,      /* sends to the other server */
    NEAR,      /* sends to /token on this server, by a path */
    TO_FILE,   /* sends to file:///etc/passwd */
    LOOP,      /* sends to itself */
    TOKEN,     /* 401 without the token "secret" */
    BUSY,      /* 503 for the first two requests of the process */
    DOWN,      /* always 503 */
    GARBAGE,   /* no HTTP */
    BAD_NAMES, /* the list has names outside the folder */
    BAD_COMMIT /* the list has a commit that is a path */
} mode;

static const char *const modes[] = {"plain",   "noranges", "badrange", "badsize", "extra",
                                    "cut",     "stall",    "changes",  "away",    "near",
                                    "tofile",  "loop",     "token",    "busy",    "down",
                                    "garbage", "badnames", "badcommit"};

static const char *root, *other;
static FILE *log_file;
static unsigned requests;

typedef struct request {
    mode mode;
    const char *path; /* behind the mode */
    char authorization[128];
    int has_range;
    long first, last;
} request;

static void put(int fd, const void *bytes, size_t n)
{
    const char *at = bytes;
    while (n) {
        ssize_t did = write(fd, at, n);
        if (did <= 0)
            return;
        at += did;
        n -= (size_t)did;
    }
}

static void put_head(int fd, const char *status, const char *fields, size_t length)
{
    char text[4096];
    int n = snprintf(text, sizeof text,
                     "HTTP/1.1 %s\r\n%sContent-Length: %zu\r\nConnection: close\r\n\r\n", status,
                     fields, length);
    put(fd, text, (size_t)n);
}

static void put_text(int fd, const char *status, const char *fields, const char *text)
{
    put_head(fd, status, fields, strlen(text));
    put(fd, text, strlen(text));
}

/* Waits until the client goes away. */
static void wait_for_end(int fd)
{
    char byte;
    while (read(fd, &byte, 1) > 0)
        ;
}

/* --- files ------------------------------------------------------------------------------------ */

static void put_bytes(int fd, const request *r, FILE *in, long size)
{
    char fields[256], tag[32] = "\"one\"";
    int ranges = r->has_range && r->mode != NO_RANGES;
    long first = ranges ? r->first : 0, last = ranges ? r->last : size - 1;
    if (r->mode == CHANGES)
        snprintf(tag, sizeof tag, "\"%u\"", requests);
    if (last >= size)
        last = size - 1;
    size_t n = (size_t)(last - first + 1);
    char *body = calloc(n + 64, 1);
    if (!body || fseek(in, first, SEEK_SET) != 0 || fread(body, 1, n, in) != n)
        exit(1);
    int used = snprintf(fields, sizeof fields, "ETag: %s\r\n", tag);
    if (ranges)
        snprintf(fields + used, sizeof fields - (size_t)used,
                 "Content-Range: bytes %ld-%ld/%ld\r\n", first + (r->mode == BAD_RANGE), last,
                 size + (r->mode == BAD_SIZE ? 4096 : 0));
    put_head(fd, ranges ? "206 Partial Content" : "200 OK", fields,
             n + (r->mode == EXTRA ? 10 : 0));
    if (r->mode == CUT || r->mode == STALL)
        put(fd, body, n / 2);
    else
        put(fd, body, n + (r->mode == EXTRA ? 10 : 0));
    if (r->mode == STALL)
        wait_for_end(fd);
    free(body);
}

static void put_file(int fd, const request *r, const char *path)
{
    struct stat info;
    FILE *in = strstr(path, "..") ? NULL : fopen(path, "rb");
    if (in && fstat(fileno(in), &info) == 0 && S_ISREG(info.st_mode))
        put_bytes(fd, r, in, (long)info.st_size);
    else
        put_text(fd, "404 Not Found", "", "none\n");
    if (in)
        fclose(in);
}

static void put_list(int fd, const request *r, const char *folder)
{
    char text[65536];
    DIR *dir = opendir(folder);
    size_t n = (size_t)snprintf(text, sizeof text, "{\"sha\":\"%s\",\"siblings\":[",
                                r->mode == BAD_COMMIT ? "../../outside" : COMMIT);
    if (!dir) {
        put_text(fd, "404 Not Found", "", "{\"error\":\"Repository not found\"}");
        return;
    }
    for (struct dirent *e; (e = readdir(dir)) && n < sizeof text - 1024;)
        if (e->d_name[0] != '.')
            n += (size_t)snprintf(text + n, sizeof text - n, "{\"rfilename\":\"%s\"},", e->d_name);
    closedir(dir);
    if (r->mode == BAD_NAMES)
        n += (size_t)snprintf(text + n, sizeof text - n,
                              "{\"rfilename\":\"../../evil.safetensors\"},"
                              "{\"rfilename\":\"/tmp/evil.safetensors\"},"
                              "{\"rfilename\":\".evil.safetensors\"},{\"rfilename\":7},7,");
    snprintf(text + n, sizeof text - n, "{\"rfilename\":\"sub/folder.safetensors\"}]}");
    put_text(fd, "200 OK", "Content-Type: application/json\r\n", text);
}

/* --- requests --------------------------------------------------------------------------------- */

static void redirect(int fd, const char *format, const char *a, const char *b)
{
    char fields[2048] = "Location: ", *at = fields + strlen(fields);
    snprintf(at, sizeof fields - 16, format, a, b);
    strcat(fields, "\r\n");
    put_text(fd, "302 Found", fields, "elsewhere\n");
}

static void answer(int fd, const request *r)
{
    char path[4096], name[1024];
    const char *at;
    if (r->mode == AWAY) {
        redirect(fd, "http://127.0.0.1:%s/plain/%s", other ? other : "1", r->path);
    } else if (r->mode == NEAR) {
        redirect(fd, "/token/%s%s", r->path, "");
    } else if (r->mode == TO_FILE) {
        redirect(fd, "file:///etc/passwd%s%s", "", "");
    } else if (r->mode == LOOP) {
        redirect(fd, "/loop/%s%s", r->path, "");
    } else if (r->mode == TOKEN && strcmp(r->authorization, "Bearer secret") != 0) {
        put_text(fd, "401 Unauthorized", "", "no\n");
    } else if (r->mode == DOWN || (r->mode == BUSY && requests <= 2)) {
        put_text(fd, "503 Service Unavailable", "Retry-After: 0\r\n", "busy\n");
    } else if (r->mode == GARBAGE) {
        put(fd, "what?\r\n\r\n", 9);
    } else if (sscanf(r->path, "api/models/%1000[^/]", name) == 1) {
        const char *model = r->path + strlen("api/models/"), *end = strstr(model, "/revision/");
        snprintf(path, sizeof path, "%s/%.*s", root, (int)(end ? end - model : 0), model);
        put_list(fd, r, end ? path : "");
    } else if ((at = strstr(r->path, "/resolve/")) != NULL) {
        const char *file = strchr(at + strlen("/resolve/"), '/');
        snprintf(path, sizeof path, "%s/%.*s%s", root, (int)(at - r->path), r->path,
                 file ? file : "");
        put_file(fd, r, path);
    } else {
        snprintf(path, sizeof path, "%s/%s", root, r->path);
        put_file(fd, r, path);
    }
}

static int mode_of(const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (strlen(modes[i]) == n && strncmp(modes[i], name, n) == 0)
            return (int)i;
    return -1;
}

static void field(const char *head, const char *name, char *out, size_t size)
{
    const char *at = strstr(head, name);
    out[0] = '\0';
    if (at)
        snprintf(out, size, "%.*s", (int)strcspn(at + strlen(name), "\r\n"), at + strlen(name));
}

static void serve(int fd)
{
    char head[16384] = "", url[4096] = "", range[128];
    size_t n = 0;
    while (n < sizeof head - 1 && !strstr(head, "\r\n\r\n")) {
        ssize_t got = read(fd, head + n, sizeof head - 1 - n);
        if (got <= 0)
            return;
        n += (size_t)got;
        head[n] = '\0';
    }
    request r = {.last = -1};
    requests++;
    field(head, "\r\nAuthorization: ", r.authorization, sizeof r.authorization);
    field(head, "\r\nRange: bytes=", range, sizeof range);
    r.has_range = sscanf(range, "%ld-%ld", &r.first, &r.last) == 2;
    if (sscanf(head, "GET /%4000[^ ]", url) != 1)
        return;
    fprintf(log_file, "%s auth=%s range=%s\n", url, r.authorization, range);
    fflush(log_file);
    size_t slash = strcspn(url, "/");
    int found = mode_of(url, slash);
    if (found < 0 || !url[slash]) {
        put_text(fd, "404 Not Found", "", "no mode\n");
        return;
    }
    r.mode = (mode)found;
    r.path = url + slash + 1;
    answer(fd, &r);
}

int main(int argc, char **argv)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int server = socket(AF_INET, SOCK_STREAM, 0);
    if (argc < 3 || !(log_file = fopen(argv[2], "w")) || server < 0 ||
        bind(server, (struct sockaddr *)&at, sizeof at) != 0 || listen(server, 16) != 0 ||
        getsockname(server, (struct sockaddr *)&at, &size) != 0)
        return 2;
    root = argv[1];
    other = argc > 3 ? argv[3] : NULL;
    signal(SIGPIPE, SIG_IGN);
    alarm(600);
    printf("%u\n", (unsigned)ntohs(at.sin_port));
    fflush(stdout);
    for (;;) {
        int fd = accept(server, NULL, NULL);
        if (fd < 0)
            continue;
        serve(fd);
        shutdown(fd, SHUT_WR);
        close(fd);
    }
}
