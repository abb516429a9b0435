/* worst.h - the cost of rows that are as hard to sum as possible, relative to rows as in a model.
 *
 * Each family violates an assumption of the fast paths: magnitudes not far above the sum, exponents
 * close to each other, sums not close to a midpoint of two neighbours. */
#ifndef SB_BENCH_WORST_H
#define SB_BENCH_WORST_H

#include <stdint.h>

#include "tools/bench/measure.h"

#define SB_WORST_FAMILIES(X)                                                                       \
    X(normal, "as in a model")                                                                     \
    X(huge, "one huge product among tiny ones")                                                    \
    X(spread, "products of all exponents")                                                         \
    X(cancel, "neighbours that cancel except for one last place")                                  \
    X(zero, "neighbours that cancel")                                                              \
    X(deep, "products of all exponents that cancel, and a term far below")                         \
    X(tie, "a sum halfway between two neighbours")                                                 \
    X(decided, "the same, and a term far below that decides")

typedef enum sb_worst_family {
#define SB_WORST_ID(id, help) SB_WORST_##id,
    SB_WORST_FAMILIES(SB_WORST_ID)
#undef SB_WORST_ID
        SB_WORST_COUNT
} sb_worst_family;

const char *sb_worst_family_name(sb_worst_family family); /* "tie" */
const char *sb_worst_family_help(sb_worst_family family);

enum { SB_WORST_FORMATS = 11, SB_WORST_COLS = 2048, SB_WORST_ROWS = 64, SB_WORST_INPUTS = 32 };

/* One format and one family. */
typedef struct sb_worst_line {
    const char *format; /* "nvfp4" */
    sb_worst_family family;
    sb_bench_noise step, prompt;             /* seconds per weight and input: one input; many */
    sb_bench_noise step_times, prompt_times; /* multiples of `normal` in the same pass */
    uint64_t tried, sent, exact;             /* as in sb_bench_tried, for one input */
} sb_worst_line;

typedef struct sb_worst_report {
    uint64_t compared; /* outputs found equal to the definition's */
    sb_worst_line lines[SB_WORST_FORMATS * SB_WORST_COUNT];
    size_t count;
} sb_worst_report;

/* The line with the largest multiple of `normal`. */
const sb_worst_line *sb_worst_of_steps(const sb_worst_report *report);
const sb_worst_line *sb_worst_of_prompts(const sb_worst_report *report);

/* Runs on one thread. plant: spoils an output first, so that the comparison must fail. */
sb_status sb_bench_worst(size_t passes, int plant,
                         void (*progress)(void *ctx, const char *what, uint64_t done,
                                          uint64_t total),
                         sb_worst_report *report, sb_error *err);

#endif
