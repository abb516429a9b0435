/* test_gpu_math.c - compares the functions of gpu/math with those of ref/math, which are correctly
 * rounded.
 *
 *   test_gpu_math                      every 4099th of the 2^32 arguments, and the difficult ones;
 *                                      with CHECK_ALL=1 in the environment every 61st
 *   test_gpu_math --all [FUNCTION]     every argument
 *   test_gpu_math --write DIRECTORY [FUNCTION]
 *                                      with math_functions.cc compiled with -DSB_GPU_MATH_BARE:
 *                                      writes the tables of exceptions
 *
 * Exit status 0 if nothing differs, 1 if something does, 2 for a wrong command line. */
#include <pthread.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/pool.h"
#include "ref/math/fn.h"
#include "tests/gpu/math_functions.h"
#include "tests/lib/check_all.h"

enum { STRIDE = 4099, KEPT = 4096, BLOCK = 1 << 18 };

static const uint64_t INPUTS = (uint64_t)1 << 32, NEGATIVE = (uint64_t)1 << 31;

typedef float function(float);

typedef struct difference {
    uint32_t input, got, right;
} difference;

/* The result of a comparison, with the first differences. */
typedef struct tally {
    uint64_t inputs, wrong, worst;
    difference row[KEPT];
} tally;

/* The number of representable values between two results of one sign; very large for different
 * signs. */
static uint64_t steps(uint32_t a, uint32_t b)
{
    return (a ^ b) >> 31 ? INPUTS : a > b ? a - b : b - a;
}

static int differs(function *run, function *right, uint32_t input, difference *d)
{
    float x = sb_f32_from_bits(input);
    *d = (difference){input, sb_bits_f32(run(x)), sb_bits_f32(right(x))};
    return d->got != d->right;
}

static void note(tally *t, const difference *d)
{
    if (t->wrong < KEPT)
        t->row[t->wrong] = *d;
    t->wrong++;
    if (steps(d->got, d->right) > t->worst)
        t->worst = steps(d->got, d->right);
}

static void look(function *run, function *right, uint32_t input, tally *t)
{
    difference d;
    t->inputs++;
    if (differs(run, right, input, &d))
        note(t, &d);
}

typedef struct sweeping {
    function *run, *right;
    uint64_t first, stride, count;
    tally *t;
    pthread_mutex_t lock; /* protects t */
} sweeping;

static void sweep_block(void *ctx, size_t b, size_t worker)
{
    sweeping *s = ctx;
    const uint64_t stop = (b + 1) * BLOCK < s->count ? (b + 1) * BLOCK : s->count;
    (void)worker;
    for (uint64_t i = b * BLOCK; i < stop; i++) {
        difference d;
        if (!differs(s->run, s->right, (uint32_t)(s->first + i * s->stride), &d))
            continue;
        pthread_mutex_lock(&s->lock);
        note(s->t, &d);
        pthread_mutex_unlock(&s->lock);
    }
}

/* Compares all inputs from first to end in steps of `stride`. */
static void sweep(function *run, function *right, uint64_t first, uint64_t end, uint64_t stride,
                  tally *t)
{
    const uint64_t count = (end - first + stride - 1) / stride;
    sweeping s = {run, right, first, stride, count, t, PTHREAD_MUTEX_INITIALIZER};
    sb_parallel_in_order((size_t)((count + BLOCK - 1) / BLOCK), 1, sweep_block, &s);
    t->inputs += count;
}

static void near_by(const math_function *f, function *right, uint32_t input, tally *t)
{
    if (math_function_asked(f, input))
        look(f->run, right, input, t);
}

/* The ends and the middle of every binade, the arguments in the table and their neighbours, of both
 * signs; for rsqrt, also in another binade. */
static void difficult(const math_function *f, function *right, tally *t)
{
    for (uint32_t field = 0; field < 512; field++)
        for (uint32_t near = 0; near < 9; near++) {
            near_by(f, right, (field << 23) + near - 4, t);
            near_by(f, right, (field << 23) + 0x400000u + near - 4, t);
        }
    for (int i = 0; i < f->count; i++)
        for (uint32_t near = 0; near < 3; near++) {
            uint32_t input = f->exceptions[2 * i] + near - 1;
            near_by(f, right, input, t);
            near_by(f, right, input ^ 0x80000000u, t);
            near_by(f, right, input + 0x0f000000u, t);
        }
}

static int check(const math_function *f, uint64_t stride)
{
    static tally t;
    function *right = f->right;
    memset(&t, 0, sizeof t);
    uint64_t first = f->partial ? f->above : 0, end = f->partial ? f->above_end : INPUTS;
    sweep(f->run, right, first, end, stride, &t);
    difficult(f, right, &t);
    int good = t.wrong == 0 && t.inputs >= (end - first) / STRIDE;
    printf("%s %s: %llu arguments, %llu are not correctly rounded, off by at most %llu units\n",
           good ? "PASS" : "FAIL", f->name, (unsigned long long)t.inputs,
           (unsigned long long)t.wrong, (unsigned long long)t.worst);
    for (uint64_t i = 0; i < t.wrong && i < 4; i++)
        printf("  %08x gives %08x, not %08x\n", (unsigned)t.row[i].input, (unsigned)t.row[i].got,
               (unsigned)t.row[i].right);
    fflush(stdout);
    return good;
}

