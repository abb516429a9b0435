/* test_residual.c - mode residual: the tokens of rounds have the distribution of plain sampling
 * (P-12, P-13).
 *
 * A round of two drafts after a fixed prompt, for SEQUENCES sequences of one seed. There are few
 * tokens to choose from (top_k), so that the distribution of the target is known for every context,
 * and a chi-square sum over all contexts with enough draws has few cells. This file repeats
 * sb_rounds_next with distributions that are computed once. Both give the same tokens, and mistakes
 * can be planted in the copy here. */
#include "tests/lib/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/mtp/play.h"

enum { V = 384, TOP = 4, PROMPT = 6, SEQUENCES = 40000, COMPARED = 150 };

static const sb_sampling settings = {.seed = 42, .temperature = 1.3f, .top_k = TOP, .top_p = 1};

typedef enum mistake {
    NONE,
    PLAIN,             /* no drafts at all: the reference for the others */
    ALWAYS_ACCEPT,     /* a draft is taken as it is */
    ACCEPT_BY_Q,       /* accepted where u < q in place of u q < p */
    ACCEPT_OFTEN,      /* in one of 4 sequences a rejected draft is accepted */
    REDRAWN_FROM_P,    /* after a rejected draft the token is drawn from p, not from p - q */
    RESIDUAL_OF_ROW_0, /* the second row's correction is drawn from the first row's p */
    BONUS_SAME_WORDS,  /* the bonus is drawn with the same words in every round */
    BONUS_OF_ROW_0,    /* the bonus is drawn from the first row's p */
    MISTAKES
} mistake;

static const char *const names[MISTAKES] = {
    "none",           "plain sampling",    "always accept",     "accept by q",   "accept too often",
    "redrawn from p", "residual of row 0", "bonus, same words", "bonus of row 0"};

/* Distributions. p: of the target after the first token, and after 1 or 2 further tokens. q: of the
 * head for the first draft, and after each first draft. */
static sb_session *session;
static sb_state *root;
static uint32_t first;
static uint64_t position; /* of the first emitted token */
static float p[1 + TOP + TOP * TOP][V], q[1 + TOP][V];

/* The tokens that the target can give in a context. */
static uint32_t can[1 + TOP][TOP];

static void probabilities(sb_sampler *sampler, const float *logits, float *out)
{
    sb_error err = {""};
    if (sb_sample_probabilities(sampler, logits, out, &err))
        fail_msg("%s", err.text);
}

static void target(sb_sampler *sampler, const uint32_t *tokens, size_t n, float *out)
{
    float logits[V];
    play_set(session, root);
    test_feed(session, tokens, n);
    assert_int_equal(sb_session_logits(session, n - 1, logits, NULL), SB_OK);
    probabilities(sampler, logits, out);
}

static void list(const float *of, uint32_t *tokens)
{
    size_t n = 0;
    for (uint32_t i = 0; i < V; i++)
        if (of[i] > 0) {
            assert_true(n < TOP);
            tokens[n++] = i;
        }
    assert_int_equal(n, TOP);
}

/* Contexts: 0 is the first token; 1 + i adds the i-th possible token after it; 1 + TOP + i TOP + j
 * adds the j-th possible token after that. The head is run after every first draft that it can
 * make. The target may not have these drafts in its list, so they are in head_can. */
static uint32_t head_can[TOP];

static sb_sampler *same_words; /* of sequence 0 */

/* The distributions after one prompt. */
static void find_distributions(sb_sampler *sampler, const char *prompt)
{
    float logits[V];
    sb_session_reset(session);
    sb_state_free(root);
    first = play_prompt(session, prompt, PROMPT);
    root = play_copy(sb_session_state(session));
    position = PROMPT + 1;
    uint32_t tokens[3] = {first};
    target(sampler, tokens, 1, p[0]);
    list(p[0], can[0]);
    for (size_t i = 0; i < TOP; i++) {
        tokens[1] = can[0][i];
        target(sampler, tokens, 2, p[1 + i]);
        list(p[1 + i], can[1 + i]);
        for (size_t j = 0; j < TOP; j++) {
            tokens[2] = can[1 + i][j];
            target(sampler, tokens, 3, p[1 + TOP + i * TOP + j]);
        }
    }
    play_set(session, root);
    assert_int_equal(sb_session_draft(session, first, logits, NULL), SB_OK);
    probabilities(sampler, logits, q[0]);
    list(q[0], head_can);
    for (size_t i = 0; i < TOP; i++) {
        sb_session_forget_drafts(session);
        assert_int_equal(sb_session_draft(session, first, logits, NULL), SB_OK);
        assert_int_equal(sb_session_draft(session, head_can[i], logits, NULL), SB_OK);
        probabilities(sampler, logits, q[1 + i]);
    }
}

