/* report_text.c - the report for people: what is wrong, where, which engines are affected and how,
 * and what to do. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ref/container/show.h"
#include "tools/report/check/report.h"
#include "tools/check/read/word.h"

typedef struct printer {
    const sb_report *report;
    const sb_report_style *style;
    FILE *out;
} printer;

/* Lists the checks with findings, the worst level first; within a level by number. */
static size_t worst_first(const sb_report *r, unsigned *order)
{
    size_t n = 0;
    for (int level = SB_LEVEL_fatal; level >= SB_LEVEL_info; level--)
        for (unsigned i = 1; i <= SB_CHECK_LAST; i++) {
            const sb_report_check *c = &r->checks[i];
            if (c->count > c->waived && (int)c->worst == level)
                order[n++] = i;
        }
    for (unsigned i = 1; i <= SB_CHECK_LAST; i++) /* then checks with waived findings only */
        if (r->checks[i].count && r->checks[i].count == r->checks[i].waived)
            order[n++] = i;
    return n;
}

static void print_finding(const printer *p, const sb_finding *f, sb_level of)
{
    const sb_waivers *w = p->report->waivers;
    fputs("  ", p->out);
    if (f->level != of)
        fprintf(p->out, "%s ", sb_level_name(f->level));
    if (*f->tensor)
        fprintf(p->out, "%s: ", SB_SHOW(f->tensor));
    fputs(f->message, p->out);
    if (f->waived && w)
        fprintf(p->out, " [waived, line %u: %s]", w->rows[f->waived - 1].line,
                SB_SHOW(w->rows[f->waived - 1].why));
    fputc('\n', p->out);
}

/* Prints findings that count, or waived ones, up to the number of lines of the style. */
static void print_findings(const printer *p, const sb_report_check *c, int waived)
{
    const sb_finding *rows = p->report->check->findings.rows + c->first;
    size_t shown = 0, all = waived ? c->waived : c->count - c->waived;
    for (size_t i = 0; i < c->count && shown < p->style->lines; i++) {
        if ((rows[i].waived != 0) != waived)
            continue;
        print_finding(p, &rows[i], c->worst);
        shown++;
    }
    if (all > shown)
        fprintf(p->out, "  and %zu more%s (--verbose or --json lists all)\n", all - shown,
                waived ? " that are waived" : "");
}

static void print_check(const printer *p, unsigned number)
{
    const sb_check_row *row = sb_check_row_of(number);
    const sb_report_check *c = &p->report->checks[number];
    int open = c->count > c->waived;
    fprintf(p->out, "\n%s %u %s: %s\n", open ? sb_level_name(c->worst) : "waived", number, row->id,
            row->title);
    print_findings(p, c, 0);
    print_findings(p, c, 1);
    if (open && c->worst >= SB_LEVEL_warn)
        fprintf(p->out, "  engines: %s\n  what to do: %s\n", row->engines, row->advice);
}

/* Prints the verdict, for readers of the first line only. It is repeated at the end, with the
 * counts. */
static void print_head(const printer *p)
{
    const sb_check *c = p->report->check;
    fprintf(p->out, "%s %s: %zu tensors, %" PRIu64 " bytes in %zu files, %zu matrices\n",
            sb_check_verdict_name(p->report->verdict), SB_SHOW(p->report->path),
            sb_checkpoint_count(c->self.checkpoint), sb_checkpoint_bytes(c->self.checkpoint),
            sb_checkpoint_shards(c->self.checkpoint), c->self.units.member_count);
    if (c->target.checkpoint)
        fprintf(p->out, "a drafter for %s: %u layers, %zu tensors\n",
                SB_SHOW(sb_checkpoint_path(c->target.checkpoint)),
                (unsigned)c->target.config.layers, sb_checkpoint_count(c->target.checkpoint));
    for (size_t i = 0; i < c->options->overlay_count; i++)
        fprintf(p->out, "with %s laid over\n", SB_SHOW(c->options->overlays[i]));
    const sb_checkpoint *other =
        c->stranger.checkpoint ? c->stranger.checkpoint : c->master.checkpoint;
    if (other)
        fprintf(p->out, "against %s: %zu tensors in %zu files\n", SB_SHOW(p->report->against),
                sb_checkpoint_count(other), sb_checkpoint_shards(other));
}

