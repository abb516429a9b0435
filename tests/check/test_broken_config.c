/* A configuration that cannot be read: the check and the audit of the MTP head come to their end,
 * say so, and what needs no configuration is looked at all the same. */
#include "tests/lib/cmocka.h"

#include <stdio.h>
#include <string.h>

#include "tests/check/folder.h"
#include "tools/check/mtp.h"

#define CT "T1 nvfp4-ct recipe=plain"
#define FP8 "T1 fp8-block recipe=plain"

/* What is done to config.json: a value at a path, or how many of its bytes are left. */
typedef struct broken {
    const char *vehicle, *path, *value;
    int left; /* -1: all */
} broken;

static const broken rows[] = {
    {CT, NULL, NULL, 0},
    {FP8, NULL, NULL, 0},
    {CT, NULL, NULL, 100},
    {FP8, NULL, NULL, 100},
    {CT, "quantization_config.quant_method", "\"quux\"", -1},
    {FP8, "quantization_config.quant_method", "\"quux\"", -1},
    {FP8, "quantization_config.fmt", "\"e5m2\"", -1},
    {FP8, "quantization_config", NULL, -1},
    {CT, "quantization_config", NULL, -1},
};

static folder *break_config(const broken *b)
{
    folder *f = folder_of(b->vehicle);
    if (b->path)
        folder_json(f, "config.json", b->path, b->value);
    else if (b->left == 0)
        folder_remove(f, "config.json");
    else {
        char text[1 << 12];
        memcpy(text, folder_text(f, "config.json")->bytes, (size_t)b->left);
        folder_put(f, "config.json", text, (size_t)b->left);
    }
    return f;
}

/* The integer 2^63, which JSON libraries do not read. */
static folder *with_large_integer(const char *vehicle)
{
    folder *f = folder_of(vehicle);
    const folder_file *file = folder_text(f, "config.json");
    char text[1 << 14];
    snprintf(text, sizeof text, "{\"large\": 9223372036854775808, %.*s", (int)file->size - 1,
             (const char *)file->bytes + 1);
    folder_put(f, "config.json", text, strlen(text));
    return f;
}

static void audit(folder *f, const char *what)
{
    sb_mtp_audit audit;
    sb_error err = {""};
    folder_result *r = folder_check(f, NULL, NULL);
    assert_int_equal(sb_mtp_audit_make(&r->check, &audit, &err), SB_OK);
    assert_true(audit.tensors > 0);
    if (!folder_finding(r, 9, SB_LEVEL_fatal, "") && !folder_finding(r, 9, SB_LEVEL_error, "")) {
        folder_print(r);
        fail_msg("%s: check 9 says nothing", what);
    }
    sb_mtp_line *line = &audit.lines[SB_MTP_representation];
    if ((line->state == SB_MTP_unknown) != !r->check.self.has_declared)
        fail_msg("%s: %s: %s", what, sb_mtp_state_name(line->state), line->text);
    folder_result_free(r);
    folder_free(f);
}

static void heads_without_a_declaration(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        audit(break_config(&rows[i]), rows[i].path ? rows[i].path : "config.json");
    audit(with_large_integer(CT), "2^63");
    audit(with_large_integer(FP8), "2^63");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_without_a_declaration),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
