#define _XOPEN_SOURCE 700

#include "tests/fuzz/made_files.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ref/container/file.h"

enum { MOST_TEXT = 1 << 20 };

static void sure(int holds, const char *path)
{
    if (holds)
        return;
    perror(path);
    abort();
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *at)
{
    (void)info;
    (void)kind;
    return at->level > 0 && remove(path) != 0;
}

void files_empty(const char *folder)
{
    sure(nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0, folder);
}

void files_write(const char *folder, const char *name, const void *bytes, size_t size)
{
    char *path = sb_path_join(folder, name);
    FILE *file = path ? fopen(path, "wb") : NULL;
    sure(file && fwrite(bytes, 1, size, file) == size && fclose(file) == 0, name);
    free(path);
}

void files_write_text(const char *folder, const char *name, const char *text)
{
    files_write(folder, name, text, strlen(text));
}

void files_link(const char *from, const char *name, const char *folder)
{
    char *there = sb_path_join(from, name), *here = sb_path_join(folder, name);
    sure(there && here && link(there, here) == 0, name);
    free(there);
    free(here);
}

char *files_text(const char *folder, const char *name)
{
    char *path = sb_path_join(folder, name);
    unsigned char *bytes;
    size_t size;
    sb_error err;
    sure(path && sb_read_file(path, MOST_TEXT, &bytes, &size, &err) == SB_OK, name);
    char *text = realloc(bytes, size + 1);
    sure(text != NULL, name);
    text[size] = '\0';
    free(path);
    return text;
}
