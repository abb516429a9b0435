/* test_original.c - which folders are recognized as originals of another model, and which must
 * still be compared (V-14). */
#include "tests/lib/suite.h"

#include <string.h>

#include "tests/check/folder.h"

#define SAYS "probably not the original"

static int is_stranger(const folder_result *r)
{
    const sb_finding *f = folder_finding(r, 14, SB_LEVEL_error, NULL);
    return f && strstr(f->message, SAYS) != NULL && r->check.stranger.checkpoint != NULL;
}

static size_t errors(const folder_result *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->check.findings.count; i++)
        n += r->check.findings.rows[i].level >= SB_LEVEL_error;
    return n;
}

/* V-14: "one finding says so, and nothing else is compared" - for every kind of model and format.
 */
TEST(test_strangers)
{
    static const char *const pairs[][2] = {
        {"T1 bf16 recipe=plain", "T1 bf16 recipe=plain seed=43"},
        {"T3 nvfp4-ct recipe=plain", "T3 bf16 recipe=plain seed=43"},
        {"T3 fp8-block recipe=plain", "T3 bf16 recipe=plain seed=43"},
        {"T3 int4-awq recipe=plain", "T3 bf16 recipe=plain seed=43"},
        {"T4 bf16 recipe=plain", "T4 bf16 recipe=plain seed=43"},
        {"T4 int4-gptq recipe=plain", "T4 bf16 recipe=plain seed=43"},
        {"T3 nvfp4-ct recipe=plain", "T3 bf16 recipe=plain layout=vl seed=43"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        folder_result *r = folder_check_made(pairs[i][0], pairs[i][1], NULL);
        if (!is_stranger(r) || errors(r) != 1) {
            folder_print(r);
            fail_msg("%s: not one finding that %s is foreign", pairs[i][0], pairs[i][1]);
        }
        folder_result_free(r);
    }
}

/* Moves weights as fine-tuning does: by a few hundredths, and some small ones through zero. */
static float tuned(float x)
{
    return x * 1.03f + 0.0005f;
}

static void compared(folder *f, const char *against, const char *what)
{
    folder_result *r = folder_check(f, against, NULL);
    if (is_stranger(r) || !errors(r)) {
        folder_print(r);
        fail_msg("%s: not compared", what);
    }
    folder_result_free(r);
    folder_free(f);
}

/* V-14: "A model is compared as usual if it was tuned" is compared, and so is a model that lost one
 * kind of tensors. */
TEST(test_compared)
{
    static const char *const models[] = {"T3 bf16 recipe=plain", "T4 bf16 recipe=plain"};
    for (size_t m = 0; m < 2; m++) {
        folder *f = folder_of(models[m]);
        for (size_t i = 0; i < f->count; i++)
            folder_map(f->tensors[i], tuned);
        compared(f, models[m], "a tuned model");
        f = folder_of(models[m]);
        folder_fill(folder_find(f, "embed_tokens.weight"), 0);
        compared(f, models[m], "an embedding of zeros");
        f = folder_of(models[m]);
        for (size_t i = 0; i < f->count; i++)
            if (strstr(f->tensors[i]->name, "norm"))
                folder_fill(f->tensors[i], 0.25f);
        compared(f, models[m], "constant norms");
    }
}

/* Originals are judged only if check 14 is wanted, and if the payload may be read. */
TEST(test_not_asked)
{
    sb_check_options skip = {.skip = {[14] = 1}}, headers = {.headers_only = 1};
    folder_result *r =
        folder_check_made("T3 nvfp4-ct recipe=plain", "T3 bf16 recipe=plain seed=43", &skip);
    expect_finding(r, 24, SB_LEVEL_error, NULL);
    assert_null(r->check.stranger.checkpoint);
    folder_result_free(r);
    r = folder_check_made("T3 nvfp4-ct recipe=plain", "T3 bf16 recipe=plain seed=43", &headers);
    assert_int_equal(errors(r), 0);
    folder_result_free(r);
}
