/* test_tree_more.c - S-10 on every other kind of folder, under other knobs, and along long chains
 * of rounds without a reset. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <string.h>

#include "ref/base/rng.h"
#include "tests/lib/plain.h"
#include "tests/mtp/tree.h"

#define PROGRAM "test_tree_more"

static void grow_on(const sb_model *model, const char *name, size_t prompt_tokens,
                    const char *settings)
{
    sb_knobs knobs = test_knobs(settings);
    tree_grow(&(tree_plan){.model = model,
                           .knobs = &knobs,
                           .prompt = name,
                           .prompt_tokens = prompt_tokens,
                           .drafts = 2,
                           .rounds = 2,
                           .between = TREE_BOTH,
                           .few = 1});
}

static void grow_made(const char *name, const char *preset, const char *format, const char *experts,
                      const char *settings)
{
    sb_model *model = test_model_open(test_checkpoint_with(
        PROGRAM,
        &(sb_make_options){.dir = name, .preset = preset, .format = format, .experts = experts}));
    grow_on(model, name, 4, settings);
    sb_model_close(model);
}

TEST(test_three_heads_per_key_head)
{
    grow_made("T3", "T3", NULL, NULL, "");
}

TEST(test_dense_tied)
{
    grow_made("T4", "T4", NULL, NULL, "");
}

TEST(test_next_layout)
{
    grow_made("T5", "T5", NULL, NULL, "");
}

TEST(test_nvfp4)
{
    grow_made("T3-nvfp4", "T3", "nvfp4-ct", NULL, "act_fp4=vllm_ref");
}

TEST(test_fp8)
{
    grow_made("T3-fp8", "T3", "fp8-block", NULL, "act_fp8_group=vllm_cuda kv_cache=fp8");
}

TEST(test_experts_apart_and_fused)
{
    grow_made("T3-apart", "T3", NULL, "split", "");
    grow_made("T3-fused", "T3", NULL, "fused", "");
}

/* K-26 to K-28 */
TEST(test_other_heads)
{
    const sb_model *model = play_model(PROGRAM, "T4", "mistakes");
    grow_on(model, "position of the token", 4, "mtp_position=token");
    grow_on(model, "an entry of zeros", 4, "mtp_first=zeros mtp_position=token");
    grow_on(model, "before the norm", 4, "mtp_hidden=residual");
}

TEST(test_rounding_activations)
{
    grow_on(play_model(PROGRAM, "T4", "mistakes"), "bf16", 4,
            "act=bf16 params=act conv_sum=act beta=act gated_norm=act scores=act");
}

TEST(test_long_prompt)
{
    grow_on(play_model(PROGRAM, "T4", "mistakes"), "a prompt of 63", 63, "");
    grow_on(play_model(PROGRAM, "T4", "mistakes"), "a prompt of 70", 70, "");
    grow_on(play_model(PROGRAM, "T4", "mistakes"), "a prompt of 1", 1, "");
}

/* Rounds of 0 to 8 drafts, some forced and some not, one after the other in one session. After each
 * round the state is that of a session that is fed one token at a time. */
static void run_chain(const sb_model *model, sb_rollback rollback, const char *name, size_t rounds)
{
    uint64_t key = sb_rng_key(5, name);
    sb_session *plain = play_session(model, NULL), *session = play_session(model, NULL);
    sb_rounds *r = play_rounds(session, NULL, rollback);
    uint32_t token = play_prompt(plain, name, 3);
    size_t natural = 0;
    assert_int_equal(play_prompt(session, name, 3), token);
    for (size_t i = 0; i < rounds; i++) {
        size_t K = sb_rng_below(key, 3 * i, SB_MAX_DRAFTS + 1);
        int forced = sb_rng_below(key, 3 * i + 1, 3) == 0
                         ? -1
                         : (int)sb_rng_below(key, 3 * i + 2, (uint32_t)K + 1);
        sb_round round =
            play_round(r, &(sb_round_ask){.token = token, .drafts = K, .forced = forced});
        natural += forced < 0 ? round.accepted : 0;
        for (size_t n = 0; n < round.emitted; n++) {
            test_feed(plain, &token, 1);
            token = round.tokens[n];
        }
        assert_int_equal(token, play_greedy(plain)); /* the row after the last accepted draft */
        char where[96];
        snprintf(where, sizeof where, "%s: round %zu of %zu drafts", name, i, K);
        play_same(where, sb_session_state(session), sb_session_state(plain));
    }
    printf("%s: %zu rounds, %zu drafts accepted unforced\n", name, rounds, natural);
    sb_rounds_free(r);
    sb_session_free(plain);
    sb_session_free(session);
}

TEST(test_chains)
{
    run_chain(play_model(PROGRAM, "T4", "mistakes"), SB_ROLLBACK_snapshots, "mistakes, snapshots",
              30);
    run_chain(play_model(PROGRAM, "T4", "mistakes"), SB_ROLLBACK_replay, "mistakes, replay", 30);
    run_chain(play_model(PROGRAM, "T4", "predictable"), SB_ROLLBACK_snapshots,
              "predictable, snapshots", 30);
    run_chain(play_model(PROGRAM, "T4", "predictable"), SB_ROLLBACK_replay, "predictable, replay",
              30);
}

TEST_GROUP(NULL, play_close_models)
