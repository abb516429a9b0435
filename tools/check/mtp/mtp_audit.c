#include "tools/check/mtp/mtp.h"

#include <stdio.h>
#include <string.h>

#include "tools/check/mtp/mtp_parts.h"
#include "tools/check/read/word.h"

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

/* The worst line. A line about missing or unindexed files comes first, because such files cause
 * most other bad lines. */
static const sb_mtp_line *worst_of(const sb_mtp_places *places, const sb_mtp_audit *a)
{
    const sb_mtp_line *index = &a->lines[SB_MTP_index];
    return index->state == SB_MTP_bad && (places->absent || places->unindexed) ? index
                                                                               : first_bad(a);
}

/* 1 if the only fault is that floats are declared quantized: the head is missing in a list. */
static int is_unlisted(const sb_mtp_traits *traits, const sb_mtp_audit *a)
{
    size_t bad = 0;
    for (unsigned i = 0; i < SB_MTP_QUESTIONS; i++)
        bad += a->lines[i].state == SB_MTP_bad;
    return bad == 1 && a->lines[SB_MTP_representation].state == SB_MTP_bad && traits->head_plain;
}

static void judge_bad(const sb_check *check, const sb_mtp_places *places,
                      const sb_mtp_traits *traits, const sb_mtp_line *bad, sb_mtp_audit *a)
{
    const char *original = check->options->against ? check->options->against : "ORIGINAL";
    const char *path = check->options->path;
    a->verdict = SB_MTP_FILE_BAD;
    snprintf(a->why, sizeof a->why, "%s: %.280s", bad->title, bad->text);
    if (bad == &a->lines[SB_MTP_index] && places->absent)
        snprintf(a->next, sizeof a->next, "hf download REPO%s", places->files.patterns);
    else if ((bad == &a->lines[SB_MTP_index] && places->unindexed) || is_unlisted(traits, a))
        snprintf(a->next, sizeof a->next, "samebit graft %s --reindex -o OUT", SB_WORD(path));
    else
        snprintf(a->next, sizeof a->next, "samebit graft %s --take 'mtp.*' --from %s -o OUT",
                 SB_WORD(path), SB_WORD(original));
}

/* V-9: the existing part of the head is sound, but it is unknown whether it is complete. */
static void judge_unknown(const sb_check *check, sb_mtp_audit *a)
{
    a->verdict = SB_MTP_FILE_OK;
    explain(a, "the tensors of the head are sound, but config.json cannot be read, so it is not "
               "known whether the head is complete");
    snprintf(a->next, sizeof a->next, "samebit check %s", SB_WORD(check->options->path));
}

static void judge_sound(const sb_check *check, const sb_mtp_traits *traits, sb_mtp_audit *a)
{
    a->verdict = SB_MTP_FILE_OK;
    if (check->options->headers_only)
        explain(a, "names, shapes and configuration of the head are sound; the values were not "
                   "read: check again without --headers");
    else if (sb_mtp_left_out(check))
        explain(a, "nothing is wrong with the head as far as it was looked at; check again without "
                   "--only and --skip");
    else
        explain(a, "the files hold a complete head: if speculation gains nothing, look for the "
                   "fault in the loader of the engine");
    sb_mtp_fill_faults(traits, a);
    if (check->options->headers_only)
        snprintf(a->next, sizeof a->next, "samebit check %s", SB_WORD(check->options->path));
    else
        snprintf(a->next, sizeof a->next, "samebit check %s --loaded LIST",
                 SB_WORD(check->options->path));
    if (!check->options->headers_only)
        sb_mtp_fill_settle(check->options->path, a);
}

sb_status sb_mtp_audit_make(const sb_check *check, sb_mtp_audit *out, sb_error *err)
{
    sb_mtp_census census;
    sb_mtp_places places;
    sb_mtp_traits traits;
    *out = (sb_mtp_audit){.has_config = check->self.has_config, .engine = check->options->engine};
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
    sb_mtp_places_of(check, &places);
    status = sb_mtp_traits_of(check, out, &traits, err);
    for (unsigned p = 0; p < SB_MTP_PARTS; p++)
        out->parts[p].expected = census.parts[p];
    if (!status)
        status = sb_mtp_fill_lines(check, &census, &places, out, err);
    if (status)
        return status;
    const sb_mtp_line *bad = worst_of(&places, out);
    if (!census.declared && !census.tensors && !census.misplaced && !places.absent) {
        out->verdict = SB_MTP_NONE_DECLARED;
        explain(out, check->self.has_config
                         ? "no MTP head is declared, and there is none"
                         : "there is no MTP head, and config.json cannot be read, so it is not "
                           "known whether there should be one");
    } else if (bad) {
        judge_bad(check, &places, &traits, bad, out);
    } else if (!check->self.has_config) {
        judge_unknown(check, out);
    } else {
        judge_sound(check, &traits, out);
    }
    return SB_OK;
}
