/* The reports of a comparison, from verdicts made by hand: every key of the contract, the places
 * that are named, and the part of a long run that is shown. */
#include "tests/lib/suite.h"
#include "tests/unit/scratch.h"
#include "tools/report/diff/diff.h"

static sb_token_verdict *add_token(sb_verdicts *v, uint64_t position, uint32_t id,
                                   sb_verdict verdict)
{
    sb_token_verdict *t = sb_verdicts_token(v);
    assert_non_null(t);
    t->position = position;
    t->id = id;
    t->verdict = verdict;
    t->worst_ratio = verdict == SB_VERDICT_FAIL ? 12.5 : 0.25;
    return t;
}

static sb_place a_place(void)
{
    sb_place p = {.token = 4, .layer = 2, .op = "delta_rule", .rank = 2, .element = {7, 9}};
    p.found = 2;
    p.expected = 1;
    p.bound = 0x1p-20;
    snprintf(p.name, sizeof p.name, "layers.2.linear_attn.core_out");
    snprintf(p.words, sizeof p.words, "found 2, expected 1, bound 9.5e-07");
    return p;
}

/* Three tokens of a prompt, and a round of two drafts, of which one is accepted. */
static void make_verdicts(sb_verdicts *v)
{
    for (uint32_t i = 0; i < 3; i++)
        add_token(v, i, 10 + i, SB_VERDICT_WITHIN);
    sb_token_verdict *t = add_token(v, 3, 13, SB_VERDICT_IDENTICAL);
    t->has_kl = 1;
    t->kl = 0.5;
    t->has_top[0] = t->has_top[1] = 1;
    t->top[0] = 21;
    t->top[1] = 22;
    add_token(v, 4, 14, SB_VERDICT_FAIL);
    add_token(v, 5, 15, SB_VERDICT_WITHIN);
    sb_round_verdict *r = sb_verdicts_round(v);
    assert_non_null(r);
    r->round = 0;
    r->position = 3;
    r->has_reference = 1;
    r->drafted[0] = r->drafted[1] = 2;
    r->drafts[0][0] = r->drafts[1][0] = 14;
    r->drafts[0][1] = 99;
    r->drafts[1][1] = 15;
    r->accepted[0] = 2;
    r->accepted[1] = 1;
    r->verdict = SB_VERDICT_FAIL;
    r->state[SB_STATE_kv].verdict = SB_VERDICT_IDENTICAL;
    r->state[SB_STATE_recurrent].verdict = SB_VERDICT_FAIL;
    r->state[SB_STATE_recurrent].has_first = 1;
    r->state[SB_STATE_recurrent].first = (sb_place){.layer = 1, .rank = 3, .element = {3, 4, 5}};
    snprintf(r->hypothesis, sizeof r->hypothesis, "behaves like slot 0 read");
    sb_place place = a_place();
    sb_verdicts_fail(v, &place);
    v->ops[SB_OP_delta_rule] = (sb_op_verdict){.compared = 64,
                                               .identical = 60,
                                               .open = 64,
                                               .worst = 1.0 / 0.0,
                                               .median = 0.125,
                                               .verdict = SB_VERDICT_FAIL};
    v->ops[SB_OP_router] =
        (sb_op_verdict){.values = {.not_judged = 3}, .verdict = SB_VERDICT_SKIPPED};
    v->explanations[0] = (sb_explanation){.change = "beta=act",
                                          .words = "behaves like beta rounded to bf16",
                                          .before = 300,
                                          .after = 0.5};
    v->explanation_count = 1;
    v->verdict = SB_VERDICT_FAIL;
}

static sb_diff_report report_of(const sb_verdicts *v)
{
    return (sb_diff_report){.verdicts = v,
                            .checkpoint = "ckpt\n<x>",
                            .engine = "sim:sequential",
                            .of = "sim:sequential",
                            .profile = "exact",
                            .arithmetic = "library",
                            .ways = "forced and free",
                            .layers = 4,
                            .steps = 2,
                            .sequences = 1};
}

/* --- JSON ------------------------------------------------------------------------------------- */

static json_t *at(json_t *document, const char *path)
{
    char copy[128], *save = NULL;
    snprintf(copy, sizeof copy, "%s", path);
    for (char *key = strtok_r(copy, ".", &save); key && document; key = strtok_r(NULL, ".", &save))
        document = json_is_array(document) ? json_array_get(document, (size_t)atoi(key))
                                           : json_object_get(document, key);
    if (!document)
        fail_msg("there is no %s", path);
    return document;
}

