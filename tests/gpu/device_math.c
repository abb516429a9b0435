/* device_math.c - compares the functions of gpu/math on a device with those of ref/math, which are
 * correctly rounded: every STEP-th argument, the ends of all binades, and the exceptions.
 *
 *   device_math STEP SECONDS [host|plant]
 *
 * host: the functions compiled for the host, instead of the device. plant: the same with one result
 * of each function wrong by one ulp, which must fail. Exit status 0, 1, 2 for wrong use, 4 without
 * a device, or if the time was over before the last argument. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/base/pool.h"
#include "tests/gpu/device_kernels.h"
#include "tests/gpu/math_functions.h"

enum { BATCH = 1 << 22, MIDDLES = 512 * 18 };

static int instead, planted;

typedef struct tally {
    uint64_t arguments, differ;
    char first[120];
} tally;

/* The number of arguments per turn. */
enum { TURN = 4096 };

typedef struct turns {
    const math_function *f;
    const float *x;
    float *y;
    size_t count;
    tally *t;
    pthread_mutex_t lock; /* protects the tally */
} turns;

static void run_turn(void *ctx, size_t turn, size_t worker)
{
    const turns *j = ctx;
    (void)worker;
    for (size_t i = turn * TURN; i < j->count && i < (turn + 1) * TURN; i++)
        j->y[i] = j->f->run(j->x[i]);
}

static void hold_turn(void *ctx, size_t turn, size_t worker)
{
    turns *j = ctx;
    (void)worker;
    for (size_t i = turn * TURN; i < j->count && i < (turn + 1) * TURN; i++) {
        const float expected = j->f->right(j->x[i]);
        const uint32_t want = sb_bits_f32(expected), got = sb_bits_f32(j->y[i]);
        if (got == want || (j->y[i] != j->y[i] && expected != expected)) /* all NaNs count as
                                                                          * equal */
            continue;
        pthread_mutex_lock(&j->lock);
        if (j->t->differ++ == 0)
            snprintf(j->t->first, sizeof j->t->first, ": %08x gives %08x, not %08x",
                     (unsigned)sb_bits_f32(j->x[i]), (unsigned)got, (unsigned)want);
        pthread_mutex_unlock(&j->lock);
    }
}

static const char *call(const math_function *f, const float *x, float *y, size_t count)
{
    if (!instead)
        return device_function(f->name, x, y, count);
    turns j = {.f = f, .x = x, .y = y, .count = count};
    sb_parallel_for((count + TURN - 1) / TURN, 1, run_turn, &j);
    if (planted)
        y[count / 4] = sb_f32_from_bits(sb_bits_f32(y[count / 4]) ^ 1); /* among the positive
                                                                         * arguments */
    return NULL;
}

static const char *hold(const math_function *f, const float *x, float *y, size_t count, tally *t)
{
    const char *wrong = call(f, x, y, count);
    if (wrong)
        return wrong;
    turns j = {f, x, y, count, t, PTHREAD_MUTEX_INITIALIZER};
    sb_parallel_for((count + TURN - 1) / TURN, 1, hold_turn, &j);
    t->arguments += count;
    return NULL;
}

static size_t put(const math_function *f, float *x, size_t n, uint32_t input)
{
    if (math_function_asked(f, input))
        x[n++] = sb_f32_from_bits(input);
    return n;
}

/* The ends and the middle of every binade, and the exceptions with their neighbours, of both signs
 * and, for rsqrt, in another binade. */
static size_t difficult(const math_function *f, float *x)
{
    size_t n = 0;
    for (uint32_t field = 0; field < 512; field++)
        for (uint32_t near = 0; near < 9; near++) {
            n = put(f, x, n, (field << 23) + near - 4);
            n = put(f, x, n, (field << 23) + 0x400000u + near - 4);
        }
    for (int i = 0; i < f->count; i++)
        for (uint32_t near = 0; near < 3; near++) {
            const uint32_t input = f->exceptions[2 * i] + near - 1;
            n = put(f, x, n, input);
            n = put(f, x, n, input ^ 0x80000000u);
            n = put(f, x, n, input + 0x0f000000u);
        }
    return n;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* SAID_skipped: ended early without a difference. */
enum { SAID_failed, SAID_passed, SAID_skipped, SAID_WORDS };
static const char *const said[SAID_WORDS] = {"[  FAILED  ]", "[       OK ]", "[  SKIPPED ]"};

static int check(const math_function *f, uint64_t step, double seconds, float *x, float *y)
{
    tally t = {0};
    const double begin = now();
    const char *wrong = hold(f, x, y, difficult(f, x), &t);
    uint64_t at = f->partial ? f->above : 0;
    const uint64_t end = f->partial ? f->above_end : (uint64_t)1 << 32;
    while (!wrong && at < end && now() - begin < seconds) {
        size_t n = 0;
        for (; n < BATCH && at < end; at += step)
            x[n++] = sb_f32_from_bits((uint32_t)at);
        wrong = hold(f, x, y, n, &t);
    }
    const int verdict = wrong || t.differ ? SAID_failed : at < end ? SAID_skipped : SAID_passed;
    printf("%s %s: %llu arguments%s, %llu results differ%s%s%s\n", said[verdict], f->name,
           (unsigned long long)t.arguments, at >= end ? "" : " until the time was over, not all",
           (unsigned long long)t.differ, t.first, wrong ? ": " : "", wrong ? wrong : "");
    fflush(stdout);
    return verdict;
}

int main(int argc, char **argv)
{
    planted = argc == 4 && strcmp(argv[3], "plant") == 0;
    instead = planted || (argc == 4 && strcmp(argv[3], "host") == 0);
    const uint64_t step = argc < 3 ? 0 : strtoull(argv[1], NULL, 10);
    if (step == 0 || argc > 4 || (argc == 4 && !instead)) {
        fprintf(stderr, "usage: %s STEP SECONDS [host|plant]\n", argv[0]);
        return 2;
    }
    if (!instead && !device_name()) {
        printf("SKIPPED functions: there is no device\n");
        return 4;
    }
    int count[SAID_WORDS] = {0}, longest = 0;
    for (int i = 0; i < MATH_FUNCTIONS; i++)
        longest = math_function_row(i)->count > longest ? math_function_row(i)->count : longest;
    const size_t room = BATCH + MIDDLES + 9 * (size_t)longest;
    float *x = sb_alloc(room, sizeof *x), *y = sb_alloc(room, sizeof *y);
    for (int i = 0; i < MATH_FUNCTIONS && x && y; i++)
        count[check(math_function_row(i), step, strtod(argv[2], NULL) / MATH_FUNCTIONS, x, y)]++;
    printf("%d passed, %d failed, %d skipped\n", count[SAID_passed], count[SAID_failed],
           count[SAID_skipped]);
    free(x);
    free(y);
    return count[SAID_passed] == MATH_FUNCTIONS         ? 0
           : count[SAID_failed] || !count[SAID_skipped] ? 1
                                                        : 4;
}
