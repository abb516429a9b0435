/* npy_rows.c - for the scripts of this folder: npy_rows F.npy checks what --logits wrote.
 *
 * Prints "ROWS COLS" and then the digest (D-2) of every row. Exit 1 says what is wrong with the
 * file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/hash.h"

static int wrong(const char *what)
{
    fprintf(stderr, "npy_rows: %s\n", what);
    return 1;
}

/* The digests of all rows after the header. */
static int print_rows(FILE *f, size_t rows, size_t cols)
{
    unsigned char bytes[4];
    float *row = malloc(cols * sizeof *row);
    if (!row)
        return wrong("out of memory");
    printf("%zu %zu\n", rows, cols);
    for (size_t r = 0; r < rows; r++) {
        for (size_t i = 0; i < cols; i++) {
            if (fread(bytes, 1, 4, f) != 4) {
                free(row);
                return wrong("too few elements");
            }
            row[i] = sb_f32_from_bits(sb_load_u32(bytes));
        }
        printf("%s\n", sb_digest_f32(row, cols).hex);
    }
    free(row);
    return fgetc(f) == EOF ? 0 : wrong("bytes behind the last element");
}

int main(int argc, char **argv)
{
    unsigned char head[10];
    char text[4096];
    size_t rows = 0, cols = 0, length = 0;
    FILE *f = argc == 2 ? fopen(argv[1], "rb") : NULL;
    if (!f)
        return wrong("usage: npy_rows F.npy");
    int status = 0;
    if (fread(head, 1, 10, f) != 10 || memcmp(head, "\x93NUMPY\x01\x00", 8) != 0)
        status = wrong("no NumPy 1.0 file");
    else if ((length = sb_load_u16(head + 8)) >= sizeof text || (10 + length) % 64 != 0)
        status = wrong("the header is not aligned to 64 bytes");
    else if (fread(text, 1, length, f) != length || text[length - 1] != '\n')
        status = wrong("the header does not end in a line feed");
    text[status ? 0 : length] = '\0';
    if (!status && sscanf(text, "{'descr': '<f4', 'fortran_order': False, 'shape': (%zu, %zu)",
                          &rows, &cols) != 2)
        status = wrong("the header is not that of a matrix of float32 in C order");
    if (!status)
        status = print_rows(f, rows, cols);
    fclose(f);
    return status;
}
