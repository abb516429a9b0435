/* test_dump_logprobs.c - log-probabilities of other programs: the roundings, floors and lists that
 * pass, those that are reported as wrong, and the readers of KLD base files and of answers. */
#include "tests/lib/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "tests/unit/free_play.h"
#include "tools/judge/compare/near.h"
#include "tools/judge/compare/near_logprobs.h"
#include "tools/dump/kld.h"
#include "tools/dump/spoken.h"

#define PROGRAM "test_dump_logprobs"

enum { TOP = 5 };

/* --- the comparison --------------------------------------------------------------------------- */

typedef struct form {
    double shift;      /* added to all values of a row */
    double grid;       /* values above the least are rounded to multiples of this */
    double floor;      /* the least value, or 0: none */
    int list;          /* only the largest TOP, not all */
    int limits;        /* the file declares grid and floor */
    int raw;           /* unnormalised logits instead of log-probabilities */
    const char *words; /* in the message of the failure; NULL: WITHIN */
    void (*spoil)(float *ids, float *values, size_t count);
} form;

static const form *now;

static float *add(sb_step *step, const char *name, size_t rows, size_t cols)
{
    sb_step_value *v = sb_step_add(&step->taps, name, rows, cols, 1);
    assert_non_null(v);
    return v->data;
}

static float rounded(double logprob, double least)
{
    logprob = now->floor < 0 && logprob < now->floor ? now->floor : logprob;
    if (now->grid > 0)
        logprob = least + now->grid * rint((logprob - least) / now->grid);
    return (float)(logprob + now->shift);
}

static void list_row(const float *row, size_t V, float *ids, float *values)
{
    for (size_t k = 0; k < TOP; k++) {
        size_t best = V;
        for (size_t i = 0; i < V; i++) {
            size_t place = 0;
            while (place < k && ids[place] != (float)i)
                place++;
            if (place == k && (best == V || row[i] > row[best]))
                best = i;
        }
        ids[k] = (float)best;
        values[k] = row[best];
    }
}

/* Replaces the logits of a step by the form in `now`. */
static void convert(free_play *p, sb_step *step)
{
    sb_step_value *v = (sb_step_value *)(uintptr_t)sb_step_find(&step->taps, "logits");
    if (!v)
        return;
    size_t rows = v->rows, V = v->cols;
    float *from = v->data, *limits = NULL, *all, *ids = NULL, *values = NULL;
    (void)p;
    v->data = NULL;
    snprintf(v->name, sizeof v->name, "logits.were");
    all = now->list ? malloc(rows * V * sizeof *all) : add(step, "logprobs", rows, V);
    if (now->list) {
        ids = add(step, "top_ids", rows, TOP);
        values = add(step, "top_logprobs", rows, TOP);
    }
    if (now->limits)
        limits = add(step, "logprob_limits", rows, 2);
    for (size_t r = 0; r < rows; r++) {
        double sum = 0, least = 0;
        for (size_t i = 0; i < V; i++)
            sum += exp((double)from[r * V + i]);
        for (size_t i = 0; i < V; i++)
            least = fmin(least, (double)from[r * V + i] - log(sum));
        if (now->floor < 0)
            least = now->floor;
        for (size_t i = 0; i < V; i++)
            all[r * V + i] = rounded((double)from[r * V + i] - (now->raw ? 0 : log(sum)), least);
        if (now->list)
            list_row(all + r * V, V, ids + r * TOP, values + r * TOP);
        if (now->spoil && r + 1 == rows && now->list)
            now->spoil(ids + r * TOP, values + r * TOP, TOP);
        else if (now->spoil && r + 1 == rows)
            now->spoil(NULL, all + r * V, V);
        if (limits) {
            limits[2 * r] = (float)(now->grid / 2);
            limits[2 * r + 1] = now->floor < 0 ? (float)now->floor : -0x1.fffffep127f;
        }
    }
    free(from);
    if (now->list)
        free(all);
}

static free_play play(const form *f)
{
    free_play p = {.model = play_model(PROGRAM, "T1", "predictable"),
                   .level = 1,
                   .rounds = 2,
                   .perturbed = 2,
                   .spoil = f ? convert : NULL};
    now = f;
    free_play_run(&p);
    return p;
}

static void not_a_number(float *ids, float *values, size_t count)
{
    (void)ids;
    values[count - 1] = NAN;
}

static void minus_infinity(float *ids, float *values, size_t count)
{
    (void)ids;
    values[count - 1] = -INFINITY;
}

static void no_id(float *ids, float *values, size_t count)
{
    (void)values;
    ids[count - 1] = 1e6f;
}

