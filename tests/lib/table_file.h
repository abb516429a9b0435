/* table_file.h - a file of constants that a program of the tests writes with MPFR. */
#ifndef SB_TESTS_LIB_TABLE_FILE_H
#define SB_TESTS_LIB_TABLE_FILE_H

#include <stdio.h>
#include <stdlib.h>

/* Created anew, with who wrote it in its first line; ends the program where it cannot be. */
static inline FILE *table_file(const char *directory, const char *name, const char *program)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *out = fopen(path, "w");
    if (!out) {
        perror(path);
        exit(3);
    }
    fprintf(out, "/* Written by %s with MPFR; do not edit. */\n", program);
    return out;
}

#endif
