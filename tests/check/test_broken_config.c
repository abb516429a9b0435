/* test_broken_config.c - if the configuration cannot be read, the check and the audit of the MTP
 * head run to their end and say so, and everything that needs no configuration is still checked.
 *
 * CHECK_ALL=1: every fault of faults.def; else every third. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <string.h>

#include "tests/check/folder.h"
#include "tests/check/plant.h"
#include "tests/lib/check_all.h"
#include "tools/check/mtp/mtp.h"
#include "tools/report/check/report.h"

#define CT1 "T1 nvfp4-ct recipe=plain"
#define FP81 "T1 fp8-block recipe=plain"

/* Damage to config.json: a value that is set at a path, or the number of bytes that are left. */
typedef struct broken {
    const char *vehicle, *path, *value;
    int left; /* -1: all */
} broken;

static const broken configs[] = {
    {CT1, NULL, NULL, 0},
    {FP81, NULL, NULL, 0},
    {CT1, NULL, NULL, 100},
    {FP81, NULL, NULL, 100},
    {CT1, "quantization_config.quant_method", "\"quux\"", -1},
    {FP81, "quantization_config.quant_method", "\"quux\"", -1},
    {FP81, "quantization_config.fmt", "\"e5m2\"", -1},
    {FP81, "quantization_config", NULL, -1},
    {CT1, "quantization_config", NULL, -1},
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

/* Adds the integer 2^63, which JSON libraries do not read. */
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

TEST(heads_without_a_declaration)
{
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++)
        audit(break_config(&configs[i]), configs[i].path ? configs[i].path : "config.json");
    audit(with_large_integer(CT1), "2^63");
    audit(with_large_integer(FP81), "2^63");
}

/* --- what the other files say ----------------------------------------------------------------- */

typedef struct fault {
    unsigned check;
    const char *vehicle, *against, *plant, *where, *what;
    sb_level level;
} fault;

static const fault faults[] = {
#define SB_FAULT(check, origin, vehicle, against, plant, level, where, around, what)               \
    {check, vehicle, against, plant, where, what, SB_LEVEL_##level},
#define SB_BENIGN(check, vehicle, against, plant, what)
#include "tests/check/faults.def"
#undef SB_FAULT
#undef SB_BENIGN
};

/* V-9: "skipped without a configuration" - these checks need the configuration. */
static const unsigned skipped[] = {3, 5, 6, 9, 10, 49, 50, 0};

/* These need it in part: the shapes of the architecture, the declared groups, the producer. */
static const unsigned in_part[] = {7, 21, 27, 29, 30, 32, 37, 47, 51, 0};

static int is_among(unsigned check, const unsigned *numbers)
{
    while (*numbers && *numbers != check)
        numbers++;
    return *numbers != 0;
}

static int is_found(const folder_result *r, const fault *f)
{
    const char *file = strncmp(f->where, "file:", 5) == 0 ? f->where + 5 : NULL;
    for (size_t i = 0; i < r->check.findings.count; i++) {
        const sb_finding *row = &r->check.findings.rows[i];
        if (row->check == f->check && row->level >= f->level &&
            (file ? strstr(row->message, file) : strstr(row->tensor, f->where)))
            return 1;
    }
    return 0;
}

/* Only its configuration shows that a folder is a drafter: without one it is judged as a model. */
static int is_drafter(const char *vehicle)
{
    return strstr(vehicle, "/eagle3/") != NULL;
}

TEST(nothing_else_is_hidden)
{
    size_t looked_at = 0, hidden = 0, step = check_all() ? 1 : 3;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i += step) {
        const fault *f = &faults[i];
        if (is_among(f->check, skipped) || strstr(f->plant, "config") || is_drafter(f->vehicle))
            continue;
        folder *made = folder_of(f->vehicle);
        plant(made, f->plant);
        folder_remove(made, "config.json");
        folder_result *r = folder_check(made, f->against, NULL);
        looked_at++;
        if (!is_found(r, f) && !is_among(f->check, in_part)) {
            hidden++;
            printf("hidden: %u %s: %s\n", f->check, f->what, f->plant);
        }
        folder_result_free(r);
        folder_free(made);
    }
    printf("%zu faults, %zu hidden\n", looked_at, hidden);
    assert_true(looked_at > 100 / step);
    assert_int_equal(hidden, 0);
}

TEST(what_was_not_looked_at_is_said)
{
    static const unsigned lacking[] = {3, 5, 6, 10};
    sb_error err;
    folder *f = folder_of(CT1);
    folder_remove(f, "config.json");
    folder_result *r = folder_check(f, NULL, NULL);
    sb_report report = {.check = &r->check, .path = r->path};
    assert_int_equal(sb_report_make(&report, &err), SB_OK);
    for (size_t i = 0; i < sizeof lacking / sizeof *lacking; i++) {
        assert_int_equal(report.checks[lacking[i]].state, SB_STATE_skipped);
        assert_string_equal(report.checks[lacking[i]].why,
                            "needs a configuration that can be read");
    }
    expect_finding(r, 9, SB_LEVEL_fatal, "");
    expect_finding(r, 9, SB_LEVEL_info, "");
    sb_report_free(&report);
    folder_result_free(r);
    folder_free(f);
    r = folder_check_made(CT1, NULL, NULL);
    expect_none(r, 9);
    folder_result_free(r);
}
