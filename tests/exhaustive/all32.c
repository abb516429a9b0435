/* all32.c - every one of the 2^32 inputs of every function of ref/math/fn.h.
 *
 *   all32 --screen [FUNCTION]             against the C library's binary64 function where that
 * leaves no doubt (2^-48), against MPFR where it does; minutes all32 --full FUNCTION --part I/N
 * [--log FILE] part I = 0 .. N-1 of the inputs against MPFR, all of them; one line is appended to
 * FILE, and a part already there is not run all32 --write-exceptions FILE         makes
 * ref/math/exceptions.inc: inputs that are ambiguous at 2^-48 (the functions test 2^-49), and
 * MPFR's results
 *
 * Exit status 0 if nothing differs, 1 if something does, 2 for a wrong command line. */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "tests/exhaustive/oracle.h"
#include "tests/exhaustive/parts.h"

enum { BLOCK_BITS = 18, ROWS_MAX = 1 << 16 };

static const uint64_t INPUTS = (uint64_t)1 << 32;

typedef struct tally {
    uint64_t inputs, special, by_mpfr, wrong;
} tally;

/* Both ends of y (1 +- 2^-48) round alike. Zero and infinity are never certain, but for overflow.
 */
static int certain(double y, float *rounded)
{
    double reach = y * 0x1p-48;
    float low = (float)(y - reach), high = (float)(y + reach);
    *rounded = low;
    return y != 0 && isfinite(y) && sb_bits_f32(low) == sb_bits_f32(high);
}

static void report(sb_fn fn, float x, float got, float want)
{
#pragma omp critical
    fprintf(stderr, "FAIL %s(%08x = %a) got %08x want %08x\n", oracle_table[fn].name,
            (unsigned)sb_bits_f32(x), (double)x, (unsigned)sb_bits_f32(got),
            (unsigned)sb_bits_f32(want));
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

static tally check(sb_fn fn, uint64_t first, uint64_t end, int full)
{
    uint64_t inputs = 0, special = 0, by_mpfr = 0, wrong = 0;
    uint64_t size = (uint64_t)1 << BLOCK_BITS, blocks = (end - first + size - 1) / size;
#pragma omp parallel for schedule(dynamic) reduction(+ : inputs, special, by_mpfr, wrong)
    for (uint64_t b = 0; b < blocks; b++) {
        tally t = {0, 0, 0, 0};
        uint64_t from = first + b * size, to = from + size < end ? from + size : end;
        check_block(fn, from, to, full, &t);
        inputs += t.inputs;
        special += t.special;
        by_mpfr += t.by_mpfr;
        wrong += t.wrong;
    }
    tally total = {inputs, special, by_mpfr, wrong};
    return total;
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
        double start = omp_get_wtime();
        tally t = check((sb_fn)fn, 0, INPUTS, 0);
        int good = t.wrong == 0 && t.inputs == INPUTS;
        printf("%s screen %s: %llu inputs, %llu special, %llu by MPFR, %llu wrong, "
               "%.1f s on %d threads\n",
               good ? "PASS" : "FAIL", oracle_table[fn].name, (unsigned long long)t.inputs,
               (unsigned long long)t.special, (unsigned long long)t.by_mpfr,
               (unsigned long long)t.wrong, omp_get_wtime() - start, omp_get_max_threads());
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
    double start = omp_get_wtime();
    uint64_t first = INPUTS * part / parts, end = INPUTS * (part + 1) / parts;
    tally t = check((sb_fn)fn, first, end, 1);
    int good = t.wrong == 0 && t.inputs == end - first && t.inputs > 0;
    snprintf(line, sizeof line, "%s%s %llu inputs, %llu wrong, %.1f s\n", key,
             good ? "PASS" : "FAIL", (unsigned long long)t.inputs, (unsigned long long)t.wrong,
             omp_get_wtime() - start);
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

/* Collects the ambiguous inputs of one function, in order; returns how many. */
static size_t ambiguous(sb_fn fn, uint32_t *rows)
{
    size_t count = 0;
#pragma omp parallel for schedule(dynamic)
    for (uint64_t b = 0; b < INPUTS >> BLOCK_BITS; b++) {
        for (uint64_t i = 0; i < (uint64_t)1 << BLOCK_BITS; i++) {
            uint32_t bits = (uint32_t)((b << BLOCK_BITS) + i);
            float x = sb_f32_from_bits(bits), rounded;
            if (!oracle_asks_core(fn, x))
                continue;
            double y = oracle_table[fn].core((double)x);
            if (y == 0 || certain(y, &rounded))
                continue;
#pragma omp critical
            if (count < ROWS_MAX)
                rows[count++] = bits;
        }
    }
    qsort(rows, count, sizeof rows[0], by_value);
    return count;
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
    fprintf(stderr, "usage: all32 --screen [FUNCTION] | --full FUNCTION --part I/N [--log FILE] | "
                    "--write-exceptions FILE\n");
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
