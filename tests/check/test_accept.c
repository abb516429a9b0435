/* test_accept.c - acceptance along a text: counts, intervals, rounds, and the verdict about a head.
 * test_head_faults.c has the faults in the files of a head that acceptance must show. */
#include "tests/lib/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/rng.h"
#include "tests/check/head_faults.h"
#include "tools/judge/accept/head.h"

enum { POSITIONS = 96 };

static const char *healthy_folder;
static sb_accept healthy;
static sb_accept_text *texts;
static size_t text_count;

/* Recipe `predictable` with one layer: the trunk is fast, the head is complete. */
static const sb_make_options vehicle = {
    .dir = "healthy", .preset = "T1", .recipe = "predictable", .layers = 1};

static void measure(const char *folder, const sb_accept_text *of, size_t count, size_t drafts,
                    sb_accept *out)
{
    sb_error err;
    sb_model *model = test_model_open(folder);
    sb_accept_options options = {.drafts = drafts};
    if (sb_accept_measure(model, of, count, &options, out, &err))
        fail_msg("%s: %s", folder, err.text);
    sb_model_close(model);
}

static void write_texts(const char *folder, uint64_t positions, sb_accept_text **out, size_t *count)
{
    sb_error err;
    sb_model *model = test_model_open(folder);
    if (sb_head_texts(model, positions, out, count, &err))
        fail_msg("%s", err.text);
    sb_model_close(model);
}

TEST_FIXTURE(setup)
{
    healthy_folder = test_checkpoint_with("test_accept", &vehicle);
    write_texts(healthy_folder, POSITIONS, &texts, &text_count);
    measure(healthy_folder, texts, text_count, 1, &healthy);
    return 0;
}

TEST_FIXTURE(teardown)
{
    sb_accept_free(&healthy);
    sb_head_texts_free(texts, text_count);
    return 0;
}

/* --- counts ----------------------------------------------------------------------------------- */

/* E-1, computed in another way: each position has a session of its own. */
TEST(rows_are_those_of_rounds)
{
    enum { K = 3, COUNT = 14 };
    const sb_accept_text text = {texts[0].ids, COUNT, 0};
    sb_accept a;
    sb_error err;
    float *logits = malloc(384 * sizeof *logits);
    assert_non_null(logits);
    measure(healthy_folder, &text, 1, K, &a);
    assert_int_equal(a.count, COUNT - 1);
    sb_model *model = test_model_open(healthy_folder);
    for (size_t i = 0; i < a.count; i++) {
        const sb_accept_row *r = &a.rows[i];
        sb_session *session = NULL;
        uint32_t token = text.ids[i + 1];
        size_t accepted = 0;
        assert_int_equal(r->position, i + 1);
        assert_int_equal(r->token, token);
        assert_int_equal(sb_session_new(model, &(sb_session_options){.mtp = 1}, &session, &err), 0);
        assert_int_equal(sb_session_feed(session, text.ids, i + 1, &err), 0);
        for (size_t j = 0; j < K; j++) {
            assert_int_equal(sb_session_draft(session, token, logits, &err), 0);
            token = sb_greedy(logits, 384);
            assert_int_equal(r->drafts[j], token);
        }
        for (size_t j = 0; j <= K; j++) {
            token = j ? r->drafts[j - 1] : text.ids[i + 1];
            assert_int_equal(sb_session_feed(session, &token, 1, &err), 0);
            assert_int_equal(sb_session_logits(session, 0, logits, &err), 0);
            assert_int_equal(r->target[j], sb_greedy(logits, 384));
            float best = logits[r->target[j]];
            logits[r->target[j]] = -INFINITY;
            assert_true(r->margin[j] == best - logits[sb_greedy(logits, 384)]);
        }
        while (accepted < K && r->drafts[accepted] == r->target[accepted])
            accepted++;
        assert_int_equal(r->accepted, accepted);
        sb_session_free(session);
    }
    sb_model_close(model);
    sb_accept_free(&a);
    free(logits);
}

