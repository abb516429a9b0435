/* make_bad.c - writes golden/bad: make_bad FOLDER. The bytes are a function of bad_corpus.h alone.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "tests/fuzz/bad_bytes.h"

static void die(const char *path)
{
    perror(path);
    exit(3);
}

/* Writes folder/name. If name contains a folder, it is made. */
static void write_file(const char *folder, const char *name, const void *bytes, size_t n)
{
    char path[1024];
    const char *slash = strchr(name, '/');
    if (slash) {
        snprintf(path, sizeof path, "%s/%.*s", folder, (int)(slash - name), name);
        if (mkdir(path, 0777) != 0 && errno != EEXIST)
            die(path);
    }
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(bytes, 1, n, f) != n || fclose(f) != 0)
        die(path);
}

/* Writes the list for people and for tests in any language. */
static void write_expected(const char *folder)
{
    static char text[64 * 1024];
    size_t n = (size_t)snprintf(text, sizeof text,
                                "# Written by tests/fuzz/make_bad.c from tests/fuzz/bad_corpus.h.\n"
                                "# name: exit status: a part of the message\n");
    for (size_t i = 0; i < BAD_CASES; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s: %d: %s\n", bad_cases[i].name,
                              bad_cases[i].exit_status, bad_cases[i].fragment);
    write_file(folder, "EXPECTED", text, n);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    if (mkdir(argv[1], 0777) != 0 && errno != EEXIST)
        die(argv[1]);
    for (size_t i = 0; i < BAD_FILES; i++) {
        unsigned char bytes[BAD_MOST];
        write_file(argv[1], bad_files[i].path, bytes, bad_bytes(&bad_files[i], bytes));
    }
    write_expected(argv[1]);
    return 0;
}
