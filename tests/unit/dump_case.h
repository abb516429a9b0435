/* dump_case.h - files of arrays played into what a test looks at; for the tests of tools/dump. */
#ifndef SB_TESTS_DUMP_CASE_H
#define SB_TESTS_DUMP_CASE_H

#include "tests/unit/scratch.h"
#include "tools/dump/dump.h"

/* What the steps of a file were. */
typedef struct dump_seen {
    size_t steps, rows, taps, unknown, decodes;
    size_t most_rows; /* of one step */
    uint32_t vocab_size, last_id;
    char first_unknown[96];
    int check; /* values follow the rule of dump_value */
} dump_seen;

/* What a test gives with a file; ids of one sequence end with NO_ID, of all with two of them. */
enum { NO_ID = 0x7fffffff };
typedef struct dump_given {
    uint32_t ids[16];
    const char *map, *as; /* a path, a kind */
    uint32_t vocab_size;
} dump_given;

/* Element i of a tap, as tools/record/dump_fixtures.py makes it. */
float dump_value(const char *tap, size_t i);

/* An sb_step_fn: ctx is a dump_seen. */
sb_status dump_take(void *ctx, const sb_step *step, sb_error *err);

/* Opens and plays; fails the test where a value that is to be checked is another. */
sb_status dump_play(const char *path, const dump_given *given, dump_seen *seen, sb_error *err);

/* Plays a file that is fine, or one that is not and says `fragment`. */
void dump_expect(const char *path, const dump_given *given, dump_seen *seen);
void dump_refuse(const char *path, const dump_given *given, sb_status status, const char *fragment);

/* The bytes of a file, for the caller to free(). */
unsigned char *dump_bytes(const char *path, size_t *size);

#endif
