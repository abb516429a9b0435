/* test_pair.c - X-1 to X-5: two models on one text, compared with sessions; planted differences. */
#include "tests/lib/suite.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/run/session.h"
#include "tests/lib/checkpoint.h"
#include "tests/lib/record.h"
#include "tools/judge/compare/near.h"
#include "tools/judge/quality/pair.h"

enum { V = 384, N = 9, TEXTS = 2 };

static sb_model *original;
static const char *folder;
static uint32_t ids[TEXTS][N];
static sb_pair_text texts[TEXTS];

TEST_FIXTURE(open_all)
{
    folder = test_checkpoint("test_pair", "T5", NULL, "bf16", "text");
    original = test_model_open(folder);
    for (size_t i = 0; i < TEXTS; i++) {
        test_draw_ids(i ? "second" : "first", V, ids[i], N);
        texts[i] = (sb_pair_text){ids[i], N - i};
    }
    return 0;
}

TEST_FIXTURE(close_all)
{
    sb_model_close(original);
    return 0;
}

/* The original with the signs of the first values of one tensor flipped. */
static sb_model *changed(const char *tensor)
{
    test_folder f = test_folder_load(folder);
    test_tensor *t = test_folder_find(&f, tensor);
    for (size_t i = 0; i < 512 && 2 * i + 1 < t->size; i++)
        t->bytes[2 * i + 1] ^= 0x80; /* the sign of a bf16 */
    sb_model *model = test_model_open(test_folder_save(&f, "test_pair", "changed"));
    test_folder_free(&f);
    return model;
}

static sb_pair measure(const sb_model *b, size_t mixed)
{
    sb_error err = {{0}};
    sb_pair out;
    const sb_model *const models[2] = {original, b};
    const sb_pair_options options = {.mixed_tokens = mixed};
    sb_status status = sb_pair_measure(models, texts, TEXTS, &options, &out, &err);
    if (status)
        print_error("%s\n", err.text);
    assert_int_equal(status, SB_OK);
    return out;
}

/* "the KL of A's distribution from B's (T-45). It also gives the share of tokens whose largest
 * logits agree" - the same by sessions. */
static void by_sessions(const sb_model *b, const sb_pair *p)
{
    sb_error err;
    float logits[2][V];
    double sum = 0;
    uint64_t same = 0;
    for (size_t i = 0; i < TEXTS; i++) {
        sb_session *s[2] = {test_session(original, NULL, NULL), test_session(b, NULL, NULL)};
        for (size_t t = 0; t < texts[i].count; t++) {
            for (int of = 0; of < 2; of++) {
                assert_int_equal(sb_session_feed(s[of], ids[i] + t, 1, &err), SB_OK);
                assert_int_equal(sb_session_logits(s[of], 0, logits[of], &err), SB_OK);
            }
            sum += sb_near_kl(logits[0], logits[1], V);
            same += sb_greedy(logits[0], V) == sb_greedy(logits[1], V);
        }
        sb_session_free(s[0]);
        sb_session_free(s[1]);
    }
    assert_true(sb_bits_f64(p->kl.mean) == sb_bits_f64(sum / (double)p->tokens));
    assert_true(p->agreement.accepted == same);
    assert_true(p->agreement.of == p->tokens && p->tokens == 2 * N - 1);
    assert_true(p->flip_count == p->tokens - same);
}

/* if one layer differs, that layer contributes everything, is ranked first, and the others
 * contribute exactly 0. */
