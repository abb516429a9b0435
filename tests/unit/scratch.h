/* scratch.h - folders and small files for the tests of the container and of the configuration. */
#ifndef SB_TESTS_SCRATCH_H
#define SB_TESTS_SCRATCH_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ref/base/bytes.h"
#include "ref/base/status.h"

typedef struct scratch_path {
    char text[512];
} scratch_path;

/* A new empty folder. */
static inline scratch_path scratch_new(void)
{
    scratch_path dir;
    const char *base = getenv("TMPDIR");
    snprintf(dir.text, sizeof dir.text, "%s/samebit-test-XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(dir.text))
        fail_msg("cannot make a folder in %s", dir.text);
    return dir;
}

static inline scratch_path scratch_join(const char *dir, const char *name)
{
    scratch_path path;
    int n = snprintf(path.text, sizeof path.text, "%s/%s", dir, name);
    assert_true(n > 0 && (size_t)n < sizeof path.text);
    return path;
}

/* Removes a folder and what is in it; links are removed, not followed. */
static inline void scratch_remove(const char *dir)
{
    DIR *open_dir = opendir(dir);
    assert_non_null(open_dir);
    for (struct dirent *entry = readdir(open_dir); entry; entry = readdir(open_dir)) {
        struct stat info;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        scratch_path path = scratch_join(dir, entry->d_name);
        assert_int_equal(lstat(path.text, &info), 0);
        if (S_ISDIR(info.st_mode))
            scratch_remove(path.text);
        else
            assert_int_equal(unlink(path.text), 0);
    }
    closedir(open_dir);
    assert_int_equal(rmdir(dir), 0);
}

/* The number of entries in a folder. */
static inline size_t scratch_entries(const char *dir)
{
    size_t n = 0;
    DIR *open_dir = opendir(dir);
    assert_non_null(open_dir);
    while (readdir(open_dir))
        n++;
    closedir(open_dir);
    return n - 2;
}

static inline void scratch_write(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* JSON is easier to read in C with ' for ": this function restores the ". */
static inline char *scratch_json(const char *text)
{
    char *json = strdup(text);
    assert_non_null(json);
    for (char *c = json; *c; c++)
        if (*c == '\'')
            *c = '"';
    return json;
}

/* The bytes of a safetensors file: length, header (with ' for "), data_bytes bytes of a fixed
 * pattern. */
static inline unsigned char *scratch_safetensors(const char *header, size_t data_bytes, size_t *n)
{
    size_t m = strlen(header);
    unsigned char *bytes = malloc(8 + m + data_bytes);
    assert_non_null(bytes);
    char *json = scratch_json(header);
    sb_store_u64(bytes, m);
    memcpy(bytes + 8, json, m);
    free(json);
    for (size_t i = 0; i < data_bytes; i++)
        bytes[8 + m + i] = (unsigned char)(i * 37 + 11);
    *n = 8 + m + data_bytes;
    return bytes;
}

static inline void scratch_write_safetensors(const char *dir, const char *name, const char *header,
                                             size_t data_bytes)
{
    size_t n;
    unsigned char *bytes = scratch_safetensors(header, data_bytes, &n);
    scratch_write(scratch_join(dir, name).text, bytes, n);
    free(bytes);
}

static inline void scratch_write_json(const char *dir, const char *name, const char *text)
{
    char *json = scratch_json(text);
    scratch_write(scratch_join(dir, name).text, json, strlen(json));
    free(json);
}

/* Checks a status, and that an error message contains `fragment` and has one line. */
static inline void check_status(const char *what, sb_status got, const sb_error *err,
                                sb_status expected, const char *fragment)
{
    if (got != expected)
        fail_msg("%s: status %d, expected %d; message: %s", what, (int)got, (int)expected,
                 got == SB_OK ? "(none)" : err->text);
    if (got == SB_OK)
        return;
    if (fragment[0] && !strstr(err->text, fragment))
        fail_msg("%s: message \"%s\" lacks \"%s\"", what, err->text, fragment);
    if (strchr(err->text, '\n'))
        fail_msg("%s: message has more than one line: %s", what, err->text);
}

#endif