/* The probability that the first draft is accepted, and that both are. */
static void acceptance(double *one, double *both)
{
    *one = *both = 0;
    for (size_t i = 0; i < TOP; i++) {
        double taken = fmin((double)p[0][can[0][i]], (double)q[0][can[0][i]]), then = 0;
        size_t behind = 0;
        while (behind < TOP && head_can[behind] != can[0][i])
            behind++;
        for (size_t t = 0; t < V && behind < TOP; t++)
            then += fmin((double)p[1 + i][t], (double)q[1 + behind][t]);
        *one += taken;
        *both += taken * then;
    }
}

/* The first prompt of a list for which all kinds of rounds are frequent. */
TEST_FIXTURE(find_prompt)
{
    sb_sampler *sampler = NULL;
    double one = 0, both = 0;
    char prompt[32];
    session = play_session(play_flat_model("test_mtp_residual", "T4", "predictable"), NULL);
    assert_int_equal(sb_sampler_new(&settings, V, &sampler, NULL), SB_OK);
    for (unsigned i = 0; i < 60 && !(one > 0.3 && one < 0.9 && both > 0.1 && both < 0.8 * one);
         i++) {
        snprintf(prompt, sizeof prompt, "residual %u", i);
        find_distributions(sampler, prompt);
        acceptance(&one, &both);
    }
    printf("%s: a draft is accepted with probability %.3f, two with %.3f\n", prompt, one, both);
    same_words = sampler;
    return one > 0.3 && both > 0.1 ? 0 : -1;
}

TEST_FIXTURE(forget_distributions)
{
    sb_sampler_free(same_words);
    sb_state_free(root);
    sb_session_free(session);
    return play_close_models(NULL);
}

static size_t place_in(const uint32_t *tokens, uint32_t token)
{
    size_t i = 0;
    while (i < TOP && tokens[i] != token)
        i++;
    return i;
}

/* The token of a row whose draft is d; *accepted: is it the draft? */
static uint32_t judge(sb_sampler *s, mistake m, size_t row, const float *mine, const float *head,
                      uint32_t d, int *accepted)
{
    uint64_t at = position + row;
    float none[V] = {0}, one[V] = {0};
    one[d] = 1;
    if (m == ACCEPT_BY_Q) /* u q < p with q for p and 1 for q */
        *accepted = mine[d] > 0 && sb_sample_accepts(s, head, one, d, at);
    else
        *accepted = sb_sample_accepts(s, mine, head, d, at);
    if (m == ALWAYS_ACCEPT || (m == ACCEPT_OFTEN && sb_sampler_settings(s)->sequence % 4 == 3))
        *accepted = mine[d] > 0; /* a token that the target cannot give would be too easy to see */
    if (*accepted)
        return d;
    if (m == REDRAWN_FROM_P)
        return sb_sample_residual(s, mine, none, at);
    return sb_sample_residual(s, m == RESIDUAL_OF_ROW_0 ? p[0] : mine, head, at);
}

/* Writes the tokens of a round of two drafts; returns their number. */
static size_t emit_round(sb_sampler *s, mistake m, uint32_t *tokens)
{
    uint32_t drafts[2] = {sb_sample_pick(s, q[0], position, SB_DRAW_draft)};
    size_t behind = place_in(head_can, drafts[0]), here = 0;
    int accepted = 1;
    drafts[1] = sb_sample_pick(s, q[1 + behind], position + 1, SB_DRAW_draft);
    for (size_t row = 0; row < 2; row++) {
        tokens[row] = judge(s, m, row, p[here], row ? q[1 + behind] : q[0], drafts[row], &accepted);
        if (!accepted)
            return row + 1;
        size_t i = row ? 0 : place_in(can[0], drafts[0]);
        size_t j = row ? place_in(can[here], drafts[1]) : 0;
        if (i == TOP ||
            j == TOP) /* only if a mistake accepts a token that the target cannot give */
            return row + 1;
        here = row ? 1 + TOP + (here - 1) * TOP + j : 1 + i;
    }
    tokens[2] = sb_sample_pick(m == BONUS_SAME_WORDS ? same_words : s,
                               m == BONUS_OF_ROW_0 ? p[0] : p[here], position + 2, SB_DRAW_token);
    return 3;
}

