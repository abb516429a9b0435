/* dump_case.h - plays files of arrays and counts what the steps contain; for the tests of
 * tools/dump. */
#ifndef SB_TESTS_DUMP_CASE_H
#define SB_TESTS_DUMP_CASE_H

#include "tests/unit/scratch.h"
#include "tools/dump/dump.h"

/* What the steps of a file contained. */
typedef struct dump_seen {
    size_t steps, rows, taps, unknown, decodes;
    size_t most_rows; /* the most rows in one step */
    uint32_t vocab_size, last_id;
    char first_unknown[96];
    int check; /* check the values against dump_value */
} dump_seen;

/* What a test passes along with a file. NO_ID ends the ids of a sequence; two of them end all
 * ids. */
enum { NO_ID = 0x7fffffff };
typedef struct dump_given {
    uint32_t ids[16];
    const char *map, *as; /* a path, a kind */
    uint32_t vocab_size;
} dump_given;

/* The value of element i of a tap; the same rule as in tools/record/dump_fixtures.py. */
float dump_value(const char *tap, size_t i);

/* An sb_step_fn; ctx is a dump_seen. */
sb_status dump_take(void *ctx, const sb_step *step, sb_error *err);

/* Opens and plays a file. Fails the test if seen->check is set and a value is wrong. */
sb_status dump_play(const char *path, const dump_given *given, dump_seen *seen, sb_error *err);

/* dump_expect plays a good file. dump_refuse plays a bad one, whose message must contain
 * `fragment`. */
void dump_expect(const char *path, const dump_given *given, dump_seen *seen);
void dump_refuse(const char *path, const dump_given *given, sb_status status, const char *fragment);

/* The bytes of a file; the caller releases them with free(). */
unsigned char *dump_bytes(const char *path, size_t *size);

#endif