static void unsorted(float *ids, float *values, size_t count)
{
    float id = ids[count - 1], value = values[count - 1];
    ids[count - 1] = ids[count - 2];
    values[count - 1] = values[count - 2];
    ids[count - 2] = id;
    values[count - 2] = value;
}

/* Exchanges two ids with equal values. */
static void tie(float *ids, float *values, size_t count)
{
    if (count > TOP || values[0] != values[1])
        return;
    float id = ids[0];
    ids[0] = ids[1];
    ids[1] = id;
}

static void swapped(float *ids, float *values, size_t count)
{
    float value = values[0];
    (void)ids;
    values[0] = values[count / 2];
    values[count / 2] = value;
}

static void check(const form *f)
{
    free_play p = play(f);
    const sb_token_verdict *last = &p.v.tokens[p.v.token_count - 2];
    if (!f->words && (p.v.verdict != SB_VERDICT_WITHIN || p.v.failures))
        fail_msg("%s: %s", sb_verdict_name(p.v.verdict), p.v.first_failure.words);
    if (f->words && (p.v.verdict != SB_VERDICT_FAIL || !strstr(p.v.first_failure.words, f->words)))
        fail_msg("%s: \"%s\", expected \"%s\"", sb_verdict_name(p.v.verdict),
                 p.v.first_failure.words, f->words);
    if (!f->words) {
        assert_int_equal(last->has_kl, 1);
        assert_int_equal(last->kl_is_lower, f->list || f->limits);
        assert_true(last->kl >= 0 && last->kl < 1e-5);
    }
    sb_verdicts_free(&p.v);
}

