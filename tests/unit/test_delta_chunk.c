/* test_delta_chunk.c - the delta rule in chunks of 16 to 512 rows, T-87: the simulated engine of
 * each length is within the balls of that length, and a mistake at the border of two chunks is
 * outside the balls of every length. */
#include "tests/lib/suite.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/plain.h"
#include "tests/lib/poison.h"
#include "tests/lib/plain_dot.h"
#include "tests/lib/delta_regimes.h"
#include "tools/judge/bound/bound.h"
#include "tools/judge/sim/sim.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

enum { DK = 16, DV = 4, LENGTHS = 6, MOST = SB_CHUNK_LONGEST + SB_CHUNK_LONGEST / 2 };

static const size_t lengths[LENGTHS] = {16, 32, 64, 128, 256, 512};

enum { REGIMES = COUNT(regimes) };

static sb_delta_rule_args inputs(const struct regime *r, size_t rows)
{
    float *k = test_copy(test_normal("k", rows * DK, r->common, 1), rows * DK);
    float *g = test_copy(test_normal("g", rows, r->decay, r->decay_spread), rows);
    float *beta = test_copy(NULL, rows);
    for (size_t t = 0; t < rows; t++) {
        float norm = sqrtf(dot(k + t * DK, 1, k + t * DK, 1, DK, 0));
        for (size_t i = 0; i < DK; i++)
            k[t * DK + i] /= norm;
        g[t] = g[t] < 0 ? g[t] : 0;
        beta[t] = r->beta;
    }
    return (sb_delta_rule_args){.q = test_copy(test_normal("q", rows * DK, 0, 0.2f), rows * DK),
                                .k = k,
                                .v = test_copy(test_normal("v", rows * DV, 0, 1), rows * DV),
                                .v_stride = DV,
                                .g = g,
                                .beta = beta,
                                .rows = rows,
                                .k_heads = 1,
                                .v_heads = 1,
                                .dk = DK,
                                .dv = DV,
                                .state = test_copy(test_normal("S", DK * DV, 0, 0.3f), DK * DV),
                                .out = test_copy(NULL, rows * DV)};
}

/* --- the engines ------------------------------------------------------------------------------ */

typedef enum fault { NONE, STATE_DROPPED, DECAY_MISSED, ROW_TWICE, ROW_LOST, FAULTS } fault;
static const char *const fault_names[] = {"none", "the state is not carried over a border",
                                          "the decay of the row behind a border is missed",
                                          "the row before a border counts twice",
                                          "the row before a border is not in the state"};

static const sb_op_table *sim_of(size_t chunk)
{
    const sb_sim *sim = NULL;
    char name[40] = "chunked";
    if (chunk != 64)
        snprintf(name, sizeof name, "chunked%zu", chunk);
    assert_int_equal(sb_sim_find(name, &sim, NULL), SB_OK);
    assert_int_equal(sb_arithmetic_chunk(sb_arithmetic_of(sim->arithmetic)), chunk);
    return &sim->backend.ops;
}

/* Runs `count` rows from `first` on as a separate call. */
static void rows_of(size_t chunk, const sb_delta_rule_args *whole, size_t first, size_t count)
{
    const sb_knobs knobs = test_knobs("delta_rule=chunk64");
    sb_delta_rule_args a = *whole;
    a.q += first * DK;
    a.k += first * DK;
    a.v += first * DV;
    a.g += first;
    a.beta += first;
    a.out += first * DV;
    a.rows = count;
    assert_int_equal(sim_of(chunk)->delta_rule_chunk(&knobs, &a), SB_OK);
}

/* Runs all rows in chunks, with a fault at the first border. */
static void run(size_t chunk, const sb_delta_rule_args *a, fault f)
{
    float before[DK * DV], *g = (float *)(uintptr_t)a->g;
    size_t border = f == ROW_TWICE ? chunk - 1 : chunk;
    if (f == NONE) {
        rows_of(chunk, a, 0, a->rows);
        return;
    }
    memcpy(before, a->state, sizeof before);
    rows_of(chunk, a, 0, chunk);
    if (f == STATE_DROPPED)
        memset(a->state, 0, sizeof before);
    if (f == ROW_LOST) {
        memcpy(a->state, before, sizeof before);
        rows_of(chunk, a, 0, chunk - 1);
    }
    float decay = g[chunk];
    if (f == DECAY_MISSED)
        g[chunk] = 0.0f;
    rows_of(chunk, a, border, a->rows - border);
    g[chunk] = decay;
}