/* Three tokens, each drawn from its row. */
static size_t emit_plainly(sb_sampler *s, uint32_t *tokens)
{
    size_t here = 0;
    for (size_t n = 0; n < 3; n++) {
        tokens[n] = sb_sample_pick(s, p[here], position + n, SB_DRAW_token);
        if (n < 2)
            here = n ? 1 + TOP + (here - 1) * TOP + place_in(can[here], tokens[1])
                     : 1 + place_in(can[0], tokens[0]);
    }
    return 3;
}

static size_t counts[1 + TOP + TOP * TOP][V];

static void count(const uint32_t *tokens, size_t n)
{
    size_t here = 0;
    for (size_t i = 0; i < n; i++) {
        counts[here][tokens[i]]++;
        if (i + 1 == n)
            break;
        here = i ? 1 + TOP + (here - 1) * TOP + place_in(can[here], tokens[1])
                 : 1 + place_in(can[0], tokens[0]);
    }
}

/* The chi-square sum over the contexts in which every token is expected 5 times or more, and its
 * degrees of freedom. An impossible token makes the sum infinite. */
static double chi_square(size_t *freedom)
{
    double sum = 0;
    *freedom = 0;
    for (size_t c = 0; c < sizeof p / sizeof *p; c++) {
        size_t drawn = 0, cells = 0, impossible = 0;
        double least = 1e9, mine = 0;
        for (size_t i = 0; i < V; i++)
            drawn += counts[c][i];
        for (size_t i = 0; i < V; i++) {
            double expected = (double)drawn * (double)p[c][i],
                   apart = (double)counts[c][i] - expected;
            impossible += p[c][i] > 0 ? 0 : counts[c][i];
            if (!(p[c][i] > 0))
                continue;
            least = fmin(least, expected);
            mine += apart * apart / fmax(expected, 1e-9);
            cells++;
        }
        sum += impossible ? INFINITY : least >= 5 ? mine : 0;
        *freedom += least >= 5 ? cells - 1 : 0;
    }
    return sum;
}

/* The value that chi-square exceeds once in a million (Wilson and Hilferty). */
static double limit_of(size_t freedom)
{
    double f = (double)freedom, part = 2 / (9 * f);
    return f * pow(1 - part + 4.753 * sqrt(part), 3);
}

/* chi-square in units of its limit; *mean: the mean number of tokens of a round. */
static double run(mistake m, double *mean)
{
    size_t freedom, tokens_emitted = 0;
    memset(counts, 0, sizeof counts);
    for (uint64_t i = 0; i < SEQUENCES; i++) {
        sb_sampling mine = settings;
        sb_sampler *s = NULL;
        uint32_t tokens[3];
        mine.sequence = i;
        assert_int_equal(sb_sampler_new(&mine, V, &s, NULL), SB_OK);
        size_t n = m == PLAIN ? emit_plainly(s, tokens) : emit_round(s, m, tokens);
        count(tokens, n);
        tokens_emitted += n;
        sb_sampler_free(s);
    }
    double sum = chi_square(&freedom), limit = limit_of(freedom);
    printf(
        "%-18s chi-square %10.1f with %2zu degrees of freedom, limit %.1f; %.3f tokens a round\n",
        names[m], sum, freedom, limit, (double)tokens_emitted / SEQUENCES);
    assert_true(freedom >= 12);
    *mean = (double)tokens_emitted / SEQUENCES;
    return sum / limit;
}

/* The copy in this file gives the tokens of sb_rounds_next. */
TEST(test_rounds_are_these)
{
    size_t emitted[4] = {0};
    for (uint64_t i = 0; i < COMPARED; i++) {
        sb_sampling mine = settings;
        sb_round_options options = {.sampling = &mine, .acceptance = SB_ACCEPT_residual};
        sb_rounds *rounds = NULL;
        sb_sampler *s = NULL;
        uint32_t tokens[3];
        mine.sequence = i;
        assert_int_equal(sb_rounds_new(session, &options, &rounds, NULL), SB_OK);
        assert_int_equal(sb_sampler_new(&mine, V, &s, NULL), SB_OK);
        play_set(session, root);
        sb_round round =
            play_round(rounds, &(sb_round_ask){.token = first, .drafts = 2, .forced = -1});
        size_t n = emit_round(s, NONE, tokens);
        assert_int_equal(round.emitted, n);
        assert_memory_equal(round.tokens, tokens, n * sizeof *tokens);
        emitted[n]++;
        sb_sampler_free(s);
        sb_rounds_free(rounds);
    }
    for (size_t n = 1; n <= 3; n++) /* rounds of every length occur */
        assert_true(emitted[n] > 3);
}

