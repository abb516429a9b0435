/* json_scan.h - the grammar of JSON and the limits we put on it; for json.c and json_build.c. */
#ifndef SB_CONTAINER_JSON_SCAN_H
#define SB_CONTAINER_JSON_SCAN_H

#include <stddef.h>

/* What it takes to build a text's values. */
typedef struct sb_json_need {
    size_t memory; /* bytes, about: mean texts take up to 90 times their size */
    size_t token;  /* bytes of its longest string or number, as it is written */
} sb_json_need;

/* Walks over n bytes. NULL if they are one JSON object or array within the limits of json.h, else
 * what is wrong, and in *at the byte where. Not looked at: keys that stand twice, the range of
 * numbers, and whether strings are UTF-8. loose: an integer -0 is taken. */
const char *sb_json_scan(const char *text, size_t n, int loose, size_t *at, sb_json_need *need);

/* The four digits of \uXXXX, or -1. */
int sb_json_hex4(const char *text);

/* The next member of an object that a scan found sound, from *at on, which stands behind its '{' at
 * first: key and value are spans of the text. 0 at the end. */
typedef struct sb_json_member {
    size_t key, key_end; /* with its quotes */
    size_t value, value_end;
} sb_json_member;
int sb_json_next(const char *text, size_t n, size_t *at, sb_json_member *out);

#endif
