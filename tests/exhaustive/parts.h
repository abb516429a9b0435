/* parts.h - long checks in parts. A log says which parts are done. */
#ifndef SB_TESTS_PARTS_H
#define SB_TESTS_PARTS_H

/* Whether the log has a line that starts with `key` and says PASS; path may be NULL. */
int part_logged(const char *path, const char *key);

/* Appends a line; zero, and a message, if that fails. */
int part_log(const char *path, const char *line);

#endif