/* E-2: sums by depth, over several texts. */
TEST(depths_are_counted)
{
    sb_accept a;
    uint64_t by_hand[3] = {0}, sum = 0;
    measure(healthy_folder, texts, text_count, 3, &a);
    assert_int_equal(a.count, POSITIONS);
    assert_int_equal(a.texts, text_count);
    assert_int_equal(a.chosen, POSITIONS);
    for (size_t i = 0; i < a.count; i++)
        for (size_t j = 0; j < a.rows[i].accepted; j++)
            by_hand[j]++;
    for (size_t j = 0; j < 3; j++) {
        assert_int_equal(a.depth[j].rate.accepted, by_hand[j]);
        assert_int_equal(a.depth[j].rate.of, POSITIONS);
        assert_int_equal(a.depth[j].reached, j ? by_hand[j - 1] : POSITIONS);
        sum += by_hand[j];
    }
    assert_int_equal(a.accepted, sum);
    assert_int_equal(a.depth[0].rate.accepted, healthy.depth[0].rate.accepted);
    /* a text does not depend on the text before it */
    sb_accept alone;
    measure(healthy_folder, &texts[1], 1, 3, &alone);
    for (size_t i = 0; i < alone.count; i++) {
        assert_int_equal(alone.rows[i].position, a.rows[a.ends[0] + i].position);
        assert_memory_equal(alone.rows[i].margin, a.rows[a.ends[0] + i].margin,
                            sizeof alone.rows[i].margin);
    }
    sb_accept_free(&alone);
    sb_accept_free(&a);
}

/* E-6: the counted rounds are those that real rounds along the text give. */
TEST(chain_is_what_an_engine_counts)
{
    enum { K = 3 };
    sb_accept a;
    sb_error err;
    sb_session *session = NULL;
    sb_rounds *rounds = NULL;
    uint64_t count = 0, accepted = 0;
    size_t first = 0;            /* the position of the second round */
    assert_true(text_count > 1); /* E-14: "random prompts": they differ */
    assert_memory_not_equal(texts[0].ids, texts[1].ids, 4 * sizeof *texts[0].ids);
    measure(healthy_folder, texts, 1, K, &a);
    sb_model *model = test_model_open(healthy_folder);
    assert_int_equal(sb_session_new(model, &(sb_session_options){.mtp = 1}, &session, &err), 0);
    assert_int_equal(sb_rounds_new(session, NULL, &rounds, &err), 0);
    assert_int_equal(sb_session_feed(session, texts[0].ids, 4, &err), 0);
    for (size_t at = 4;;) {
        sb_round round;
        assert_int_equal(
            sb_rounds_next(rounds,
                           &(sb_round_ask){.token = texts[0].ids[at], .drafts = K, .forced = -1},
                           &round, &err),
            0);
        at += round.emitted;
        first = first ? first : at;
        if (at >= texts[0].count)
            break;
        count++;
        accepted += round.accepted;
    }
    assert_int_equal(a.chain.texts, 1);
    assert_int_equal(a.chain.from, 4);
    assert_int_equal(a.chain.rounds, count);
    assert_int_equal(a.chain.drafted, count * K);
    assert_int_equal(a.chain.accepted, accepted);
    sb_accept_free(&a);
    /* E-6: "the last round that ends within the text": a text one token too short for the first
     * round, and a text of just that round */
    for (size_t more = 0; more < 2; more++) {
        measure(healthy_folder, &(sb_accept_text){texts[0].ids, first + more, 4}, 1, K, &a);
        assert_int_equal(a.chain.rounds, more);
        sb_accept_free(&a);
    }
    /* rounds begin only behind a token that the target would not choose */
    uint32_t ids[40];
    memcpy(ids, texts[0].ids, sizeof ids);
    ids[20] = ids[20] ? 0 : 1;
    measure(healthy_folder, &(sb_accept_text){ids, 21, 4}, 1, K, &a);
    assert_int_equal(a.chain.rounds, 0);
    sb_accept_free(&a);
    sb_rounds_free(rounds);
    sb_session_free(session);
    sb_model_close(model);
}

