#include "tools/report/check/report.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/json_out.h"
#include "ref/container/show.h"

const char *sb_check_state_name(sb_check_state state)
{
    static const char *const names[] = {"passed", "found", "waived", "skipped", "nothing"};
    return names[state];
}

const char *sb_check_verdict_name(sb_check_verdict verdict)
{
    static const char *const names[] = {"PASS", "FAIL", "MISTRUSTED"};
    return names[verdict];
}

/* --- the checks that were made ---------------------------------------------------------------- */

/* Why a check was not made; NULL: it was. */
static const char *why_not(const sb_check *check, unsigned number, sb_check_state *state)
{
    const sb_check_row *row = sb_check_row_of(number);
    const sb_check_options *options = check->options;
    *state = SB_STATE_skipped;
    if (options->skip[number])
        return "not wanted";
    if (number == SB_CHECK_NUMBER_52 && options->no_hashes)
        return "--no-hashes was given";
    const char *lacks = sb_lacks_for(check, number);
    if (lacks)
        return lacks;
    const char *nothing = sb_nothing_for(check, number);
    if (nothing) {
        *state = SB_STATE_nothing;
        return nothing;
    }
    int payload = row->needs == SB_NEEDS_payload || row->needs == SB_NEEDS_master;
    int original = row->needs == SB_NEEDS_original || row->needs == SB_NEEDS_master;
    if (payload && options->headers_only)
        return "needs the values, but --headers was given";
    if (options->sample && sb_sample_says(number) == SB_SAMPLE_nothing)
        return "needs all values, but --sample was given";
    if (payload && options->sample && !sb_in_sample(check, number))
        return "nothing of its kind is in the sample";
    if (original && check->stranger.checkpoint)
        return "--against probably does not name the original: see check 14, untouched";
    return original && !options->against ? "needs --against ORIGINAL" : NULL;
}

static void judge_check(sb_report *r, unsigned number)
{
    sb_report_check *c = &r->checks[number];
    sb_check_state state;
    c->why = c->count ? NULL : why_not(r->check, number, &state);
    if (c->why)
        c->state = state;
    else if (c->level[SB_LEVEL_warn] + c->level[SB_LEVEL_error] + c->level[SB_LEVEL_fatal])
        c->state = SB_STATE_found;
    else if (c->waived)
        c->state = SB_STATE_waived;
    r->made += !c->why;
    r->found += c->state == SB_STATE_found;
    r->passed += c->state == SB_STATE_passed || c->state == SB_STATE_waived;
    r->skipped += c->state == SB_STATE_skipped;
    r->nothing += c->state == SB_STATE_nothing;
}

/* Counts the findings of each check. Findings are sorted by check. */
static void count_findings(sb_report *r)
{
    const sb_findings *f = &r->check->findings;
    for (size_t i = 0; i < f->count; i++) {
        const sb_finding *row = &f->rows[i];
        sb_report_check *c = &r->checks[row->check];
        if (c->count++ == 0)
            c->first = i;
        if (row->waived) {
            c->waived++;
            r->waived++;
            continue;
        }
        c->level[row->level]++;
        r->level[row->level]++;
        if (row->level > c->worst)
            c->worst = row->level;
    }
}

int sb_report_unused(const sb_report *report, const sb_waiver *waiver)
{
    if (waiver->covered)
        return 0;
    if (waiver->fatal)
        return 2;
    if (waiver->check == 0)
        return report->loaded != NULL;
    return report->checks[waiver->check].state != SB_STATE_skipped;
}

/* --- the original's files --------------------------------------------------------------------- */

static const char *without(const char *name, const char *prefix)
{
    size_t n = strlen(prefix);
    return strncmp(name, prefix, n) == 0 ? name + n : name;
}

/* 1 if the checkpoint has the original's `tensor`, under its name or as the layer whose weight it
 * is. */
