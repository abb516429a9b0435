/* all32.c - every one of the 2^32 inputs of every function of ref/math/fn.h.
 *
 *   all32 --screen [FUNCTION]
 *       compares with the binary64 function of the C library where the result is beyond doubt
 *       (2^-48), otherwise with MPFR; takes minutes
 *   all32 --full FUNCTION --part I/N [--log FILE]
 *       compares all inputs of part I = 0 .. N-1 with MPFR and appends one line to FILE; a part
 *       that has its line in FILE is not run again
 *   all32 --write-exceptions FILE
 *       makes ref/math/exceptions.inc: the inputs that are ambiguous at 2^-48 (the functions test
 *       2^-49), with the results of MPFR
 *
 * Exit status 0 if nothing differs, 1 if something does, 2 for a wrong command line. */
#include <pthread.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ref/base/bytes.h"
#include "ref/base/pool.h"
#include "tests/exhaustive/oracle.h"
#include "tests/exhaustive/parts.h"

enum { BLOCK_BITS = 18, ROWS_MAX = 1 << 16 };

static const uint64_t INPUTS = (uint64_t)1 << 32;

typedef struct tally {
    uint64_t inputs, special, by_mpfr, wrong;
} tally;

/* Whether both ends of y (1 +- 2^-48) round to the same value. Zero and infinity are never certain,
 * except by overflow. */