/* The recorded run is correct; only the form differs. */
TEST(test_what_passes)
{
    static const form forms[] = {
        {.grid = 0},
        {.grid = 1e-3, .limits = 1},
        {.grid = 2.5e-4, .floor = -16, .limits = 1},
        {.list = 1},
        {.list = 1, .grid = 0.5, .limits = 1, .spoil = tie},
        {.list = 1, .floor = -4, .limits = 1},
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        check(&forms[i]);
}

TEST(test_what_is_named)
{
    static const form forms[] = {
        {.grid = 1e-3, .words = "the log-probability of id"},
        {.floor = -8, .words = "the log-probability of id"},
        {.floor = -8, .grid = 1e-3, .shift = -8, .limits = 1, .words = "the log-probability of id"},
        {.raw = 1, .words = "the log-probability of id"},
        {.spoil = not_a_number, .words = "1 of 384 log-probabilities are NaN or infinite"},
        {.spoil = minus_infinity, .words = "1 of 384 log-probabilities are NaN or infinite"},
        {.spoil = swapped, .words = "the log-probability of id"},
        {.list = 1, .spoil = not_a_number, .words = "1 of 5 log-probabilities are NaN or infinite"},
        {.list = 1, .spoil = no_id, .words = "there is no id 1e+06; the vocabulary has 384"},
        {.list = 1, .spoil = unsorted, .words = "the list is not sorted"},
        {.list = 1, .shift = 0.5, .words = "the log-probability of id"},
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        check(&forms[i]);
}

/* Each value is within its bound, but all together are not the output of a softmax. */
TEST(test_sums)
{
    free_play p = play(NULL);
    double pair = INFINITY;
    for (size_t i = 0; i < p.v.token_count; i++)
        if (p.v.tokens[i].envelope > 0)
            pair = fmin(pair, p.v.tokens[i].envelope);
    sb_verdicts_free(&p.v);
    assert_true(pair > 2e-5 && pair < 1e-2);
    check(&(form){.shift = 0.8 * pair, .words = "which is above 1"});
    check(&(form){.shift = -0.8 * pair, .words = "they are not a softmax"});
    check(&(form){.shift = 0.8 * pair, .list = 1, .words = "for all other ids, expected"});
    check(&(form){.shift = -0.8 * pair, .list = 1, .words = "for all other ids, expected"});
}

/* T-64: "For a list, for values with a floor and for rounded values" the divergence is at most the
 * true one. If the values that the list lacks are equal, it is not far below. */
TEST(test_divergence_from_below)
{
    static const float logits[] = {2, 1, 0, -1, -1.5f}, theirs[] = {1.5f, 1.5f, 0.25f, -1, -1.5f};
    enum { V = 5 };
    float logprobs[V], ids[V] = {1, 0, 2, 3, 4}, listed[V];
    const sb_near_ours ours = {logits, V, sb_near_log_sum(logits, V)};
    double whole = sb_near_kl(logits, theirs, V), sum = sb_near_log_sum(theirs, V);
    assert_true(whole > 0.05);
    for (size_t i = 0; i < V; i++)
        logprobs[i] = (float)((double)theirs[i] - sum);
    for (size_t i = 0; i < V; i++)
        listed[i] = logprobs[(size_t)ids[i]];
    for (size_t count = 1; count <= V; count++) {
        sb_near_row list = {ids, listed, count, 0, -INFINITY};
        double least = sb_near_kl_least(&ours, &list);
        assert_true(least <= whole && least >= 0);
        assert_true(count < 3 || least > whole - 1e-4); /* the remaining values are equal */
        sb_near_rest rest = sb_near_left(&ours, &list);
        assert_true(rest.least <= rest.most && rest.ours >= 0 && rest.ours < 1);
    }
    sb_near_row rounded_row = {NULL, logprobs, V, 0.01, -INFINITY};
    assert_true(fabs(sb_near_kl_least(&ours, &rounded_row) - (whole - 0.01)) < 1e-4);
    sb_near_row floored = {NULL, logprobs, V, 0, -3};
    for (size_t i = 0; i < V; i++)
        logprobs[i] = fmaxf(logprobs[i], -3);
    assert_true(sb_near_kl_least(&ours, &floored) <= whole);
    assert_true(sb_near_kl_least(&ours, &floored) > whole - 0.05);
}

/* --- lists of answers ------------------------------------------------------------------------- */

/* Adds a token with its own value and a list of three. The token is the first entry of the list
 * unless is_beyond. */
static void tell(sb_spoken *s, uint32_t own, int ranked, int is_beyond)
{
    static const double values[] = {-0.5, -1.5, -2.5};
    assert_int_equal(sb_spoken_token(s, own, NULL), SB_OK);
    sb_spoken_at(s, s->count - 1, 1);
    if (is_beyond)
        assert_int_equal(sb_spoken_list(s, own, -9, ranked ? 40 : 0, NULL), SB_OK);
    for (uint32_t k = 0; k < 3; k++)
        assert_int_equal(
            sb_spoken_list(s, is_beyond || k ? 100 - k : own, values[k], ranked ? k + 1 : 0, NULL),
            SB_OK);
}

/* J-37: "The token is taken out of the list if its rank says so" */
TEST(test_lists_of_answers)
{
    for (int ranked = 0; ranked < 2; ranked++)
        for (int which = 0; which < 3; which++) { /* none, one or all are beyond the list */
            sb_spoken s = {.floor = -9999};
            assert_int_equal(sb_spoken_token(&s, 1, NULL), SB_OK);
            for (uint32_t i = 0; i < 4; i++)
                tell(&s, 7 + i, ranked, which == 2 || (which == 1 && i == 2));
            s.prompt = s.count;
            sb_spoken_finish(&s);
            for (size_t i = 1; i < s.count; i++) {
                assert_int_equal(s.told[i].count, 3);
                assert_true(s.told[i].has_own);
                for (size_t k = 0; k < 3; k++)
                    assert_true(s.list[s.told[i].first + k].logprob == -0.5f - (float)k);
            }
            sb_spoken_clear(&s);
        }
}

/* A drawn token is first in its list, before larger ones. Beyond the largest, a drawn token has no
 * value of its own. */
TEST(test_tokens_that_were_drawn)
{
    static const double values[] = {-3, -0.5, -1.5};
    sb_spoken s = {.floor = SB_SPOKEN_UNLIKELY};
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(sb_spoken_token(&s, i, NULL), SB_OK);
        sb_spoken_own(&s, i == 2 ? -9999 : -3);
        for (uint32_t k = 0; k < 3 && i; k++)
            assert_int_equal(
                sb_spoken_list(&s, i == 1 && !k ? i : 10 + k, values[i == 1 || k ? k : 1], 0, NULL),
                SB_OK);
    }
    s.prompt = 1;
    sb_spoken_finish(&s);
    assert_int_equal(s.told[1].count, 2);
    assert_int_equal(s.list[s.told[1].first].id, 11);
    assert_true(s.told[1].has_own && s.told[1].own == -3);
    assert_int_equal(s.told[2].count, 2);
    assert_int_equal(s.list[s.told[2].first].id, 10);
    assert_false(s.told[2].has_own);
    sb_spoken_clear(&s);
}

static sb_status see_whole(void *ctx, const sb_step *step, sb_error *err)
{
    const sb_step_value *v = sb_step_find(&step->taps, "logprobs");
    (void)err;
    if (!v)
        return SB_OK;
    assert_int_equal(v->cols, 3);
    assert_true(v->data[0] == -3 && v->data[1] == -1 && v->data[2] == -2);
    ++*(int *)ctx;
    return SB_OK;
}

/* J-36: "or `logprobs` where it has all ids" */
TEST(test_a_list_of_all_ids)
{
    int seen = 0;
    sb_spoken s = {.floor = -9999};
    assert_int_equal(sb_spoken_token(&s, 1, NULL), SB_OK);
    assert_int_equal(sb_spoken_token(&s, 2, NULL), SB_OK);
    assert_int_equal(sb_spoken_list(&s, 1, -1, 0, NULL), SB_OK);
    assert_int_equal(sb_spoken_list(&s, 2, -2, 0, NULL), SB_OK);
    assert_int_equal(sb_spoken_list(&s, 0, -3, 0, NULL), SB_OK);
    s.prompt = 2;
    sb_spoken_finish(&s);
    assert_int_equal(sb_spoken_play(&s, 0, 3, see_whole, &seen, NULL), SB_OK);
    assert_int_equal(seen, 1);
    s.list[2].id = 1; /* one id occurs twice: the list is incomplete */
    assert_int_equal(sb_spoken_play(&s, 0, 3, see_whole, &seen, NULL), SB_OK);
    assert_int_equal(seen, 1);
    sb_spoken_clear(&s);
}

/* --- KLD base files --------------------------------------------------------------------------- */

enum { CONTEXT = 4, VOCAB = 3, ROWS = CONTEXT - 1 - CONTEXT / 2, ROW = 2 * (VOCAB + 1 + 4) };

typedef struct seen {
    size_t rows;
    float value, step, floor;
} seen;

static sb_status see_row(void *ctx, const sb_step *step, sb_error *err)
{
    seen *s = ctx;
    const sb_step_value *v = sb_step_find(&step->taps, "logprobs"),
                        *limits = sb_step_find(&step->taps, "logprob_limits");
    (void)err;
    assert_int_equal(step->row_count, CONTEXT);
    assert_int_equal(step->logits_count, ROWS);
    assert_int_equal(step->logits_rows[0], CONTEXT / 2);
    assert_int_equal(step->rows[1].token, 2);
    s->rows += v->rows;
    s->value = v->data[1];
    s->step = limits->data[0];
    s->floor = limits->data[1];
    return SB_OK;
}

/* J-31: "The widest row of the file decides which of the two it is" */
TEST(test_clamps)
{
    static const struct {
        float span;
        int status, has_floor;
        const char *engine;
    } rows[] = {{16, SB_OK, 1, "llama.cpp (KLD base, 16 nats)"},
                {24, SB_OK, 1, "ik_llama.cpp (KLD base, 24 nats)"},
                {20, SB_OK, 0, "ik_llama.cpp (KLD base, 24 nats)"},
                {9, SB_OK, 0, "llama.cpp (KLD base)"},
                {0, SB_OK, 0, "llama.cpp (KLD base)"},
                {24.5f, SB_ERR_INPUT, 0, ""},
                {-1, SB_ERR_INPUT, 0, ""}};
    const sb_dump_options options = {.as = NULL};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        unsigned char file[20 + 4 * CONTEXT + ROWS * ROW] = "_logits_";
        unsigned char *row = file + 20 + 4 * CONTEXT;
        sb_trace_head head = {.vocab_size = 0};
        sb_kld *kld = NULL;
        sb_error err = {""};
        seen s = {0};
        sb_store_u32(file + 8, CONTEXT);
        sb_store_u32(file + 12, VOCAB);
        sb_store_u32(file + 16, 1);
        sb_store_u32(file + 24, 2);
        sb_store_u32(row, sb_bits_f32(rows[i].span / 65535));
        sb_store_u32(row + 4, sb_bits_f32(-rows[i].span - 0.5f));
        sb_store_u16(row + 10, 65535);
        assert_int_equal(sb_kld_parse(file, sizeof file, "f", &options, &head, &kld, &err),
                         rows[i].status);
        if (rows[i].status)
            continue;
        assert_string_equal(head.engine, rows[i].engine);
        assert_int_equal(head.vocab_size, VOCAB);
        assert_int_equal(sb_kld_play(kld, see_row, &s, &err), SB_OK);
        assert_int_equal(s.rows, ROWS);
        assert_true(fabs((double)s.value + 0.5) < 1e-5);
        assert_true(s.step >= rows[i].span / 131070 && s.step < rows[i].span / 131070 + 1e-5f);
        assert_int_equal(s.floor > -100, rows[i].has_floor);
        sb_kld_free(kld);
        for (size_t cut = 0; cut < sizeof file; cut++)
            assert_int_equal(sb_kld_parse(file, cut, "f", &options, &head, &kld, &err),
                             SB_ERR_INPUT);
    }
}

TEST_GROUP(NULL, play_close_models)
