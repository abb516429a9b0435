/* table_file.h - a file of constants, written with MPFR by a program of the tests. */
#ifndef SB_TESTS_LIB_TABLE_FILE_H
#define SB_TESTS_LIB_TABLE_FILE_H

#include <stdio.h>
#include <stdlib.h>

/* Creates the file. Its first line names the program that writes it. Exits if the file cannot be
 * created. */
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
