/* program.h - the program inside a fuzz target: its main, and its output. */
#ifndef SB_TESTS_FUZZ_PROGRAM_H
#define SB_TESTS_FUZZ_PROGRAM_H

#include <stddef.h>

/* The program's own main, under another name. */
int samebit_main(int argc, char **argv);

/* From printed_begin to printed_end, stdout and stderr of this process go to two files. */
typedef struct printed {
    int out, err;              /* the previous descriptors */
    char *out_text, *err_text; /* set by printed_end, freed by printed_free */
    size_t out_size, err_size;
} printed;

void printed_begin(printed *p);
void printed_end(printed *p);
void printed_free(printed *p);

#endif