/* With --sample: what was looked at, and that the rest was not. */
static void print_sample(const printer *p)
{
    const sb_check *c = p->report->check;
    const sb_units *units = &c->self.units;
    if (!c->options->sample)
        return;
    fprintf(p->out,
            "SAMPLE only the values of %zu of %zu layers and tensors were read, %" PRIu64
            " of %" PRIu64
            " bytes; whatever the verdict, those of the other %zu were not looked at%s\n",
            c->sample_units, units->count, c->sample_bytes, sb_checkpoint_bytes(c->self.checkpoint),
            units->count - c->sample_units, p->style->verbose ? ":" : " (--verbose lists them)");
    for (size_t i = 0; i < units->count && p->style->verbose; i++)
        fprintf(p->out, "  %s %s\n", units->rows[i].chosen ? "read" : "not looked at",
                SB_SHOW(units->rows[i].name));
}

static void print_shards(const printer *p)
{
    const sb_report_shards *s = &p->report->shards;
    const char *id = p->report->original_id ? p->report->original_id : "ORIGINAL";
    const char *revision = strchr(id, '@');
    if (!s->count)
        return;
    fprintf(p->out,
            "\n"
            "OF THE ORIGINAL %zu files are missing here, so %zu of its tensors were not compared\n"
            "  what to do: hf download %.*s%s%s",
            s->count, s->tensors, (int)strcspn(id, "@"), id, revision ? " --revision " : "",
            revision ? revision + 1 : "");
    for (size_t i = 0; i < s->count && i < p->style->lines; i++)
        fprintf(p->out, " --include %s", SB_QUOTED(s->names[i]));
    if (s->count > p->style->lines)
        fprintf(p->out, " and %zu more (--verbose or --json lists all)",
                s->count - p->style->lines);
    fputc('\n', p->out);
}

/* Prints how much of the checkpoint was not compared with the original. Always printed. */
static void print_compared(const printer *p)
{
    const sb_report_compared *c = &p->report->compared;
    if (!p->report->check->master.checkpoint)
        return;
    if (!c->not_compared) {
        fprintf(p->out, "\nall %zu tensors were compared with the original\n", c->tensors);
        return;
    }
    fprintf(
        p->out,
        "\n"
        "NOT COMPARED %zu of %zu tensors: the original has no tensor that says what their values must be\n",
        c->not_compared, c->tensors);
    for (size_t i = 0; i < c->role_count && i < p->style->lines; i++)
        fprintf(p->out, "  %zu %s\n", c->roles[i].count, SB_SHOW(c->roles[i].name));
    if (c->role_count > p->style->lines)
        fprintf(p->out, "  and %zu more roles (--verbose or --json lists all)\n",
                c->role_count - p->style->lines);
}

static void print_waivers(const printer *p)
{
    const sb_waivers *w = p->report->waivers;
    if (!p->report->unused_waivers)
        return;
    fprintf(p->out, "\nWARN waivers\n");
    for (size_t i = 0; i < w->count; i++) {
        const sb_waiver *row = &w->rows[i];
        int how = sb_report_unused(p->report, row);
        if (how)
            fprintf(p->out, "  line %u: %s %s covers %s\n", row->line,
                    row->check ? sb_check_row_of(row->check)->id : "loaded", SB_SHOW(row->glob),
                    how == 2 ? "only FATAL findings, which cannot be waived"
                             : "nothing: remove this line");
    }
}

static void print_kept(const printer *p)
{
    if (p->style->verbose)
        fputc('\n', p->out);
    for (unsigned i = 1; i <= SB_CHECK_LAST && p->style->verbose; i++) {
        const sb_report_check *c = &p->report->checks[i];
        const sb_check_row *row = sb_check_row_of(i);
        if (c->state == SB_STATE_passed && !c->count)
            fprintf(p->out, "passed %u %s: %s\n", i, row->id, row->title);
        if (c->state == SB_STATE_nothing)
            fprintf(p->out, "not applicable %u %s: %s\n", i, row->id, c->why);
    }
}

static void print_unseen(const printer *p)
{
    const char *unseen = sb_report_unseen(p->report);
    if (unseen)
        fprintf(p->out, "UNSEEN (only --against or the hashes of the hub show these faults): %s\n",
                unseen);
}

/* Prints one line per reason, with the checks that were skipped for that reason. */
static void print_skipped(const printer *p)
{
    int begun = 0;
    for (unsigned i = 1; i <= SB_CHECK_LAST; i++) {
        const sb_report_check *c = &p->report->checks[i];
        int first = c->state == SB_STATE_skipped;
        for (unsigned k = 1; k < i && first; k++)
            first = p->report->checks[k].state != SB_STATE_skipped ||
                    strcmp(p->report->checks[k].why, c->why) != 0;
        if (!first)
            continue;
        fprintf(p->out, "%sSKIPPED (%s):", begun++ ? "" : "\n", c->why);
        for (unsigned k = i; k <= SB_CHECK_LAST; k++)
            if (p->report->checks[k].state == SB_STATE_skipped &&
                strcmp(p->report->checks[k].why, c->why) == 0)
                fprintf(p->out, " %u %s%s", k, sb_check_row_of(k)->id, "");
        fputc('\n', p->out);
    }
}

