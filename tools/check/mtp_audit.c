#include "tools/check/mtp.h"

#include <stdio.h>
#include <string.h>

#include "tools/check/mtp_parts.h"
#include "tools/check/word.h"

const char *sb_mtp_verdict_name(sb_mtp_verdict verdict)
{
    static const char *const names[] = {"NONE-DECLARED", "FILE-BAD", "FILE-OK", "HEAD-WEAK"};
    return names[verdict];
}

const char *sb_mtp_state_name(sb_mtp_state state)
{
    static const char *const names[] = {"ok", "note", "bad", "unknown"};
    return names[state];
}

/* The first bad line, or NULL. */
static const sb_mtp_line *first_bad(const sb_mtp_audit *audit)
{
    for (unsigned i = 0; i < SB_MTP_QUESTIONS; i++)
        if (audit->lines[i].state == SB_MTP_bad)
            return &audit->lines[i];
    return NULL;
}

static void explain(sb_mtp_audit *a, const char *text)
{
    snprintf(a->why, sizeof a->why, "%s", text);
}

static void judge_bad(const sb_check *check, const sb_mtp_line *bad, sb_mtp_audit *a)
{
    const char *original = check->options->against ? check->options->against : "ORIGINAL";
    a->verdict = SB_MTP_FILE_BAD;
    snprintf(a->why, sizeof a->why, "%s: %.280s", bad->title, bad->text);
    snprintf(a->next, sizeof a->next, "samebit graft %s --take 'mtp.*' --from %s -o OUT",
             SB_WORD(check->options->path), SB_WORD(original));
}

static void judge_sound(const sb_check *check, const sb_mtp_traits *traits, sb_mtp_audit *a)
{
    a->verdict = SB_MTP_FILE_OK;
    explain(a, check->options->headers_only
                   ? "names, shapes and configuration of the head are sound; its payload was not "
                     "read: check again without --headers"
                   : "the files hold a whole head: if speculation gains nothing, suspect the "
                     "loader of the engine");
    sb_mtp_fill_faults(traits, a);
    if (check->options->headers_only)
        snprintf(a->next, sizeof a->next, "samebit check %s", SB_WORD(check->options->path));
    else
        snprintf(a->next, sizeof a->next, "samebit check %s --loaded LIST",
                 SB_WORD(check->options->path));
}

sb_status sb_mtp_audit_make(const sb_check *check, sb_mtp_audit *out, sb_error *err)
{
    sb_mtp_census census;
    sb_mtp_traits traits;
    *out = (sb_mtp_audit){.has_config = check->self.has_config};
    sb_status status = sb_mtp_census_take(check, &census, err);
    if (status)
        return status;
    out->declared = census.declared;
    out->layers = check->self.has_config ? check->self.config.mtp_layers : 0;
    out->tensors = census.tensors;
    out->found = census.found;
    out->implied = census.implied;
    out->model_found = census.model_found;
    out->model_implied = census.model_implied;
    status = sb_mtp_traits_of(check, out, &traits, err);
    if (!status)
        status = sb_mtp_fill_lines(check, &census, out, err);
    if (status)
        return status;
    const sb_mtp_line *bad = first_bad(out);
    if (!census.declared && !census.tensors && !census.misplaced) {
        out->verdict = SB_MTP_NONE_DECLARED;
        explain(out, check->self.has_config
                         ? "no MTP head is declared, and none is there"
                         : "no MTP head is there, and without a readable config.json nobody knows "
                           "whether there should be one");
    } else if (bad) {
        judge_bad(check, bad, out);
    } else {
        judge_sound(check, &traits, out);
    }
    return SB_OK;
}
