#include "tests/fuzz/checked.h"

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/plain_text.h"
#include "tools/report/check/report.h"

static void print_report(sb_check *check, const sb_check_options *options)
{
    static FILE *sink;
    sb_mtp_audit audit;
    sb_error err = {""};
    if (!sink)
        sink = fopen("/dev/null", "w");
    FUZZ_CHECK(sink);
    FUZZ_CHECK(sb_mtp_audit_make(check, &audit, &err) == SB_OK && audit.why[0]);
    sb_report report = {
        .check = check, .mtp = &audit, .path = options->path, .against = options->against};
    FUZZ_CHECK(sb_report_make(&report, &err) == SB_OK);
    FUZZ_CHECK(report.made + report.skipped + report.nothing == SB_CHECK_LAST);
    sb_report_style style = {.lines = SIZE_MAX, .verbose = 1};
    sb_report_text(&report, &style, sink);
    json_t *document = sb_report_json(&report, json_object());
    FUZZ_CHECK(document);
    char *text = json_dumps(document, 0);
    FUZZ_CHECK(text);
    free(text);
    json_decref(document);
    sb_report_free(&report);
}

void checked_run(const sb_check_options *options, sb_check *check)
{
    sb_error err = {""};
    sb_status status = sb_check_run(options, check, &err);
    FUZZ_CHECK(!status || status == SB_ERR_INPUT || status == SB_ERR_UNSUPPORTED);
    if (status)
        FUZZ_CHECK(*err.text && !strpbrk(err.text, "\n\r"));
    for (size_t i = 0; i < check->findings.count; i++) {
        const sb_finding *row = &check->findings.rows[i];
        FUZZ_CHECK(row->check >= 1 && row->check <= SB_CHECK_LAST && row->level <= SB_LEVEL_fatal);
        FUZZ_CHECK(*row->message && !strpbrk(row->message, "\n\r\t"));
        FUZZ_CHECK(text_is_plain(row->message, strlen(row->message)));
    }
    if (!status)
        print_report(check, options);
}

const sb_finding *checked_find(const sb_check *check, const char *part)
{
    for (size_t i = 0; i < check->findings.count; i++)
        if (strstr(check->findings.rows[i].message, part))
            return &check->findings.rows[i];
    return NULL;
}