static void print_verdict(const printer *p)
{
    const sb_report *r = p->report;
    fprintf(p->out, "%s %s: %zu FATAL, %zu ERROR, %zu WARN, %zu INFO",
            sb_check_verdict_name(r->verdict), SB_SHOW(r->path), r->level[SB_LEVEL_fatal],
            r->level[SB_LEVEL_error], r->level[SB_LEVEL_warn] + r->unused_waivers,
            r->level[SB_LEVEL_info]);
    if (r->waived)
        fprintf(p->out, ", %zu waived", r->waived);
    fprintf(p->out,
            "; of %d checks %zu passed, %zu raised findings, %zu not applicable, %zu skipped",
            SB_CHECK_LAST, r->passed, r->found, r->nothing, r->skipped);
    if (r->check->options->sample)
        fprintf(p->out, "; read: %s", sb_report_read(r->check).text);
    if (r->mtp)
        fprintf(p->out, "; MTP %s", sb_mtp_verdict_name(r->mtp->verdict));
    if (r->head)
        fprintf(p->out, "; run %s", sb_head_verdict_name(r->head->verdict));
    if (r->loaded)
        fprintf(p->out, "; loaded %s", sb_loaded_bad(r->loaded) ? "FAIL" : "PASS");
    if (r->need)
        fprintf(p->out, "; --need mtp: %s", r->need);
    fputc('\n', p->out);
}

void sb_report_mtp_text(const sb_mtp_audit *audit, const sb_report_style *style, FILE *out)
{
    fprintf(out, "\nMTP %s: %s\n", sb_mtp_verdict_name(audit->verdict), audit->why);
    for (unsigned i = 0; i < SB_MTP_QUESTIONS; i++) {
        const sb_mtp_line *line = &audit->lines[i];
        int shown = style->verbose || line->state == SB_MTP_bad || line->state == SB_MTP_note;
        if (shown && audit->verdict != SB_MTP_NONE_DECLARED && line->title)
            fprintf(out, "  %-7s %s: %s\n", sb_mtp_state_name(line->state), line->title,
                    line->text);
    }
    for (size_t i = 0; i < audit->fault_count; i++) {
        const sb_loader_fault *f = audit->faults[i];
        fprintf(out, "  suspect %s, %s (%s, %s): %s\n", f->engine, f->versions, f->reference,
                f->verified ? f->dated : "as reported by others", f->what);
    }
    if (audit->verdict == SB_MTP_FILE_OK && audit->engine && !audit->fault_count)
        fprintf(out, "  no known fault of %s fits this head\n", audit->engine->name);
    if (audit->next[0])
        fprintf(out, "  next: %s\n", audit->next);
    if (audit->settle[1][0])
        fprintf(out, "  or, if an engine is running:\n");
    else if (audit->settle[0][0])
        fprintf(out, "  or, to compare with the rate that %s itself reports:\n",
                audit->engine ? audit->engine->name : "the engine");
    for (int i = 0; i < 2; i++)
        if (audit->settle[i][0])
            fprintf(out, "    %s\n", audit->settle[i]);
}

/* Prints the audit of the head. With --need mtp, prints all of it. */
static void print_mtp(const printer *p)
{
    sb_report_style style = *p->style;
    style.verbose |= p->report->check->options->need_mtp;
    sb_report_mtp_text(p->report->mtp, &style, p->out);
}

void sb_report_text(const sb_report *report, const sb_report_style *style, FILE *out)
{
    printer p = {report, style, out};
    unsigned order[SB_CHECK_LAST];
    size_t n = worst_first(report, order);
    if (!style->quiet) {
        print_head(&p);
        print_sample(&p);
        for (size_t i = 0; i < n; i++)
            print_check(&p, order[i]);
        print_shards(&p);
        print_compared(&p);
        print_waivers(&p);
        if (report->loaded)
            sb_report_loaded_text(report->loaded, report->waivers, style, out);
        if (report->mtp)
            print_mtp(&p);
        if (report->head)
            sb_report_head_text(report->head, out);
        print_kept(&p);
        print_skipped(&p);
        print_unseen(&p);
        fputc('\n', out);
    }
    print_verdict(&p);
}