static int has_like(const sb_check *check, const char *tensor)
{
    static const char *const ends[] = {".weight", ".gate_up_proj", ".down_proj"};
    static const char *const first[] = {"", ".0.gate_proj", ".0.down_proj"};
    char name[SB_MAX_TENSOR_NAME + 32];
    const sb_units *own = &check->self.units;
    const char *plain = without(tensor, check->master.units.prefix);
    size_t n = strlen(plain);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t m = strlen(ends[i]);
        if (n < m || strcmp(plain + n - m, ends[i]) != 0)
            continue;
        snprintf(name, sizeof name, "%.*s%s", (int)(n - m), plain, first[i]);
        if (sb_member_plain(own, name))
            return 1;
    }
    snprintf(name, sizeof name, "%s%s", own->prefix, plain);
    return sb_unit_named(own, plain) || sb_unit_named(own, name);
}

static int has_shard(const sb_checkpoint *checkpoint, const char *name)
{
    for (size_t i = 0; i < sb_checkpoint_shards(checkpoint); i++)
        if (strcmp(sb_checkpoint_shard_name(checkpoint, (uint32_t)i), name) == 0)
            return 1;
    return 0;
}

static sb_status missing_shards(sb_report *r, sb_error *err)
{
    const sb_checkpoint *master = r->check->master.checkpoint;
    const sb_index *index = master ? sb_checkpoint_index(master) : NULL;
    if (!index || !index->shard_count)
        return SB_OK;
    unsigned char *gone = sb_alloc(index->shard_count, 2);
    r->shards.names = sb_alloc(index->shard_count, sizeof *r->shards.names);
    if (!gone || !r->shards.names) {
        free(gone);
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for the report");
    }
    unsigned char *needed = gone + index->shard_count;
    for (size_t i = 0; i < index->shard_count; i++)
        gone[i] = !has_shard(master, index->shards[i].name);
    for (size_t i = 0; i < index->count; i++) {
        const sb_index_entry *e = &index->entries[i];
        if (gone[e->shard] && has_like(r->check, e->tensor)) {
            needed[e->shard] = 1;
            r->shards.tensors++;
        }
    }
    for (size_t i = 0; i < index->shard_count; i++)
        if (needed[i])
            r->shards.names[r->shards.count++] = index->shards[i].name;
    free(gone);
    return SB_OK;
}

/* --- the verdict ------------------------------------------------------------------------------ */

static const char *unmet_need(const sb_report *r)
{
    if (!r->check->options->need_mtp)
        return NULL;
    if (!r->mtp)
        return "the MTP head could not be audited";
    if (r->mtp->verdict == SB_MTP_FILE_BAD)
        return "the MTP head of these files is not usable";
    if (r->mtp->verdict == SB_MTP_HEAD_WEAK)
        return "the MTP head drafts worse than the original's, or no better than a constant token";
    return r->mtp->verdict == SB_MTP_NONE_DECLARED ? "no MTP head is declared and none is there"
                                                   : NULL;
}

sb_status sb_report_make(sb_report *r, sb_error *err)
{
    count_findings(r);
    for (unsigned i = 1; i <= SB_CHECK_LAST; i++)
        judge_check(r, i);
    for (size_t i = 0; r->waivers && i < r->waivers->count; i++)
        r->unused_waivers += sb_report_unused(r, &r->waivers->rows[i]) != 0;
    r->need = unmet_need(r);
    if (r->level[SB_LEVEL_error] || r->level[SB_LEVEL_fatal] || r->need ||
        (r->loaded && sb_loaded_bad(r->loaded)))
        r->verdict = SB_CHECK_fail;
    else
        r->verdict = r->made || r->loaded ? SB_CHECK_pass : SB_CHECK_mistrusted;
    sb_status status = missing_shards(r, err);
    return status ? status : sb_report_compare(r, err);
}

void sb_report_free(sb_report *report)
{
    free(report->shards.names);
    sb_report_compared_free(&report->compared);
    report->shards = (sb_report_shards){0};
}
