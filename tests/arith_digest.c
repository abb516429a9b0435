/* arith_digest.c - prints digests of the arithmetic of samebit, a few lines of hex: arith_digest
 * [ISA]
 *
 * One digest per operand kind (40000 hard reductions), for rows of every stored format, per
 * function (200000 inputs), for the integer root and for the sampler, all from seed 42. The output
 * must be the same text for every compiler, all of its options, every machine and all kernels.
 * DIGEST_PART=8 in the environment: an eighth of the reductions, inputs and rows, for emulated
 * machines. */
#include <stdio.h>
#include <stdlib.h>

#include "ref/base/hash.h"
#include "ref/base/rng.h"
#include "ref/math/fn.h"
#include "ref/fast/dot/dot.h"
#include "ref/run/sample.h"
#include "tests/prop/rows.h"
#include "tests/prop/rows_compare.h"
#include "tests/unit/families.h"

enum {
    SEED = 42,
    REDUCTIONS = 40000,
    INPUTS = 200000,
    ROOTS = 400,
    VOCAB = 1000,
    ROWS = 50,
    MATRICES = 3000
};

static size_t part = 1; /* each count is divided by it */

static void print_digest(const char *group, const char *name, const float *values, size_t count)
{
    printf("%-8s %-9s %s\n", group, name, sb_digest_f32(values, count).hex);
}

static void reductions(family_kind kind, float *results)
{
    static family_case c;
    uint64_t key = sb_rng_key(SEED, family_kind_name(kind));
    for (size_t i = 0; i < REDUCTIONS / part; i++) {
        family_make(&c, kind, key, i);
        results[i] = family_reduce(&c);
    }
    print_digest("reduce", family_kind_name(kind), results, REDUCTIONS / part);
}

/* Products with matrices, one input at a time and all inputs at once. */
static int rows(float *results)
{
    static rows_case c;
    size_t count = 0;
    for (uint64_t i = 0; i < MATRICES / part; i++) {
        rows_make(&c, sb_rng_key(SEED, "rows"), i);
        const size_t some = c.count * c.matrix.rows;
        if (count + 2 * some > INPUTS || !rows_apart(&c, results + count) ||
            !rows_together(&c, results + count + some))
            return 1;
        count += 2 * some;
    }
    print_digest("rows", "quantized", results, count);
    return 0;
}

static void function(const char *name, float (*run)(float), float *results)
{
    uint64_t key = sb_rng_key(SEED, name);
    for (size_t i = 0; i < INPUTS / part; i++)
        results[i] = run(family_input(key, i));
    print_digest("function", name, results, INPUTS / part);
}

static void roots(float *results)
{
    uint64_t key = sb_rng_key(SEED, "root");
    for (size_t i = 0; i < ROOTS / part; i++) {
        double base = 1 + 1e9 * (double)sb_rng_uniform(key, 3 * i);
        unsigned denominator = 1 + sb_rng_below(key, 3 * i + 1, 128);
        int numerator = (int)sb_rng_below(key, 3 * i + 2, 256) - 128;
        results[i] = sb_root_power(base, numerator, denominator);
    }
    print_digest("root", "power", results, ROOTS / part);
}

/* The probabilities for rows of logits, alternately with a hot and a cold temperature, the tokens
 * drawn from them, and the noise of the draws. */
static int sampler(float *results)
{
    sb_sampling s = {.seed = SEED, .top_k = 300, .top_p = 0.9f, .min_p = 0.001f};
    static float logits[VOCAB], tokens[ROWS];
    for (uint64_t row = 0; row < ROWS / part; row++) {
        sb_sampler *sampler = NULL;
        float *p = results + row * VOCAB;
        s.temperature = row % 2 ? 0.6f : 1.5f;
        for (uint32_t i = 0; i < VOCAB; i++)
            logits[i] = 3.0f * sb_rng_normal(sb_rng_key(SEED, "sample"), row * VOCAB + i);
        if (sb_sampler_new(&s, VOCAB, &sampler, NULL) ||
            sb_sample_probabilities(sampler, logits, p, NULL))
            return 1;
        tokens[row] = (float)sb_sample_pick(sampler, p, row, SB_DRAW_token);
        sb_sampler_free(sampler);
    }
    print_digest("sample", "p", results, ROWS / part * VOCAB);
    print_digest("sample", "token", tokens, ROWS / part);
    for (uint32_t i = 0; i < INPUTS / part; i++)
        results[i] = sb_sample_gumbel(&s, i, 7, SB_DRAW_token);
    print_digest("sample", "noise", results, INPUTS / part);
    return 0;
}

int main(int argc, char **argv)
{
    static float results[INPUTS];
    sb_error err;
    sb_status status = sb_math_start(argc > 1 ? argv[1] : NULL, &err);
    if (status != SB_OK || argc > 2) {
        fprintf(stderr, "%s\n", status != SB_OK ? err.text : "usage: arith_digest [ISA]");
        return status != SB_OK ? sb_exit_status(status) : 2;
    }
    const char *eighth = getenv("DIGEST_PART");
    part = eighth ? strtoul(eighth, NULL, 10) : 1;
    if (part != 1 && part != 8) {
        fprintf(stderr, "DIGEST_PART is '%s', expected 1 or 8\n", eighth);
        return 2;
    }
    for (int kind = 0; kind < KIND_COUNT; kind++)
        reductions((family_kind)kind, results);
    if (rows(results))
        return 1;
    static const struct {
        const char *name;
        float (*run)(float);
    } functions[] = {
        {"exp", sb_exp},         {"log", sb_log},   {"log1p", sb_log1p},
        {"rsqrt", sb_rsqrt},     {"sin", sb_sin},   {"cos", sb_cos},
        {"sigmoid", sb_sigmoid}, {"silu", sb_silu}, {"softplus", sb_softplus},
    };
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        function(functions[i].name, functions[i].run, results);
    roots(results);
    return sampler(results);
}