/* E-16: the counted rounds are those of a run that generated the answer, the last round beyond its
 * end included. */
TEST(answers_are_counted_to_the_unit)
{
    enum { K = 3, GIVEN = 4 };
    sb_error err;
    sb_model *model = test_model_open(healthy_folder);
    for (size_t end = GIVEN; end < GIVEN + 16; end++) {
        const sb_accept_text text = {texts[0].ids, end, GIVEN};
        sb_accept_options options = {.drafts = K, .answered = 1};
        sb_session *session = NULL;
        sb_rounds *rounds = NULL;
        uint64_t count = 0, by_depth[SB_MAX_DRAFTS] = {0};
        sb_accept a;
        if (end == GIVEN) { /* no token is answered */
            assert_int_equal(sb_accept_measure(model, &text, 1, &options, &a, &err), SB_ERR_INPUT);
            sb_accept_free(&a);
            continue;
        }
        assert_int_equal(sb_accept_measure(model, &text, 1, &options, &a, &err), 0);
        assert_int_equal(sb_session_new(model, &(sb_session_options){.mtp = 1}, &session, &err), 0);
        assert_int_equal(sb_rounds_new(session, NULL, &rounds, &err), 0);
        assert_int_equal(sb_session_feed(session, text.ids, GIVEN, &err), 0);
        for (size_t at = GIVEN; at + 1 < end; count++) {
            sb_round round;
            sb_round_ask ask = {.token = text.ids[at], .drafts = K, .forced = -1};
            assert_int_equal(sb_rounds_next(rounds, &ask, &round, &err), 0);
            at += round.emitted;
            for (size_t j = 0; j < round.accepted; j++)
                by_depth[j]++;
        }
        assert_int_equal(a.chain.rounds, count);
        assert_int_equal(a.chain.drafted, K * count);
        assert_int_equal(a.chain.accepted, by_depth[0] + by_depth[1] + by_depth[2]);
        assert_memory_equal(a.chain.by_depth, by_depth, sizeof by_depth);
        sb_rounds_free(rounds);
        sb_session_free(session);
        sb_accept_free(&a);
    }
    sb_model_close(model);
}

/* Recipe `predictable` keeps its promise in presets at their full depth. */
TEST(predictable_lies_between)
{
    static const char *const presets[] = {"T1", "T2", "T3", "T4", "T5", "T6"};
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
        sb_accept a;
        sb_accept_text *own;
        size_t count;
        const char *folder =
            test_checkpoint("test_accept", presets[i], "predictable", "bf16", "text");
        write_texts(folder, 32, &own, &count);
        measure(folder, own, count, 1, &a);
        double rate = a.depth[0].interval.rate;
        if (getenv("SAMEBIT_TABLE"))
            printf("%s %.3f\n", presets[i], rate);
        if (!(rate >= 0.5 && rate <= 0.9))
            fail_msg("%s: acceptance %.3f", presets[i], rate);
        sb_accept_free(&a);
        sb_head_texts_free(own, count);
    }
}

TEST(refusals)
{
    sb_accept a;
    sb_error err;
    uint32_t id = 5, bad[2] = {5, 4000};
    sb_model *model = test_model_open(healthy_folder);
    sb_accept_options options = {.drafts = 1};
    assert_int_equal(sb_accept_measure(model, &(sb_accept_text){&id, 1, 0}, 1, &options, &a, &err),
                     SB_ERR_INPUT);
    sb_accept_free(&a);
    assert_int_equal(sb_accept_measure(model, &(sb_accept_text){bad, 2, 0}, 1, &options, &a, &err),
                     SB_ERR_INPUT);
    sb_accept_free(&a);
    options.drafts = 9;
    assert_int_equal(sb_accept_measure(model, texts, 1, &options, &a, &err), SB_ERR_USAGE);
    sb_accept_free(&a);
    sb_model_close(model);
    sb_make_options headless = vehicle;
    headless.dir = "headless";
    headless.no_mtp = 1;
    model = test_model_open(test_checkpoint_with("test_accept", &headless));
    options.drafts = 1;
    assert_int_equal(sb_accept_measure(model, texts, 1, &options, &a, &err), SB_ERR_USAGE);
    sb_accept_free(&a);
    sb_model_close(model);
}