/* A fault that the comparison must detect: one ulp, only at arguments around 1. */
static float planted(float x)
{
    float y = sb_exp(x);
    return x > 0.9f && x < 1.1f ? sb_f32_from_bits(sb_bits_f32(y) + 1) : y;
}

static int check_plant(void)
{
    static tally t;
    sweep(planted, sb_exp, 0, INPUTS, STRIDE, &t);
    int seen = t.wrong > 0 && t.worst == 1;
    printf("%s a unit planted in exp is %s\n", seen ? "PASS" : "FAIL", seen ? "seen" : "not seen");
    return seen;
}

static uint32_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 32);
}

/* Compares the host's fused multiply-add, made of binary64 operations, with that of the C library:
 * operands of all sizes, sums that nearly cancel, subnormal results. */
static int check_fma(void)
{
    enum { CASES = 2000000 };
    uint64_t state = 42, wrong = 0;
    for (int i = 0; i < CASES; i++) {
        float a = sb_f32_from_bits(next(&state)), b = sb_f32_from_bits(next(&state));
        float c = sb_f32_from_bits(next(&state));
        if (i % 4 == 1)
            c = -(a * b) * sb_f32_from_bits(0x3f800000u + next(&state) % 5 - 2);
        if (i % 4 == 2) {
            a = sb_f32_from_bits(0x1f800000u + next(&state) % 0x1000000u);
            b = sb_f32_from_bits(0x1f800000u + next(&state) % 0x1000000u);
            c = sb_f32_from_bits(next(&state) & 0x80ffffffu);
        }
        float got = math_fma_in_double(a, b, c), right = fmaf(a, b, c);
        wrong += (got == got || right == right) && sb_bits_f32(got) != sb_bits_f32(right);
    }
    printf("%s fma in binary64: %llu of %d differ\n", wrong ? "FAIL" : "PASS",
           (unsigned long long)wrong, CASES);
    return wrong == 0;
}

static int by_input(const void *a, const void *b)
{
    uint32_t x = ((const difference *)a)->input, y = ((const difference *)b)->input;
    return x < y ? -1 : x > y;
}

static int write_rows(const char *directory, const math_function *f)
{
    static tally t;
    char path[512];
    function *right = f->right;
    memset(&t, 0, sizeof t);
    sweep(f->run, right, f->above, f->above_end, 1, &t);
    sweep(f->run, right, NEGATIVE + f->below, NEGATIVE + f->below_end, 1, &t);
    size_t rows = t.wrong < KEPT ? (size_t)t.wrong : KEPT;
    qsort(t.row, rows, sizeof *t.row, by_input);
    snprintf(path, sizeof path, "%s/%s_exceptions.inc", directory, f->name);
    FILE *out = fopen(path, "w");
    if (!out) {
        perror(path);
        return 0;
    }
    fprintf(out,
            "/* Written by tests/gpu/test_gpu_math.c; do not edit. */\n"
            "static const int COUNT = %zu;\nstatic const sb_gpu_exception ROWS[] = {\n",
            rows);
    for (size_t i = 0; i < rows; i++)
        fprintf(out, "{0x%08x, 0x%08x},%s", (unsigned)t.row[i].input, (unsigned)t.row[i].right,
                i % 4 == 3 || i + 1 == rows ? "\n" : " ");
    fprintf(out, "%s};\n", rows ? "" : "{0, 0},\n");
    printf("%s: %llu of %llu arguments are exceptions, off by at most %llu units\n", f->name,
           (unsigned long long)t.wrong, (unsigned long long)t.inputs, (unsigned long long)t.worst);
    fflush(stdout);
    return fclose(out) == 0 && t.wrong <= KEPT;
}

int main(int argc, char **argv)
{
    int all = argc > 1 && strcmp(argv[1], "--all") == 0;
    int writes = argc > 2 && strcmp(argv[1], "--write") == 0;
    if (argc > (writes ? 4 : all ? 3 : 1) || (argc > 1 && !all && !writes)) {
        fprintf(stderr, "usage: %s [--all [FUNCTION] | --write DIRECTORY [FUNCTION]]\n", argv[0]);
        return 2;
    }
    uint64_t stride = all ? 1 : check_all() ? 61 : STRIDE;
    const char *only = writes ? argv[3] : all ? argv[2] : NULL;
    int passed = 0, run = 0;
    for (int i = 0; i < MATH_FUNCTIONS; i++) {
        const math_function *f = math_function_row(i);
        if (only && strcmp(only, f->name) != 0)
            continue;
        passed += writes ? write_rows(argv[2], f) : check(f, stride);
        run++;
    }
    if (!writes && !only) {
        passed += check_plant() + check_fma();
        run += 2;
    }
    printf("%d passed, %d failed\n", passed, run - passed);
    return run == 0 || passed < run;
}