static void is_text(json_t *document, const char *path, const char *text)
{
    const char *found = json_string_value(at(document, path));
    if (!found || strcmp(found, text) != 0)
        fail_msg("%s is %s, expected %s", path, found ? found : "no string", text);
}

static void is_number(json_t *document, const char *path, double value)
{
    json_t *found = at(document, path);
    if (!json_is_number(found) || json_number_value(found) != value)
        fail_msg("%s is %g, expected %g", path, json_number_value(found), value);
}

static void is_null(json_t *document, const char *path)
{
    if (!json_is_null(at(document, path)))
        fail_msg("%s is not null", path);
}

TEST(json_has_the_contract)
{
    sb_verdicts v = {0};
    make_verdicts(&v);
    sb_diff_report report = report_of(&v);
    json_t *d = sb_diff_json(&report, json_object());
    assert_non_null(d);
    is_text(d, "verdict", "FAIL");
    is_text(d, "checkpoint", "ckpt?<x>");
    is_number(d, "tokens.0.position", 0);
    is_number(d, "tokens.0.id", 10);
    is_text(d, "tokens.0.verdict", "WITHIN");
    is_null(d, "tokens.0.kl");
    is_number(d, "tokens.3.kl", 0.5);
    is_number(d, "tokens.4.worst_ratio", 12.5);
    is_number(d, "rounds.0.round", 0);
    is_number(d, "rounds.0.position", 3);
    is_number(d, "rounds.0.drafts.ref.1", 99);
    is_number(d, "rounds.0.drafts.engine.1", 15);
    is_number(d, "rounds.0.accepted.ref", 2);
    is_number(d, "rounds.0.accepted.engine", 1);
    is_text(d, "rounds.0.verdict", "FAIL");
    is_text(d, "rounds.0.state.kv.verdict", "IDENTICAL");
    is_null(d, "rounds.0.state.kv.first");
    is_null(d, "rounds.0.state.conv.verdict");
    is_null(d, "rounds.0.state.mtp.verdict");
    is_number(d, "rounds.0.state.recurrent.first.layer", 1);
    is_number(d, "rounds.0.state.recurrent.first.head", 3);
    is_number(d, "rounds.0.state.recurrent.first.row", 4);
    is_number(d, "rounds.0.state.recurrent.first.col", 5);
    is_number(d, "first_failure.token", 4);
    is_number(d, "first_failure.layer", 2);
    is_text(d, "first_failure.op", "delta_rule");
    is_number(d, "first_failure.element.1", 9);
    is_text(d, "explanations.0.change", "beta=act");
    is_number(d, "ops.0.worst_ratio", 0x1.fffffffffffffp1023);
    is_text(d, "ops.1.verdict", "SKIPPED");
    json_decref(d);
    sb_verdicts_free(&v);
}

TEST(layers_are_named)
{
    sb_verdicts v = {.verdict = SB_VERDICT_WITHIN};
    sb_diff_report report = report_of(&v);
    json_t *d = sb_diff_json(&report, json_object());
    is_null(d, "first_failure");
    json_decref(d);
    sb_place place = a_place();
    place.layer = report.layers;
    sb_verdicts_fail(&v, &place);
    d = sb_diff_json(&report, json_object());
    is_text(d, "first_failure.layer", "mtp.0");
    json_decref(d);
    v.first_failure.layer = SB_NO_LAYER;
    d = sb_diff_json(&report, json_object());
    is_null(d, "first_failure.layer");
    json_decref(d);
}

/* --- text ------------------------------------------------------------------------------------- */

static char *text_of(const sb_verdicts *v, sb_diff_style style)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    sb_diff_report report = report_of(v);
    sb_diff_text(&report, &style, out);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void has(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("lacks '%s':\n%s", part, text);
}

static size_t lines_of(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += *text == '\n';
    return n;
}

