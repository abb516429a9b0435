/* json_scan.h - the grammar of JSON and the limits of json.h. Used by json.c and json_build.c. */
#ifndef SB_CONTAINER_JSON_SCAN_H
#define SB_CONTAINER_JSON_SCAN_H

#include <stddef.h>

/* The memory needed to build the values of a text. */
typedef struct sb_json_need {
    size_t memory; /* estimated bytes; hostile texts need up to 90 times their size */
    size_t token;  /* bytes of the longest string or number as written in the text */
} sb_json_need;

/* Checks n bytes. Returns NULL if they are one JSON object or array within the limits of json.h;
 * else describes the error and sets *at to its byte. Does not check for repeated keys, the range of
 * numbers, or valid UTF-8. loose: accepts an integer -0. */
const char *sb_json_scan(const char *text, size_t n, int loose, size_t *at, sb_json_need *need);

/* The value of the four digits of \uXXXX, or -1. */
int sb_json_hex4(const char *text);

/* Finds the next member, from *at on, of an object that passed the scan. The first *at is the
 * position after the '{'. The struct has the spans of key and value in the text. Returns 0 at the
 * end. */
typedef struct sb_json_member {
    size_t key, key_end; /* with its quotes */
    size_t value, value_end;
} sb_json_member;
int sb_json_next(const char *text, size_t n, size_t *at, sb_json_member *out);

#endif
