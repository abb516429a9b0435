/* test_sample_spread.c - draws follow their probabilities: chi-square tests with fixed seeds, of
 * plain sampling, of both ways of accepting drafts, and of neighbouring draws.
 *
 * Each test counts N = 40000 draws of 7 tokens and compares 6 degrees of freedom with the value
 * that chance exceeds once in 1000 times. A sampler whose distribution is p' is detected with a
 * power of 99.8 % where N sum( (p' - p)^2 / p ) is 52, that is, where its probabilities are off by
 * 3.6 % of themselves (root mean square). The planted samplers below are detected. */
#include "tests/lib/suite.h"

#include <stdlib.h>

#include "ref/run/sample.h"

enum { V = 7, DRAWS = 40000 };

static const double LIMIT_6 = 22.458, LIMIT_36 = 67.985;

static const float TARGET[V] = {0.5f, -1.0f, 1.5f, 0.0f, -2.0f, 1.0f, 0.25f};
static const float HEAD[V] = {1.8f, -3.0f, 1.0f, -2.0f, -1.0f, 0.5f, 0.0f};

/* Target and head with the same settings, each with its own probabilities. */
typedef struct pair {
    sb_sampler *sampler;
    float p[V], q[V];
} pair;

static pair make_pair(uint64_t seed, uint64_t sequence)
{
    sb_sampling s = {.seed = seed, .sequence = sequence, .temperature = 0.8f, .top_p = 1};
    pair made = {0};
    assert_int_equal(sb_sampler_new(&s, V, &made.sampler, NULL), SB_OK);
    assert_int_equal(sb_sample_probabilities(made.sampler, TARGET, made.p, NULL), SB_OK);
    assert_int_equal(sb_sample_probabilities(made.sampler, HEAD, made.q, NULL), SB_OK);
    return made;
}

static double chi_square(const uint32_t *count, const float *p, double n)
{
    double sum = 0;
    for (int i = 0; i < V; i++) {
        double expected = n * (double)p[i], off = (double)count[i] - expected;
        sum += off * off / expected;
    }
    return sum;
}

/* A way to emit the token of a position. */
typedef uint32_t (*emit_fn)(const pair *m, uint64_t position);

static uint32_t emit_plain(const pair *m, uint64_t position)
{
    return sb_sample_pick(m->sampler, m->p, position, SB_DRAW_token);
}

static uint32_t emit_residual(const pair *m, uint64_t position)
{
    uint32_t draft = sb_sample_pick(m->sampler, m->q, position, SB_DRAW_draft);
    return sb_sample_accepts(m->sampler, m->p, m->q, draft, position)
               ? draft
               : sb_sample_residual(m->sampler, m->p, m->q, position);
}

/* A draft of the head's best token, so that the draft's distribution is 1 at that token. */
static uint32_t emit_greedy_draft(const pair *m, uint64_t position)
{
    const float q[V] = {1};
    return sb_sample_accepts(m->sampler, m->p, q, 0, position)
               ? 0
               : sb_sample_residual(m->sampler, m->p, q, position);
}

/* The token before decides between plain sampling and a draft. */
static uint32_t emit_mixed(const pair *m, uint64_t position)
{
    uint32_t before = position ? emit_plain(m, position - 1) : 0;
    return before % 2 ? emit_residual(m, position) : emit_plain(m, position);
}

static uint32_t wrong_replacement(const pair *m, uint64_t position)
{
    uint32_t draft = sb_sample_pick(m->sampler, m->q, position, SB_DRAW_draft);
    return sb_sample_accepts(m->sampler, m->p, m->q, draft, position)
               ? draft
               : sb_sample_pick(m->sampler, m->p, position, SB_DRAW_residual);
}

/* The draft was drawn, but is judged as if its probability were 1. */
static uint32_t wrong_proposal(const pair *m, uint64_t position)
{
    uint32_t draft = sb_sample_pick(m->sampler, m->q, position, SB_DRAW_draft);
    float certain[V] = {0};
    certain[draft] = 1;
    return sb_sample_accepts(m->sampler, m->p, certain, draft, position)
               ? draft
               : sb_sample_residual(m->sampler, m->p, m->q, position);
}

/* One random word for the draft and for the token that replaces it. */
static uint32_t wrong_word(const pair *m, uint64_t position)
{
    uint32_t draft = sb_sample_pick(m->sampler, m->q, position, SB_DRAW_residual);
    return sb_sample_accepts(m->sampler, m->p, m->q, draft, position)
               ? draft
               : sb_sample_residual(m->sampler, m->p, m->q, position);
}

/* Draws from the head's distribution, without acceptance or residual. */
static uint32_t wrong_everything(const pair *m, uint64_t position)
{
    return sb_sample_pick(m->sampler, m->q, position, SB_DRAW_token);
}

static double spread(emit_fn emit, uint64_t seed, uint64_t sequence)
{
    pair m = make_pair(seed, sequence);
    uint32_t count[V] = {0};
    for (uint64_t position = 0; position < DRAWS; position++)
        count[emit(&m, position)]++;
    sb_sampler_free(m.sampler);
    return chi_square(count, m.p, DRAWS);
}

