/* print.h - prints into memory first, and from there into a file or a pack. */
#ifndef SB_REPORT_PRINT_H
#define SB_REPORT_PRINT_H

#include <stdio.h>

#include "ref/base/status.h"

/* Prints something; 0 if memory is out. */
typedef int (*sb_print_fn)(FILE *out, const void *ctx);

/* The caller frees *text. what: the name of the output in messages. */
sb_status sb_print_memory(sb_print_fn print, const void *ctx, const char *what, char **text,
                          size_t *size, sb_error *err);

/* Writes the whole file or none. */
sb_status sb_print_file(const char *path, sb_print_fn print, const void *ctx, const char *what,
                        sb_error *err);

#endif
