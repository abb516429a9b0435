#include "tests/unit/draws_play.h"

#include <math.h>
#include <stdlib.h>

#include "ref/base/philox.h"
#include "tests/lib/suite.h"

/* --- random numbers of the tests -------------------------------------------------------------- */

typedef struct numbers {
    uint64_t seed, next;
} numbers;

static double uniform(numbers *n)
{
    const uint32_t counter[4] = {(uint32_t)n->next, (uint32_t)(n->next >> 32), 7, 7};
    const uint32_t key[2] = {(uint32_t)n->seed, (uint32_t)(n->seed >> 32)};
    const sb_philox block = sb_philox4x32_10(counter, key);
    n->next++;
    return ((double)block.word[0] + (double)block.word[1] * 0x1p32 + 0.5) * 0x1p-64;
}

static double normal(numbers *n)
{
    return sqrt(-2 * log(uniform(n))) * cos(6.283185307179586 * uniform(n));
}

/* --- the play --------------------------------------------------------------------------------- */

typedef struct sequence {
    sb_plain_drawer *drawer;
    size_t count;
} sequence;

static void feed(sb_draws *d, sequence *s, uint32_t i, uint32_t token, int given)
{
    assert_int_equal(sb_draws_feed(d, i, s->count, token, given, NULL), SB_OK);
    assert_int_equal(sb_plain_drawer_feed(s->drawer, token, given, NULL), SB_OK);
    s->count++;
}

static void begin(const draws_play *play, sb_draws *d, sequence *s, uint32_t i)
{
    sb_step_sampling declared = play->declared;
    declared.sequence = i;
    declared.seed += i;
    assert_int_equal(sb_draws_declare(d, &declared, NULL), SB_OK);
    sb_drawing engine = play->engine;
    engine.does.seed = play->declared.seed;
    assert_int_equal(sb_plain_drawer_new(&engine, DRAWS_VOCAB, i, play->seed, &s->drawer, NULL),
                     SB_OK);
    for (uint32_t k = 0; k < 8; k++)
        feed(d, s, i, (k * 5) % DRAWS_VOCAB, 1);
}

static void make_logits(const draws_play *play, numbers *n, float *logits)
{
    for (size_t i = 0; i < DRAWS_VOCAB; i++) {
        logits[i] = (float)(play->spread * normal(n));
        if (play->ties)
            logits[i] = floorf(2 * logits[i]) / 2;
    }
}

static void one(const draws_play *play, sb_draws *d, sequence *s, uint32_t i, numbers *of_logits,
                numbers *of_noise)
{
    float logits[DRAWS_VOCAB], seen[DRAWS_VOCAB], u;
    sb_verdict verdict;
    make_logits(play, of_logits, logits);
    for (size_t k = 0; k < DRAWS_VOCAB; k++)
        seen[k] = logits[k] + (float)(play->noise * (uniform(of_noise) - 0.5));
    const uint32_t token = sb_plain_drawer_draw(s->drawer, logits, &u);
    const sb_draw_row row = {
        .position = s->count - 1, .logits = seen, .pair = 2 * play->noise, .uniform = &u};
    assert_int_equal(sb_draws_row(d, i, &row, NULL), SB_OK);
    assert_int_equal(sb_draws_token(d, i, token, &verdict, NULL), SB_OK);
    assert_int_not_equal(verdict, SB_VERDICT_none);
    feed(d, s, i, token, 0);
}

void draws_run(const draws_play *play, sb_sampler_verdict *out)
{
    sb_draws *d = NULL;
    sequence *s = calloc(play->sequences, sizeof *s);
    numbers of_logits = {play->seed, 0}, of_noise = {play->seed ^ 0x77, 0};
    assert_non_null(s);
    assert_int_equal(sb_draws_new(DRAWS_VOCAB, &d, NULL), SB_OK);
    for (uint32_t i = 0; i < play->sequences; i++)
        begin(play, d, &s[i], i);
    for (size_t t = 0; t < play->tokens; t++)
        for (uint32_t i = 0; i < play->sequences; i++) {
            if (play->same_rows)
                of_logits.next = t * 1024;
            one(play, d, &s[i], i, &of_logits, &of_noise);
        }
    sb_draws_finish(d, out);
    sb_draws_free(d);
    for (uint32_t i = 0; i < play->sequences; i++)
        sb_plain_drawer_free(s[i].drawer);
    free(s);
}