static void expect_spread(emit_fn emit, const char *name, int right)
{
    static const uint64_t place[3][2] = {{42, 0}, {42, 1}, {7, 0}};
    for (int i = 0; i < 3; i++) {
        double x = spread(emit, place[i][0], place[i][1]);
        if (getenv("SHOW"))
            print_message("%s: %.1f\n", name, x);
        if ((x < LIMIT_6) != right)
            fail_msg("%s: chi-square %.2f with seed %d, sequence %d", name, x, (int)place[i][0],
                     (int)place[i][1]);
    }
}

TEST(test_right)
{
    expect_spread(emit_plain, "plain", 1);
    expect_spread(emit_residual, "residual", 1);
    expect_spread(emit_greedy_draft, "residual, greedy draft", 1);
    expect_spread(emit_mixed, "mixed", 1);
}

TEST(test_wrong)
{
    expect_spread(wrong_replacement, "replaced from p", 0);
    expect_spread(wrong_proposal, "q taken for 1", 0);
    expect_spread(wrong_word, "one word for draft and replacement", 0);
    expect_spread(wrong_everything, "drawn from q", 0);
}

/* Draws at a fixed position of many sequences; the tests above count positions of one sequence. */
TEST(test_sequences)
{
    uint32_t count[2][V] = {{0}};
    pair m = {0};
    for (uint64_t sequence = 0; sequence < DRAWS; sequence++) {
        m = make_pair(42, sequence);
        count[0][emit_plain(&m, 5)]++;
        count[1][emit_residual(&m, 5)]++;
        sb_sampler_free(m.sampler);
    }
    assert_true(chi_square(count[0], m.p, DRAWS) < LIMIT_6);
    assert_true(chi_square(count[1], m.p, DRAWS) < LIMIT_6);
}

/* Pairs of draws are independent: 36 degrees of freedom of a 7 x 7 table. */
static double dependence(uint32_t table[V][V])
{
    double row[V] = {0}, column[V] = {0}, sum = 0;
    for (int i = 0; i < V; i++)
        for (int j = 0; j < V; j++) {
            row[i] += table[i][j];
            column[j] += table[i][j];
        }
    for (int i = 0; i < V; i++)
        for (int j = 0; j < V; j++) {
            double expected = row[i] * column[j] / DRAWS, off = table[i][j] - expected;
            sum += off * off / expected;
        }
    return sum;
}

TEST(test_neighbours)
{
    pair m = make_pair(42, 0), next = make_pair(42, 1), seed = make_pair(43, 0);
    uint32_t table[5][V][V] = {{{0}}};
    for (uint64_t i = 0; i < DRAWS; i++) {
        uint32_t token = emit_plain(&m, i);
        table[0][token][emit_plain(&m, i + 1)]++;
        table[1][token][emit_plain(&next, i)]++;
        table[2][token][emit_plain(&seed, i)]++;
        table[3][token][sb_sample_pick(m.sampler, m.q, i, SB_DRAW_draft)]++;
        table[4][token][sb_sample_pick(m.sampler, m.q, i, SB_DRAW_token)]++; /* planted */
    }
    for (int k = 0; k < 4; k++)
        assert_true(dependence(table[k]) < LIMIT_36);
    assert_true(dependence(table[4]) > LIMIT_36);
    sb_sampler_free(m.sampler);
    sb_sampler_free(next.sampler);
    sb_sampler_free(seed.sampler);
}

/* With `match`, P-11, a draft is accepted with its probability. Its distribution is 1 at one token,
 * and then residual mode accepts at the same rate. */
TEST(test_acceptance_rate)
{
    pair m = make_pair(42, 0);
    const float certain[V] = {0, 0, 1};
    double expected = 0, match = 0, one_hot = 0, kept = 0;
    for (int i = 0; i < V; i++)
        expected += (double)(m.p[i] < m.q[i] ? m.p[i] : m.q[i]);
    for (uint64_t i = 0; i < DRAWS; i++) {
        uint32_t draft = sb_sample_pick(m.sampler, m.q, i, SB_DRAW_draft);
        kept += sb_sample_accepts(m.sampler, m.p, m.q, draft, i);
        match += emit_plain(&m, i) == 2;
        one_hot += sb_sample_accepts(m.sampler, m.p, certain, 2, i);
    }
    /* five standard deviations of a share of 40000 are at most 0.0125 */
    assert_true(kept / DRAWS > expected - 0.0125 && kept / DRAWS < expected + 0.0125);
    assert_true(match / DRAWS > (double)m.p[2] - 0.0125 && match / DRAWS < (double)m.p[2] + 0.0125);
    assert_true(one_hot / DRAWS > (double)m.p[2] - 0.0125 &&
                one_hot / DRAWS < (double)m.p[2] + 0.0125);
    sb_sampler_free(m.sampler);
}
