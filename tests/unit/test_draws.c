/* Samplers against what a trace declares (T-95 to T-97): correct ones pass, common mistakes fail
 * with their names. */
#include <stdio.h>
#include <string.h>

#include "tests/lib/check_all.h"
#include "tests/lib/suite.h"
#include "tests/unit/draws_play.h"

/* Everything is declared: temperature 1, no filter, no penalty. */
static sb_step_sampling plain(sb_trace_sampler sampler)
{
    sb_step_sampling s = {.sampler = sampler, .seed_kind = SB_SEED_number, .seed = 42};
    for (unsigned i = 0; i < SB_SETTINGS; i++) {
        s.has[i] = 1;
        s.value[i] = sb_setting_at((sb_setting)i)->off;
    }
    return s;
}

static draws_play honest(sb_step_sampling s)
{
    return (draws_play){.declared = s,
                        .engine = {.does = s, .penalized = 1},
                        .sequences = 4,
                        .tokens = 2500,
                        .spread = 1.5,
                        .seed = 1};
}

static void expect(const draws_play *play, sb_verdict worst, const char *words, const char *name)
{
    sb_sampler_verdict v;
    draws_run(play, &v);
    if (v.verdict > worst || (worst == SB_VERDICT_FAIL && v.verdict != worst) ||
        !strstr(v.first.words, words))
        fail_msg("%s: %s, %zu of %zu outside, %zu open, %zu replayed: %s; expected %s: %s", name,
                 sb_verdict_name(v.verdict), v.outside, v.draws, v.open, v.replayed, v.first.words,
                 sb_verdict_name(worst), words);
}

/* --- correct samplers ------------------------------------------------------------------------- */

typedef struct mix {
    const char *name;
    double value[SB_SETTINGS];
} mix;

static const mix mixes[] = {
    {"plain", {1, 0, 1, 0, 1, 0, 0, 0}},
    {"hot", {1.7, 0, 1, 0, 1, 0, 0, 0}},
    {"cold", {0.3, 0, 1, 0, 1, 0, 0, 0}},
    {"top_k", {1, 5, 1, 0, 1, 0, 0, 0}},
    {"top_k 1", {1, 1, 1, 0, 1, 0, 0, 0}},
    {"top_p", {1, 0, 0.9, 0, 1, 0, 0, 0}},
    {"min_p", {1, 0, 1, 0.1, 1, 0, 0, 0}},
    {"all filters", {0.8, 20, 0.95, 0.05, 1, 0, 0, 0}},
    {"repetition", {1, 0, 1, 0, 1.3, 0, 0, 0}},
    {"presence and frequency", {1, 0, 0.95, 0, 1, 0.5, 0.01, 0}},
    {"window", {0.9, 40, 0.95, 0.02, 1.1, 0.2, 0.1, 32}},
};

static sb_step_sampling mixed(size_t which, sb_trace_sampler sampler)
{
    sb_step_sampling s = plain(sampler);
    memcpy(s.value, mixes[which].value, sizeof s.value);
    return s;
}

static void all_mixes(int ties, double noise)
{
    for (size_t i = 0; i < sizeof mixes / sizeof *mixes; i++)
        for (unsigned sampler = 1; sampler < SB_SAMPLERS; sampler++) {
            draws_play play = honest(mixed(i, (sb_trace_sampler)sampler));
            play.ties = ties;
            play.noise = noise;
            play.seed = i * 100 + sampler;
            play.tokens = check_some(i * 8 + sampler, 20) ? 2500 : 25;
            expect(&play, SB_VERDICT_NEAR_TIE, "", mixes[i].name);
        }
}

TEST(correct_samplers_pass)
{
    all_mixes(0, 0);
}

TEST(ties_at_the_cut_pass)
{
    all_mixes(1, 0);
}

TEST(unknown_logits_pass)
{
    all_mixes(0, 0.01);
}

/* --- mistakes --------------------------------------------------------------------------------- */

#define D(name) play.engine.does.value[SB_SETTING_##name]

TEST(a_wrong_top_k_is_named)
{
    draws_play play = honest(mixed(3, SB_SAMPLER_samebit));
    D(top_k) = 6;
    expect(&play, SB_VERDICT_FAIL, "it draws as if top_k were one more", "top_k 6 for 5");
    D(top_k) = 4;
    expect(&play, SB_VERDICT_FAIL, "it draws as if top_k were one less", "top_k 4 for 5");
    D(top_k) = 0;
    expect(&play, SB_VERDICT_FAIL, "it draws as if there were no", "no top_k");
}

TEST(a_wrong_top_p_is_named)
{
    draws_play play = honest(mixed(5, SB_SAMPLER_vllm));
    play.engine.dropped = -1;
    expect(&play, SB_VERDICT_FAIL, "it draws as if top_p kept one token more", "one more");
    play.engine.dropped = 1;
    expect(&play, SB_VERDICT_FAIL, "it draws as if top_p kept one token less", "one less");
    play.engine.dropped = 0;
    D(top_p) = 1;
    expect(&play, SB_VERDICT_FAIL, "it draws as if there were no", "no top_p");
}

TEST(min_p_ignored_is_named)
{
    draws_play play = honest(mixed(6, SB_SAMPLER_llamacpp));
    D(min_p) = 0;
    expect(&play, SB_VERDICT_FAIL, "it draws as if there were no", "no min_p");
}