/* --- the table of head and trunk -------------------------------------------------------------- */

static sb_head_run run_head(const char *path, const char *original)
{
    sb_head_run run;
    sb_error err;
    sb_head_options options = {.path = path, .original = original, .positions = POSITIONS};
    if (sb_head_measure(&options, &run, &err))
        fail_msg("%s", err.text);
    return run;
}

static const char *planted(const char *fault, const char *name)
{
    test_folder f = test_folder_load(healthy_folder);
    head_fault_plant(head_fault_of(fault), &f);
    const char *path = test_folder_save(&f, "test_accept", name);
    test_folder_free(&f);
    return path;
}

static const char *trunk_damaged(void)
{
    test_folder f = test_folder_load(healthy_folder);
    for (size_t i = 0; i < f.count; i++)
        if (strstr(f.tensors[i].name, "layers.0.linear_attn.out_proj"))
            head_change(&f, f.tensors[i].name, 60, 0);
    const char *path = test_folder_save(&f, "test_accept", "trunk");
    test_folder_free(&f);
    return path;
}

TEST(a_weak_head_is_told_from_a_bad_trunk)
{
    sb_head_run r = run_head(healthy_folder, NULL);
    assert_int_equal(r.verdict, SB_HEAD_UNKNOWN);
    assert_non_null(strstr(r.why, "--against"));
    assert_false(r.failed);
    r = run_head(healthy_folder, healthy_folder);
    assert_int_equal(r.verdict, SB_HEAD_OK);
    for (int c = 0; c < 4; c++)
        assert_int_equal(r.cell[c & 1][c >> 1].accepted, healthy.depth[0].rate.accepted);

    const char *weak = planted("hidden half of fc zero", "weak");
    r = run_head(weak, healthy_folder);
    assert_int_equal(r.verdict, SB_HEAD_WEAK);
    assert_false(r.trunk_bad);
    assert_true(r.cell[0][0].accepted < r.cell[1][0].accepted);
    assert_int_equal(r.cell[0][0].accepted, r.cell[0][1].accepted);
    assert_int_equal(r.cell[1][0].accepted, r.cell[1][1].accepted);
    assert_int_equal(run_head(weak, NULL).verdict, SB_HEAD_UNKNOWN);
    assert_int_equal(run_head(planted("halves of fc swapped", "swapped"), NULL).verdict,
                     SB_HEAD_WEAK);
    assert_int_equal(run_head(planted("drawn anew", "drawn"), NULL).verdict, SB_HEAD_WEAK);

    r = run_head(trunk_damaged(), healthy_folder);
    assert_int_equal(r.verdict, SB_HEAD_OK);
    assert_true(r.trunk_bad);
    assert_true(r.cell[1][0].rate < r.cell[1][1].low);

    assert_int_equal(run_head(planted("four bits per weight", "four"), healthy_folder).verdict,
                     SB_HEAD_OK);
    r = run_head(test_path("test_accept", "no-such"), NULL);
    assert_int_equal(r.verdict, SB_HEAD_UNKNOWN);
    assert_true(r.failed);
    r = run_head(healthy_folder, test_path("test_accept", "no-such"));
    assert_int_equal(r.verdict, SB_HEAD_UNKNOWN);
    assert_false(r.failed);
    assert_non_null(strstr(r.why, "no-such"));
}

static sb_head_run cells(uint64_t common, uint64_t own, uint64_t other, uint64_t there,
                         uint64_t best)
{
    const uint64_t accepted[SB_HEAD_SIDES][SB_HEAD_SIDES] = {{own, there}, {other, best}};
    sb_head_run run = {.verdict = SB_HEAD_UNKNOWN, .common = common};
    for (int h = 0; h < SB_HEAD_SIDES; h++)
        for (int t = 0; t < SB_HEAD_SIDES; t++) {
            sb_rate rate = {accepted[h][t], 200, 1};
            sb_interval i = sb_rate_interval(&rate, SB_Z_SHOWN);
            run.cell[h][t] =
                (sb_head_cell){accepted[h][t] <= 200, accepted[h][t], 200, i.rate, i.low, i.high};
        }
    sb_head_judge(&run);
    return run;
}