/* --- the balls -------------------------------------------------------------------------------- */

typedef struct balls {
    sb_ball out[MOST * DV], state[DK * DV];
} balls;

static void bound(size_t declared, const sb_delta_rule_args *a, balls *to)
{
    const sb_knobs knobs = test_knobs("delta_rule=chunk64");
    sb_arithmetic ar;
    assert_int_equal(sb_arithmetic_with(&sb_arithmetic_library, NULL, declared, &ar, NULL), SB_OK);
    assert_int_equal(sb_bound_delta_rule_chunk(&ar, &knobs, a, to->out, to->state), SB_OK);
}

/* The largest distance of an element from its centre, in radii. */
static double worst(const sb_delta_rule_args *a, const balls *in)
{
    double most = 0.0;
    for (size_t i = 0; i < a->rows * DV; i++)
        most = fmax(most, fabs((double)a->out[i] - in->out[i].mid) / in->out[i].rad);
    for (size_t i = 0; i < DK * DV; i++)
        most = fmax(most, fabs((double)a->state[i] - in->state[i].mid) / in->state[i].rad);
    return most / SB_BOUND_SLACK;
}

/* Each length is within its own balls. The longest is outside the balls of 64, so that the declared
 * length matters. */
TEST_WITH(test_lengths, NULL, test_release)
{
    static balls in;
    for (size_t l = 0; l < LENGTHS; l++) {
        double longest = 0.0;
        for (size_t r = 0; r < REGIMES; r++) {
            sb_delta_rule_args a = inputs(&regimes[r], lengths[l] + lengths[l] / 2);
            float *before = test_copy(a.state, DK * DV);
            run(lengths[l], &a, NONE);
            float *after = test_copy(a.state, DK * DV);
            double by[2];
            for (size_t d = 0; d < 2; d++) {
                memcpy(a.state, before, DK * DV * sizeof *before);
                bound(d ? 0 : lengths[l], &a, &in);
                memcpy(a.state, after, DK * DV * sizeof *after);
                by[d] = worst(&a, &in);
            }
            printf("  %-12s %3zu rows: %.3g of its bound, %.3g of that of 64\n", regimes[r].name,
                   lengths[l], by[0], by[1]);
            if (!(by[0] <= 1.0))
                fail_msg("%s: chunks of %zu rows are at %g", regimes[r].name, lengths[l], by[0]);
            assert_true(by[0] > 0x1p-13);
            longest = fmax(longest, by[1]);
            test_release(NULL);
        }
        assert_int_equal(longest > 1.0, lengths[l] == SB_CHUNK_LONGEST);
    }
}

/* A fault at a border is outside the balls of every declared length. */
TEST_WITH(test_borders, NULL, test_release)
{
    static balls in[LENGTHS];
    const struct regime *fast = &regimes[2];
    for (size_t l = 0; l < LENGTHS; l++) {
        sb_delta_rule_args a = inputs(fast, lengths[l] + 6);
        float *before = test_copy(a.state, DK * DV);
        for (size_t d = 0; d < LENGTHS; d++)
            bound(lengths[d], &a, &in[d]);
        for (fault f = STATE_DROPPED; f < FAULTS; f++) {
            double least = INFINITY;
            memcpy(a.state, before, DK * DV * sizeof *before);
            run(lengths[l], &a, f);
            for (size_t d = 0; d < LENGTHS; d++)
                least = fmin(least, worst(&a, &in[d]));
            printf("  %3zu rows, %s: %.3g of the largest bound\n", lengths[l], fault_names[f],
                   least);
            if (!(least > 10.0))
                fail_msg("chunks of %zu rows: %s, at %g", lengths[l], fault_names[f], least);
        }
        test_release(NULL);
    }
}

TEST(test_declared)
{
    sb_arithmetic own;
    sb_error err = {{0}};
    for (uint64_t rows = 0; rows < 2000; rows++) {
        int good =
            rows == 16 || rows == 32 || rows == 64 || rows == 128 || rows == 256 || rows == 512;
        assert_int_equal(sb_chunk_is_bounded(rows) != 0, good);
        assert_int_equal(sb_arithmetic_with(&sb_arithmetic_library, NULL, rows, &own, &err),
                         good || rows == 0 ? SB_OK : SB_ERR_USAGE);
        assert_int_equal(sb_arithmetic_chunk(&own), good ? rows : 64);
    }
    assert_int_equal(sb_chunk_is_bounded(UINT64_C(1) << 32), 0);
    assert_non_null(strstr(err.text, "expected a power of two from 16 to 512"));
}