static int certain(double y, float *rounded)
{
    double reach = y * 0x1p-48;
    float low = (float)(y - reach), high = (float)(y + reach);
    *rounded = low;
    return y != 0 && isfinite(y) && sb_bits_f32(low) == sb_bits_f32(high);
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void report(sb_fn fn, float x, float got, float want)
{
    pthread_mutex_lock(&lock);
    fprintf(stderr, "FAIL %s(%08x = %a) got %08x want %08x\n", oracle_table[fn].name,
            (unsigned)sb_bits_f32(x), (double)x, (unsigned)sb_bits_f32(got),
            (unsigned)sb_bits_f32(want));
    pthread_mutex_unlock(&lock);
}

static void check_block(sb_fn fn, uint64_t first, uint64_t end, int full, tally *t)
{
    for (uint64_t bits = first; bits < end; bits++) {
        float x = sb_f32_from_bits((uint32_t)bits), got = oracle_table[fn].run(x), want;
        if (oracle_special(fn, x, &want)) {
            t->special++;
        } else if (full || !certain(oracle_table[fn].libm((double)x), &want)) {
            want = oracle_value(fn, x);
            t->by_mpfr++;
        }
        if (sb_bits_f32(got) != sb_bits_f32(want)) {
            if (t->wrong++ < 4)
                report(fn, x, got, want);
        }
        t->inputs++;
    }
}

typedef struct sweep {
    sb_fn fn;
    uint64_t first, end;
    int full;
    tally total;
} sweep;

static void one_block(void *ctx, size_t b, size_t worker)
{
    const uint64_t size = (uint64_t)1 << BLOCK_BITS;
    sweep *s = ctx;
    tally t = {0, 0, 0, 0};
    const uint64_t from = s->first + b * size, to = from + size < s->end ? from + size : s->end;
    (void)worker;
    check_block(s->fn, from, to, s->full, &t);
    pthread_mutex_lock(&lock);
    s->total.inputs += t.inputs;
    s->total.special += t.special;
    s->total.by_mpfr += t.by_mpfr;
    s->total.wrong += t.wrong;
    pthread_mutex_unlock(&lock);
}

static tally check(sb_fn fn, uint64_t first, uint64_t end, int full)
{
    const uint64_t size = (uint64_t)1 << BLOCK_BITS;
    sweep s = {fn, first, end, full, {0, 0, 0, 0}};
    sb_parallel_in_order((size_t)((end - first + size - 1) / size), 1, one_block, &s);
    return s.total;
}

static int find(const char *name)
{
    for (int fn = 0; fn < SB_FN_COUNT; fn++)
        if (strcmp(name, oracle_table[fn].name) == 0)
            return fn;
    return -1;
}

static int close_with(unsigned passed, unsigned failed)
{
    printf("%u passed, %u failed\n", passed, failed);
    return failed || passed == 0 ? 1 : 0;
}

static int screen(int only)
{
    unsigned passed = 0, failed = 0;
    for (int fn = 0; fn < SB_FN_COUNT; fn++) {
        if (only >= 0 && fn != only)
            continue;
        double start = seconds();
        tally t = check((sb_fn)fn, 0, INPUTS, 0);
        int good = t.wrong == 0 && t.inputs == INPUTS;
        printf(
            "%s screen %s: %llu inputs, %llu special, %llu by MPFR, %llu wrong, %.1f s on %d threads\n",
            good ? "PASS" : "FAIL", oracle_table[fn].name, (unsigned long long)t.inputs,
            (unsigned long long)t.special, (unsigned long long)t.by_mpfr,
            (unsigned long long)t.wrong, seconds() - start, (int)sb_threads());
        fflush(stdout);
        passed += good ? 1 : 0;
        failed += good ? 0 : 1;
    }
    return close_with(passed, failed);
}

static int full(int fn, unsigned part, unsigned parts, const char *log)
{
    char key[64], line[256];
    snprintf(key, sizeof key, "full %s %u/%u ", oracle_table[fn].name, part, parts);
    if (part_logged(log, key)) {
        printf("%salready in %s\n", key, log);
        return close_with(1, 0);
    }
    double start = seconds();
    uint64_t first = INPUTS * part / parts, end = INPUTS * (part + 1) / parts;
    tally t = check((sb_fn)fn, first, end, 1);
    int good = t.wrong == 0 && t.inputs == end - first && t.inputs > 0;
    snprintf(line, sizeof line, "%s%s %llu inputs, %llu wrong, %.1f s\n", key,
             good ? "PASS" : "FAIL", (unsigned long long)t.inputs, (unsigned long long)t.wrong,
             seconds() - start);
    fputs(line, stdout);
    if (!part_log(log, line))
        return 3;
    return close_with(good ? 1 : 0, good ? 0 : 1);
}

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

typedef struct search {
    sb_fn fn;
    uint32_t *rows;
    size_t count;
} search;

static void search_block(void *ctx, size_t b, size_t worker)
{
    search *s = ctx;
    (void)worker;
    for (uint64_t i = 0; i < (uint64_t)1 << BLOCK_BITS; i++) {
        uint32_t bits = (uint32_t)(((uint64_t)b << BLOCK_BITS) + i);
        float x = sb_f32_from_bits(bits), rounded;
        if (!oracle_asks_core(s->fn, x))
            continue;
        double y = oracle_table[s->fn].core((double)x);
        if (y == 0 || certain(y, &rounded))
            continue;
        pthread_mutex_lock(&lock);
        if (s->count < ROWS_MAX)
            s->rows[s->count++] = bits;
        pthread_mutex_unlock(&lock);
    }
}

/* Collects the ambiguous inputs of one function, in order; returns their number. */
static size_t ambiguous(sb_fn fn, uint32_t *rows)
{
    search s = {fn, rows, 0};
    sb_parallel_in_order((size_t)(INPUTS >> BLOCK_BITS), 1, search_block, &s);
    qsort(rows, s.count, sizeof rows[0], by_value);
    return s.count;
}

static int write_exceptions(const char *path)
{
    static uint32_t rows[ROWS_MAX];
    FILE *out = fopen(path, "w");
    if (!out) {
        perror(path);
        return 3;
    }
    fprintf(out,
            "/* Written by tests/exhaustive/all32.c --write-exceptions with MPFR; do not edit.\n"
            " * Inputs whose result is within 2^-48 of a change of rounding, and the result. */\n");
    for (int fn = 0; fn < SB_FN_COUNT; fn++) {
        size_t count = ambiguous((sb_fn)fn, rows);
        printf("%s: %zu exceptions\n", oracle_table[fn].name, count);
        fprintf(out, "\nstatic const sb_fn_exception exceptions_%s[] = {", oracle_table[fn].name);
        for (size_t i = 0; i < count; i++)
            fprintf(out, "%s{0x%08x, 0x%08x},", i % 4 == 0 ? "\n    " : " ", (unsigned)rows[i],
                    (unsigned)sb_bits_f32(oracle_value((sb_fn)fn, sb_f32_from_bits(rows[i]))));
        fprintf(out, "\n};\n");
        if (count == 0 || count == ROWS_MAX)
            return close_with(0, 1);
    }
    return fclose(out) == 0 ? 0 : 3;
}

static int usage(void)
{
    fprintf(
        stderr,
        "usage: all32 --screen [FUNCTION] | --full FUNCTION --part I/N [--log FILE] | --write-exceptions FILE\n");
    return 2;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    int fn = argc > 2 ? find(argv[2]) : -1;
    if (strcmp(mode, "--screen") == 0 && (argc == 2 || (argc == 3 && fn >= 0)))
        return screen(fn);
    if (strcmp(mode, "--write-exceptions") == 0 && argc == 3)
        return write_exceptions(argv[2]);
    if (strcmp(mode, "--full") == 0 && fn >= 0 && (argc == 5 || argc == 7)) {
        unsigned part, parts;
        const char *log = argc == 7 && strcmp(argv[5], "--log") == 0 ? argv[6] : NULL;
        if (strcmp(argv[3], "--part") == 0 && sscanf(argv[4], "%u/%u", &part, &parts) == 2 &&
            parts > 0 && part < parts && (argc == 5 || log))
            return full(fn, part, parts, log);
    }
    return usage();
}