TEST(judgement)
{
    enum { NOT = 999 };
    assert_int_equal(cells(3, 140, 141, 140, 141).verdict, SB_HEAD_OK);
    assert_int_equal(cells(3, 120, 141, 121, 141).verdict, SB_HEAD_WEAK);
    assert_int_equal(cells(3, 120, 141, 141, 141).verdict, SB_HEAD_WEAK);
    assert_int_equal(cells(3, 120, 141, NOT, NOT).verdict, SB_HEAD_WEAK);
    assert_int_equal(cells(3, 60, 60, 90, 141).verdict, SB_HEAD_WEAK); /* on the better trunk */
    assert_true(cells(3, 60, 60, 90, 141).trunk_bad);
    assert_int_equal(cells(3, 60, 60, 141, 141).verdict, SB_HEAD_OK);
    assert_true(cells(3, 60, 60, 141, 141).trunk_bad);
    assert_int_equal(cells(3, 2, 2, 2, 2).verdict, SB_HEAD_UNKNOWN); /* a text that tells nothing */
    assert_int_equal(cells(3, 2, NOT, NOT, NOT).verdict, SB_HEAD_WEAK);
    assert_int_equal(cells(3, 30, NOT, NOT, NOT).verdict, SB_HEAD_UNKNOWN);
    assert_int_equal(cells(40, 40, NOT, NOT, NOT).verdict, SB_HEAD_WEAK); /* ties the constant */
    /* above the constant, but not significantly: a sound head on a hard text can be like that */
    assert_int_equal(cells(40, 41, NOT, NOT, NOT).verdict, SB_HEAD_UNKNOWN);
    assert_non_null(strstr(cells(40, 48, NOT, NOT, NOT).why, "not significantly"));
    assert_int_equal(cells(51, 51, NOT, NOT, NOT).verdict, SB_HEAD_UNKNOWN);
    assert_int_equal(cells(3, 140, 141, NOT, NOT).verdict, SB_HEAD_OK);
}

/* How often E-15 calls the first of two heads weak. The heads are equally good and err
 * independently. */
static size_t weak_by_chance(uint64_t of, float rate, size_t runs)
{
    size_t weak = 0;
    uint64_t key = sb_rng_key(of, "two heads"), at = 0;
    for (size_t i = 0; i < runs; i++) {
        sb_head_run run = {.verdict = SB_HEAD_UNKNOWN, .common = 1};
        for (int head = 0; head < SB_HEAD_SIDES; head++) {
            sb_rate r = {0, of, 1};
            for (uint64_t k = 0; k < of; k++)
                r.accepted += sb_rng_uniform(key, at++) < rate;
            sb_interval in = sb_rate_interval(&r, SB_Z_SHOWN);
            run.cell[head][SB_HEAD_OWN] =
                (sb_head_cell){1, r.accepted, of, in.rate, in.low, in.high};
        }
        sb_head_judge(&run);
        weak += run.verdict == SB_HEAD_WEAK;
    }
    return weak;
}

/* The rate that docs/accept.md gives. */
TEST(equal_heads)
{
    static const float rates[] = {0.5f, 0.7f, 0.9f};
    enum { RUNS = 4000 };
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
        for (uint64_t of = 64; of <= 256; of *= 4) {
            size_t weak = weak_by_chance(of, rates[i], RUNS);
            if (getenv("SAMEBIT_TABLE"))
                printf("%d %.1f: %zu of %d weak\n", (int)of, (double)rates[i], weak, RUNS);
            if (weak < RUNS / 25 || weak > RUNS / 10)
                fail_msg("%d positions, rate %.1f: %zu of %d weak", (int)of, (double)rates[i], weak,
                         RUNS);
        }
}

TEST_GROUP(setup, teardown)