/* Drafts that come with their distributions are judged as those of the head: the same rounds, and
 * the same random words. The distribution of a draft is that of the head (E-20). */
TEST(test_given_distributions)
{
    size_t accepted[3] = {0};
    for (uint64_t i = 0; i < COMPARED; i++) {
        sb_sampling mine = settings;
        sb_round_options options = {.sampling = &mine, .acceptance = SB_ACCEPT_residual};
        sb_rounds *rounds = NULL;
        sb_sampler *s = NULL;
        uint32_t ids[2][V];
        float given[2][V];
        sb_draft_odds odds[2];
        mine.sequence = i;
        assert_int_equal(sb_rounds_new(session, &options, &rounds, NULL), SB_OK);
        assert_int_equal(sb_sampler_new(&mine, V, &s, NULL), SB_OK);
        play_set(session, root);
        const sb_round head =
            play_round(rounds, &(sb_round_ask){.token = first, .drafts = 2, .forced = -1});
        for (size_t j = 0; j < 2; j++) {
            float all[V];
            size_t n = 0;
            probabilities(s, sb_rounds_draft_logits(rounds, j), all);
            for (uint32_t t = 0; t < V; t++)
                if (all[t] > 0) {
                    ids[j][n] = t;
                    given[j][n++] = all[t];
                }
            odds[j] = (sb_draft_odds){ids[j], given[j], n};
        }
        play_set(session, root);
        const sb_round round = play_round(
            rounds,
            &(sb_round_ask){
                .token = first, .drafts = 2, .given = head.drafts, .odds = odds, .forced = -1});
        assert_int_equal(round.accepted, head.accepted);
        assert_int_equal(round.emitted, head.emitted);
        assert_memory_equal(round.tokens, head.tokens, head.emitted * sizeof *head.tokens);
        assert_null(sb_rounds_draft_logits(rounds, 0));
        accepted[head.accepted]++;
        sb_sampler_free(s);
        sb_rounds_free(rounds);
    }
    for (size_t n = 0; n < 3; n++)
        assert_true(accepted[n] > 3);
}

TEST(test_as_plain_sampling)
{
    double mean, one, both;
    assert_true(run(PLAIN, &mean) <= 1);
    assert_true(run(NONE, &mean) <= 1);
    /* a row accepts with probability sum min(p, q); the number of tokens has a variance below 1 */
    acceptance(&one, &both);
    assert_true(fabs(mean - (1 + one + both)) < 4 / sqrt(SEQUENCES));
}

TEST(test_mistakes_are_seen)
{
    double mean;
    for (int m = ALWAYS_ACCEPT; m < MISTAKES; m++)
        if (!(run((mistake)m, &mean) > 1))
            fail_msg("%s is not seen", names[m]);
}

/* Power of the test: a distribution in which 2 % of all draws of the first token have moved from
 * the most likely token to the next is almost never taken for the right one. Under it the sum has
 * the mean freedom + lambda and the standard deviation sqrt(2 freedom + 4 lambda); the limit lies z
 * standard deviations below that mean. */
TEST(test_power)
{
    double lambda = 0, most = 0, next = 0, freedom = 60;
    for (size_t i = 0; i < V; i++)
        if ((double)p[0][i] > most) {
            next = most;
            most = (double)p[0][i];
        } else {
            next = fmax(next, (double)p[0][i]);
        }
    lambda = SEQUENCES * 0.02 * 0.02 * (1 / most + 1 / next);
    double z = (freedom + lambda - limit_of((size_t)freedom)) / sqrt(2 * freedom + 4 * lambda);
    printf("a shift of 0.02: lambda %.0f, %.1f standard deviations above the limit\n", lambda, z);
    assert_true(z > 2.33); /* 0.99 */
}

TEST_GROUP(find_prompt, forget_distributions)
