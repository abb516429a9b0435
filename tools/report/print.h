/* print.h - what is printed goes whole into memory first, and from there into a file or a pack. */
#ifndef SB_REPORT_PRINT_H
#define SB_REPORT_PRINT_H

#include <stdio.h>

#include "ref/base/status.h"

/* Prints something; 0 if memory is out. */
typedef int (*sb_print_fn)(FILE *out, const void *ctx);

/* *text is for the caller to free(). what: of which it is, for the message. */
sb_status sb_print_memory(sb_print_fn print, const void *ctx, const char *what, char **text,
                          size_t *size, sb_error *err);

/* Whole, or not at all. */
sb_status sb_print_file(const char *path, sb_print_fn print, const void *ctx, const char *what,
                        sb_error *err);

#endif
