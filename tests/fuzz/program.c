#define _GNU_SOURCE

#include "tests/fuzz/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define main samebit_main
#include "tools/cli/main.c"
#undef main

/* A memory file, made once: 0 for stdout, 1 for stderr. */
static int file_of(int i)
{
    static int files[2] = {-1, -1};
    if (files[i] < 0)
        files[i] = memfd_create("printed", MFD_CLOEXEC);
    if (files[i] < 0 || ftruncate(files[i], 0) != 0 || lseek(files[i], 0, SEEK_SET) != 0)
        abort();
    return files[i];
}

void printed_begin(printed *p)
{
    *p = (printed){.out = -1};
    fflush(stdout);
    p->out = dup(STDOUT_FILENO);
    p->err = dup(STDERR_FILENO);
    if (p->out < 0 || p->err < 0 || dup2(file_of(0), STDOUT_FILENO) < 0 ||
        dup2(file_of(1), STDERR_FILENO) < 0)
        abort();
}

static char *read_back(int fd, size_t *size)
{
    off_t end = lseek(fd, 0, SEEK_END);
    char *text = end < 0 ? NULL : malloc((size_t)end + 1);
    if (!text || pread(fd, text, (size_t)end, 0) != end)
        abort();
    text[end] = '\0';
    *size = (size_t)end;
    return text;
}

void printed_end(printed *p)
{
    fflush(stdout);
    fflush(stderr);
    p->out_text = read_back(STDOUT_FILENO, &p->out_size);
    p->err_text = read_back(STDERR_FILENO, &p->err_size);
    if (dup2(p->out, STDOUT_FILENO) < 0 || dup2(p->err, STDERR_FILENO) < 0)
        abort();
    close(p->out);
    close(p->err);
}

void printed_free(printed *p)
{
    free(p->out_text);
    free(p->err_text);
}