static void one_place(const char *tensor, const char *name)
{
    sb_model *b = changed(tensor);
    sb_pair p = measure(b, SIZE_MAX);
    size_t ranks[16];
    assert_true(p.layer_count <= 16 && p.mixed == p.tokens);
    sb_pair_rank(&p, ranks);
    assert_string_equal(p.layers[ranks[0]].name, name);
    assert_true(p.kl.mean > 0);
    assert_true(sb_bits_f64(p.layers[ranks[0]].kl) == sb_bits_f64(p.kl.mean));
    for (size_t i = 1; i < p.layer_count; i++) {
        assert_true(p.layers[ranks[i]].kl == 0);
        assert_true(p.layers[ranks[i]].added == 0);
        assert_true(p.layers[ranks[i]].routed[1] == 0);
    }
    assert_true(strcmp(name, "head") == 0 || p.layers[ranks[0]].added > 0);
    by_sessions(b, &p);
    sb_pair_free(&p);
    sb_model_close(b);
}

TEST(test_one_layer)
{
    one_place("model.layers.2.linear_attn.out_proj.weight", "layers.2");
    one_place("model.layers.3.mlp.gate.weight", "layers.3");
}

TEST(test_ends)
{
    one_place("lm_head.weight", "head");
    one_place("model.norm.weight", "head");
}

/* a different MTP head alone shows in the drafts. */
TEST(test_head_alone)
{
    test_folder f =
        test_folder_load(test_checkpoint("test_pair", "T1", "predictable", "bf16", "text"));
    sb_model *a =
        test_model_open(test_checkpoint("test_pair", "T1", "predictable", "bf16", "text"));
    test_tensor *t = test_folder_find(&f, "mtp.fc.weight");
    for (size_t i = 0; 2 * i + 1 < t->size; i++)
        t->bytes[2 * i + 1] ^= (unsigned char)(i % 3 ? 0x80 : 0);
    sb_model *b = test_model_open(test_folder_save(&f, "test_pair", "head"));
    sb_error err;
    sb_pair p;
    const sb_model *const models[2] = {a, b};
    const sb_pair_options options = {.mixed_tokens = 0};
    assert_int_equal(sb_pair_measure(models, texts, TEXTS, &options, &p, &err), SB_OK);
    assert_true(p.kl.most == 0 && p.flip_count == 0 && p.has_drafts && p.other_drafts > 0);
    sb_pair_free(&p);
    sb_model_close(a);
    sb_model_close(b);
    test_folder_free(&f);
}

/* a different choice of experts is counted at its own router; later layers only drift. */
TEST(test_routing)
{
    sb_model *b = changed("model.layers.0.mlp.gate.weight");
    sb_pair p = measure(b, 5);
    assert_true(p.mixed == 5 && p.layers[1].routed[0] == 5u * original->config.experts_per_token);
    assert_true(p.layers[1].routed[1] > 0 && p.layers[1].drifted[1] >= p.layers[1].routed[1]);
    assert_true(p.layers[1].drifted[0] == p.tokens * original->config.experts_per_token);
    for (size_t i = 2; i < p.layer_count; i++)
        assert_true(p.layers[i].routed[1] == 0);
    sb_pair_free(&p);
    sb_model_close(b);
}

TEST(test_nothing)
{
    sb_pair p = measure(original, 4);
    assert_true(p.kl.most == 0 && p.flip_count == 0 && p.agreement.accepted == p.tokens);
    for (size_t i = 0; i < p.layer_count; i++)
        assert_true(p.layers[i].kl == 0 && p.layers[i].added == 0 && p.layers[i].drifted[1] == 0);
    sb_pair_free(&p);
}

TEST(test_refused)
{
    sb_error err;
    sb_pair out;
    sb_model *other = test_model_open(test_checkpoint("test_pair", "T4", NULL, "bf16", "text"));
    const sb_model *const models[2] = {original, other};
    const sb_pair_options options = {.mixed_tokens = 0};
    assert_int_equal(sb_pair_measure(models, texts, TEXTS, &options, &out, &err), SB_ERR_INPUT);
    assert_non_null(strstr(err.text, "not two forms of one model"));
    const sb_model *const same[2] = {original, original};
    assert_int_equal(sb_pair_measure(same, texts, 0, &options, &out, &err), SB_ERR_USAGE);
    sb_model_close(other);
}

TEST_GROUP(open_all, close_all)