TEST(text_says_it)
{
    sb_verdicts v = {0};
    make_verdicts(&v);
    char *text = text_of(&v, (sb_diff_style){0});
    has(text, "drafts 14,99 | 14,15, accepted 2 | 1, kv IDENTICAL, recurrent FAIL\n");
    has(text, "round 0 at position 3: behaves like slot 0 read\n");
    has(text, "tokens: 1 IDENTICAL, 4 WITHIN, 1 FAIL, worst error/bound 12.5\n");
    has(text, "kl: mean 5.00e-01, ");
    has(text, "acceptance: reference 2 of 2 drafts, engine 1 of 2\n");
    has(text,
        "first failure: token 4, layer 2, delta_rule (layers.2.linear_attn.core_out), element "
        "[7, 9]: found 2");
    has(text, "SKIPPED, 3 not judged");
    has(text, "0.0% judged alone, 0.0% inside segments between recorded values, 100.0% not judged");
    has(text,
        "explanation: behaves like beta rounded to bf16 (beta=act): worst error/bound 300 becomes 0.5\n");
    has(text, "\nFAIL: no correct implementation");
    free(text);
    text = text_of(&v, (sb_diff_style){.quiet = 1});
    assert_int_equal(lines_of(text), 1);
    free(text);
    sb_verdicts_free(&v);
}

/* A round is printed at its first row, not at a rejected row of the round before. */
TEST(rounds_stand_at_their_token)
{
    sb_verdicts v = {.verdict = SB_VERDICT_WITHIN};
    for (uint32_t round = 0; round < 2; round++) {
        sb_round_verdict *r = sb_verdicts_round(&v);
        assert_non_null(r);
        r->round = round;
        r->position = 5 + round;
        r->drafted[1] = 1;
        r->drafts[1][0] = 70 + round;
        r->verdict = SB_VERDICT_WITHIN;
        add_token(&v, 5 + round, 60 + round, SB_VERDICT_WITHIN);
        add_token(&v, 6 + round, 70 + round, SB_VERDICT_WITHIN);
    }
    char *text = text_of(&v, (sb_diff_style){0});
    const char *second = strstr(text, "round 1 WITHIN");
    assert_non_null(second);
    while (second > text && second[-1] != '\n')
        second--;
    assert_non_null(strstr(second, "       61 "));
    assert_true(strstr(second, "       61 ") < strchr(second, '\n'));
    free(text);
    sb_verdicts_free(&v);
}

/* A long report shows only the tokens that are not in order, up to a limit. */
TEST(long_runs_are_short)
{
    sb_verdicts v = {.verdict = SB_VERDICT_WITHIN};
    for (uint32_t i = 0; i < 1000; i++)
        add_token(&v, i, i, i == 777 ? SB_VERDICT_NEAR_TIE : SB_VERDICT_WITHIN);
    char *text = text_of(&v, (sb_diff_style){0});
    assert_true(lines_of(text) < 10);
    has(text, "     777      777");
    free(text);
    text = text_of(&v, (sb_diff_style){.all = 1});
    assert_true(lines_of(text) > 1000);
    free(text);
    for (size_t i = 0; i < 1000; i++)
        v.tokens[i].verdict = SB_VERDICT_FAIL;
    text = text_of(&v, (sb_diff_style){0});
    assert_true(lines_of(text) < SB_DIFF_LINES + 10);
    has(text, "... and 980 more such lines");
    free(text);
    sb_verdicts_free(&v);
}

/* --- JUnit ------------------------------------------------------------------------------------ */

TEST(junit_counts)
{
    char text[8192] = "";
    scratch_path dir = scratch_new(), path = scratch_join(dir.text, "report.xml");
    sb_verdicts v = {0};
    make_verdicts(&v);
    sb_diff_report report = report_of(&v);
    const sb_diff_reports reports = {.item = {report}, .count = 1, .digest = ""};
    assert_int_equal(sb_diff_junit(&reports, path.text, NULL), SB_OK);
    FILE *in = fopen(path.text, "r");
    assert_non_null(in);
    assert_true(fread(text, 1, sizeof text - 1, in) > 0);
    fclose(in);
    scratch_remove(dir.text);
    /* verdict, tokens, rounds, four parts of the state, two ops */
    has(text, "tests=\"9\" failures=\"5\" errors=\"0\" skipped=\"3\"");
    has(text, "value=\"ckpt?&lt;x&gt;\"");
    has(text, "name=\"delta_rule\">\n      <failure type=\"FAIL\" message=\"token 4, layer 2 "
              "layers.2.linear_attn.core_out: found 2");
    has(text, "name=\"state.conv\">\n      <skipped");
    sb_verdicts_free(&v);
}