TEST(a_wrong_temperature_is_named)
{
    draws_play play = honest(mixed(0, SB_SAMPLER_transformers));
    D(temperature) = 0.9;
    expect(&play, SB_VERDICT_FAIL, "it draws as if the temperature were 0.9 times as high", "0.9");
    D(temperature) = 1.1;
    expect(&play, SB_VERDICT_FAIL, "it draws as if the temperature were 1.1 times as high", "1.1");
    play = honest(mixed(7, SB_SAMPLER_samebit));
    D(temperature) = 1;
    expect(&play, SB_VERDICT_FAIL, "the temperature were", "no temperature");
}

TEST(wrong_penalties_are_named)
{
    draws_play play = honest(mixed(8, SB_SAMPLER_vllm));
    play.engine.penalized = 2;
    expect(&play, SB_VERDICT_FAIL, "it draws as if the penalties were applied twice", "twice");
    play.engine.penalized = 0;
    expect(&play, SB_VERDICT_FAIL, "it draws as if there were no", "none");
    play = honest(mixed(9, SB_SAMPLER_vllm));
    play.engine.penalized = 2;
    expect(&play, SB_VERDICT_FAIL, "", "presence and frequency twice");
    play.engine.penalized = 0;
    expect(&play, SB_VERDICT_FAIL, "", "presence and frequency not at all");
}

TEST(another_order_is_named)
{
    draws_play play = honest(mixed(7, SB_SAMPLER_samebit));
    play.declared.value[SB_SETTING_temperature] = D(temperature) = 2;
    play.declared.value[SB_SETTING_top_k] = D(top_k) = 0;
    play.declared.value[SB_SETTING_top_p] = D(top_p) = 0.8;
    play.engine.does.sampler = SB_SAMPLER_llamacpp;
    expect(&play, SB_VERDICT_FAIL, "it draws as if the temperature came last", "order");
}

TEST(one_random_number_for_several_sequences_is_named)
{
    draws_play play = honest(mixed(0, SB_SAMPLER_vllm));
    play.engine.seed_of_first = 1;
    play.same_rows = 1;
    play.tokens = 200;
    expect(&play, SB_VERDICT_FAIL, "as if both had one seed", "the same rows");
    play.same_rows = 0;
    play.tokens = 2500;
    expect(&play, SB_VERDICT_FAIL, "as if both had one seed", "other rows");
}

TEST(one_random_number_for_all_tokens_is_named)
{
    draws_play play = honest(mixed(0, SB_SAMPLER_vllm));
    play.engine.stuck = 1;
    expect(&play, SB_VERDICT_FAIL, "", "stuck");
}

/* --- generators ------------------------------------------------------------------------------- */

static draws_play known(sb_trace_sampler sampler, sb_trace_generator generator)
{
    draws_play play = honest(mixed(7, sampler));
    play.declared.generator = play.engine.does.generator = generator;
    play.tokens = 1000;
    return play;
}

static const struct {
    sb_trace_sampler sampler;
    sb_trace_generator generator;
} pairs[] = {{SB_SAMPLER_samebit, SB_GENERATOR_philox},
             {SB_SAMPLER_llamacpp, SB_GENERATOR_mt19937},
             {SB_SAMPLER_vllm, SB_GENERATOR_torch_cpu},
             {SB_SAMPLER_transformers, SB_GENERATOR_inverse},
             {SB_SAMPLER_transformers, SB_GENERATOR_inverse_ids}};
enum { PAIRS = sizeof pairs / sizeof *pairs };

TEST(generators_are_followed)
{
    for (size_t i = 0; i < PAIRS; i++) {
        sb_sampler_verdict v;
        draws_play play = known(pairs[i].sampler, pairs[i].generator);
        draws_run(&play, &v);
        if (v.verdict > SB_VERDICT_NEAR_TIE || v.replayed < v.draws * 9 / 10)
            fail_msg("%s: %s, %zu of %zu replayed: %s", sb_trace_generator_name(pairs[i].generator),
                     sb_verdict_name(v.verdict), v.replayed, v.draws, v.first.words);
    }
}

TEST(a_reused_seed_is_named)
{
    for (size_t i = 0; i < 3; i++) {
        draws_play play = known(pairs[i].sampler, pairs[i].generator);
        play.engine.seed_of_first = 1;
        play.tokens = 60;
        expect(&play, SB_VERDICT_FAIL, "draws with seed 42", "reused");
        if (i) {
            play.engine.seed_of_first = 0;
            play.engine.stuck = 1;
            expect(&play, SB_VERDICT_FAIL, "as if its generator began anew", "stuck");
        }
    }
}

TEST(another_seed_fails_at_once)
{
    for (size_t i = 0; i < 3; i++) {
        draws_play play = known(pairs[i].sampler, pairs[i].generator);
        play.declared.seed = 7;
        play.engine.does.generator = SB_GENERATOR_inverse;
        play.tokens = 60;
        expect(&play, SB_VERDICT_FAIL, "does not give at draw", "another");
    }
}

/* --- what is not declared --------------------------------------------------------------------- */

TEST(undeclared_settings_are_the_weakest_claim)
{
    draws_play play = honest(mixed(3, SB_SAMPLER_samebit));
    sb_sampler_verdict v;
    memset(play.declared.has, 0, sizeof play.declared.has);
    play.declared.has[SB_SETTING_top_k] = 1;
    play.tokens = 300;
    D(temperature) = 2;
    draws_run(&play, &v);
    assert_true(v.verdict <= SB_VERDICT_NEAR_TIE);
    assert_int_equal(v.tested, 0);
    assert_non_null(strstr(v.lacks, "temperature, top_p, min_p, repetition_penalty"));
    D(top_k) = 20; /* beyond all tokens that occurred before and could be penalized */
    play.tokens = 4;
    draws_run(&play, &v);
    assert_int_equal(v.verdict, SB_VERDICT_FAIL);
}
