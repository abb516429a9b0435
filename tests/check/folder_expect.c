#include "tests/check/folder.h"

#include "tests/lib/cmocka.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check/folder_parts.h"

static folder_result *run(const char *path, int temporary, const char *what, const char *against,
                          const sb_check_options *options)
{
    char text[512];
    folder_result *r = calloc(1, sizeof *r);
    assert_non_null(r);
    snprintf(text, sizeof text, "%s%s%s", what, against ? " --against " : "",
             against ? against : "");
    r->what = folder_string(text);
    r->path = path;
    r->temporary = temporary;
    if (options)
        r->options = *options;
    r->options.path = path;
    const int is_target = against && strncmp(against, "for:", 4) == 0;
    r->options.against = against && !is_target ? folder_path(against) : NULL;
    r->options.target = is_target ? folder_path(against + 4) : NULL;
    r->status = sb_check_run(&r->options, &r->check, &r->why);
    return r;
}

folder_result *folder_try(const folder *f, const char *against, const sb_check_options *options)
{
    return run(folder_write(f), 1, "a changed folder", against, options);
}

static folder_result *succeeded(folder_result *r)
{
    if (r->status)
        fail_msg("%s: %s", r->what, r->why.text);
    return r;
}

folder_result *folder_check(const folder *f, const char *against, const sb_check_options *options)
{
    return succeeded(folder_try(f, against, options));
}

folder_result *folder_try_made(const char *vehicle, const char *against,
                               const sb_check_options *options)
{
    return run(folder_path(vehicle), 0, vehicle, against, options);
}

folder_result *folder_check_made(const char *vehicle, const char *against,
                                 const sb_check_options *options)
{
    return succeeded(folder_try_made(vehicle, against, options));
}

void folder_result_free(folder_result *r)
{
    sb_check_free(&r->check);
    if (r->temporary)
        folder_remove_at(r->path);
    free(r->what);
    free(r);
}

void folder_only(sb_check_options *options, const unsigned *checks)
{
    memset(options->skip, 1, sizeof options->skip);
    for (; *checks; checks++)
        options->skip[*checks] = 0;
}

static int has_part(const sb_finding *f, const char *part)
{
    return !part || strstr(f->tensor, part) != NULL;
}

const sb_finding *folder_finding(const folder_result *r, unsigned check, sb_level level,
                                 const char *part)
{
    for (size_t i = 0; i < r->check.findings.count; i++) {
        const sb_finding *f = &r->check.findings.rows[i];
        if ((!check || f->check == check) && f->level == level && has_part(f, part))
            return f;
    }
    return NULL;
}

void folder_print(const folder_result *r)
{
    printf("%s: %zu findings\n", r->what, r->check.findings.count);
    for (size_t i = 0; i < r->check.findings.count; i++) {
        const sb_finding *f = &r->check.findings.rows[i];
        printf("  %-5s %2u %s: %s\n", sb_level_name(f->level), f->check, f->tensor, f->message);
    }
}

void expect_finding(const folder_result *r, unsigned check, sb_level level, const char *part)
{
    if (folder_finding(r, check, level, part))
        return;
    folder_print(r);
    fail_msg("no %s of check %u at %s", sb_level_name(level), check, part ? part : "any tensor");
}

void expect_none(const folder_result *r, unsigned check)
{
    for (size_t i = 0; i < r->check.findings.count; i++)
        if (r->check.findings.rows[i].check == check) {
            folder_print(r);
            fail_msg("check %u has found something", check);
        }
}

void expect_none_above(const folder_result *r, sb_level level)
{
    for (size_t i = 0; i < r->check.findings.count; i++)
        if (r->check.findings.rows[i].level > level) {
            folder_print(r);
            fail_msg("findings above %s", sb_level_name(level));
        }
}

void expect_only(const folder_result *r, unsigned check, const char *part)
{
    size_t right = 0, wrong = 0;
    for (size_t i = 0; i < r->check.findings.count; i++) {
        const sb_finding *f = &r->check.findings.rows[i];
        if (f->level == SB_LEVEL_info)
            continue;
        if (f->check == check && has_part(f, part))
            right++;
        else
            wrong++;
    }
    if (right && !wrong)
        return;
    folder_print(r);
    fail_msg("%zu findings of check %u at %s, and %zu others", right, check,
             part ? part : "any tensor", wrong);
}

int folder_has(const folder_result *r, const sb_finding *finding)
{
    for (size_t i = 0; i < r->check.findings.count; i++) {
        const sb_finding *f = &r->check.findings.rows[i];
        if (f->check == finding->check && f->level == finding->level &&
            strcmp(f->tensor, finding->tensor) == 0)
            return 1;
    }
    return 0;
}

void expect_nowhere_else(const folder_result *r, const folder_result *clean, const char *part)
{
    for (size_t i = 0; i < r->check.findings.count; i++) {
        const sb_finding *f = &r->check.findings.rows[i];
        if (f->level == SB_LEVEL_info || has_part(f, part) || folder_has(clean, f))
            continue;
        folder_print(r);
        fail_msg("check %u at %s, but what was changed is %s", f->check, f->tensor, part);
    }
}
