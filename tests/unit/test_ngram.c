/* test_ngram.c - n-gram drafters (S-13, S-14) against vLLM's and llama.cpp's own functions, whose
 * drafts tools/gen/engines/ngram.py recorded in golden/drafts/ngram.json. */
#include "tests/lib/suite.h"

#include <jansson.h>
#include <string.h>

#include "ref/run/ngram.h"

enum { MOST = 64, DRAFTS = 8 };

typedef struct row {
    sb_ngram ngram;
    size_t k, count, drafted;
    uint32_t text[MOST], drafts[DRAFTS];
} row;

static size_t ids(const json_t *list, uint32_t *out, size_t most)
{
    assert_true(json_array_size(list) <= most);
    for (size_t i = 0; i < json_array_size(list); i++)
        out[i] = (uint32_t)json_integer_value(json_array_get(list, i));
    return json_array_size(list);
}

static row row_of(const json_t *list)
{
    row r = {.k = (size_t)json_integer_value(json_array_get(list, 3))};
    const char *name = json_string_value(json_array_get(list, 0));
    r.ngram.kind = strcmp(name, "ngram") == 0 ? SB_NGRAM_prompt_lookup : SB_NGRAM_simple;
    r.ngram.least = (size_t)json_integer_value(json_array_get(list, 1));
    r.ngram.most = (size_t)json_integer_value(json_array_get(list, 2));
    r.count = ids(json_array_get(list, 4), r.text, MOST);
    r.drafted = ids(json_array_get(list, 5), r.drafts, DRAFTS);
    return r;
}

/* The number of rows of one kind whose drafts differ; *with counts those that have drafts. */
static size_t differences(sb_ngram_kind kind, sb_ngram_kind as, size_t *with)
{
    json_t *all = json_load_file("golden/drafts/ngram.json", 0, NULL);
    size_t differ = 0, rows = 0;
    assert_non_null(all);
    *with = 0;
    for (size_t i = 0; i < json_array_size(all); i++) {
        uint32_t drafts[DRAFTS];
        row r = row_of(json_array_get(all, i));
        if (r.ngram.kind != kind)
            continue;
        r.ngram.kind = as;
        size_t count = sb_ngram_propose(&r.ngram, r.text, r.count, r.k, drafts);
        differ += count != r.drafted || memcmp(drafts, r.drafts, count * sizeof *drafts) != 0;
        *with += r.drafted > 0;
        rows++;
    }
    json_decref(all);
    assert_int_equal(rows, 700);
    return differ;
}

TEST(test_prompt_lookup)
{
    size_t with;
    assert_int_equal(differences(SB_NGRAM_prompt_lookup, SB_NGRAM_prompt_lookup, &with), 0);
    assert_true(with > 300);
}

TEST(test_simple)
{
    size_t with;
    assert_int_equal(differences(SB_NGRAM_simple, SB_NGRAM_simple, &with), 0);
    assert_true(with > 300);
}

/* The recordings tell the two drafters apart. */
TEST(test_other_drafter)
{
    size_t with;
    assert_true(differences(SB_NGRAM_simple, SB_NGRAM_prompt_lookup, &with) > 200);
    assert_true(differences(SB_NGRAM_prompt_lookup, SB_NGRAM_simple, &with) > 200);
}

TEST(test_names)
{
    static const struct {
        const char *text;
        sb_ngram want;
    } good[] = {{"ngram", {SB_NGRAM_prompt_lookup, 5, 5}},
                {"ngram:3", {SB_NGRAM_prompt_lookup, 3, 3}},
                {"ngram:1-64", {SB_NGRAM_prompt_lookup, 1, 64}},
                {"ngram-simple:2", {SB_NGRAM_simple, 2, 2}}};
    static const char *const bad[] = {
        "",          "n",          "ngrams",          "ngram:",     "ngram:0",      "ngram:3-",
        "ngram:5-2", "ngram:1-65", "ngram:-3",        "ngram:2-3x", "ngram-simple", "ngram-simple:",
        "ngram: 3",  "ngram:1 -2", "ngram-simple:2-3"};
    sb_error err = {""};
    sb_ngram got;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(sb_ngram_parse(good[i].text, "--drafter", &got, &err), SB_OK);
        assert_int_equal(got.kind, good[i].want.kind);
        assert_int_equal(got.least, good[i].want.least);
        assert_int_equal(got.most, good[i].want.most);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(sb_ngram_parse(bad[i], "--drafter", &got, &err), SB_ERR_USAGE);
        assert_non_null(strstr(err.text, "--drafter is '"));
    }
}
