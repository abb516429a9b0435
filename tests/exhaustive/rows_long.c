/* rows_long.c - compares every kernel and the functions for many inputs over millions of rows, in
 * parts:
 *
 *     rows_long --matrices N --part I/P [--log FILE]
 *
 * runs part I = 0 .. P-1 of the first N matrices of tests/prop/rows.h and appends one line to FILE.
 * A part that has its line in FILE is not run again.
 *
 * The matrices differ from those of prop_rows. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "ref/base/rng.h"
#include "ref/fast/dot/dot.h"
#include "tests/exhaustive/parts.h"
#include "tests/prop/rows_compare.h"

typedef struct tally {
    unsigned long long rows, wrong;
} tally;

static tally compare(uint64_t first, uint64_t end)
{
    static rows_case c;
    const uint64_t key = sb_rng_key(42, "rows, long");
    tally t = {0, 0};
    for (uint64_t i = first; i < end; i++) {
        float want[ROWS_MOST * ROWS_INPUTS];
        char text[256];
        rows_make(&c, key, i);
        rows_define(&c, want);
        size_t wrong = rows_compare(&c, want, text);
        if (wrong > 0 && t.wrong == 0)
            printf("%s\n", text);
        t.rows += c.count * c.matrix.rows;
        t.wrong += wrong;
    }
    return t;
}

static int run(uint64_t matrices, unsigned part, unsigned parts, const char *log)
{
    char key[80], line[256];
    snprintf(key, sizeof key, "rows of %llu matrices %u/%u ", (unsigned long long)matrices, part,
             parts);
    if (part_logged(log, key)) {
        printf("%salready in %s\n1 passed, 0 failed, 0 skipped\n", key, log);
        return 0;
    }
    const clock_t start = clock();
    const tally t = compare(matrices * part / parts, matrices * (part + 1) / parts);
    const int good = t.wrong == 0 && t.rows > 0;
    snprintf(line, sizeof line, "%s%s %llu rows, %llu wrong, %.1f s\n", key, good ? "PASS" : "FAIL",
             t.rows, t.wrong, (double)(clock() - start) / CLOCKS_PER_SEC);
    fputs(line, stdout);
    if (!part_log(log, line))
        return 3;
    printf("%d passed, %d failed, 0 skipped\n", good, !good);
    return !good;
}

int main(int argc, char **argv)
{
    unsigned long long matrices;
    unsigned part, parts;
    sb_error err;
    const char *log = argc == 7 && strcmp(argv[5], "--log") == 0 ? argv[6] : NULL;
    if (sb_math_start(NULL, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 2;
    }
    if ((argc == 5 || log) && strcmp(argv[1], "--matrices") == 0 &&
        sscanf(argv[2], "%llu", &matrices) == 1 && strcmp(argv[3], "--part") == 0 &&
        sscanf(argv[4], "%u/%u", &part, &parts) == 2 && part < parts)
        return run(matrices, part, parts, log);
    fprintf(stderr, "usage: rows_long --matrices N --part I/P [--log FILE]\n");
    return 2;
}
