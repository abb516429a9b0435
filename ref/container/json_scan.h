/* json_scan.h - the grammar of JSON and the limits we put on it; for json.c. */
#ifndef SB_CONTAINER_JSON_SCAN_H
#define SB_CONTAINER_JSON_SCAN_H

#include <stddef.h>

/* Walks over n bytes. NULL if they are one JSON object or array within the limits of json.h, else
 * what is wrong, and in *at the byte where. Not looked at: keys that stand twice, the range of
 * numbers, and whether strings are UTF-8. */
const char *sb_json_scan(const char *text, size_t n, size_t *at);

#endif
