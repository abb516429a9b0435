/* report_html_mtp.c - the MTP head on the page: the audit of its files, and what it drafts. */
#include <inttypes.h>

#include "tools/report/check/report_page.h"

sb_page_tone sb_report_mtp_tone(sb_mtp_verdict verdict)
{
    return verdict == SB_MTP_FILE_OK         ? SB_TONE_good
           : verdict == SB_MTP_NONE_DECLARED ? SB_TONE_open
                                             : SB_TONE_bad;
}

static void print_questions(FILE *out, const sb_mtp_audit *a)
{
    static const sb_page_tone tones[] = {SB_TONE_good, SB_TONE_tie, SB_TONE_bad, SB_TONE_open};
    sb_page_table(out, "audit", "<question|<state|<found");
    for (size_t i = 0; i < SB_MTP_QUESTIONS; i++) {
        const sb_mtp_line *l = &a->lines[i];
        if (!l->title)
            continue;
        fprintf(out, "<tr><td>%s</td><td class=\"left\">", l->title);
        sb_page_chip(out, tones[l->state], sb_mtp_state_name(l->state));
        fputs("</td><td class=\"words\">", out);
        sb_page_text(out, l->text);
        fputs("</td></tr>\n", out);
    }
    sb_page_table_end(out);
}

static void print_parts(FILE *out, const sb_mtp_audit *a)
{
    fputs("<h3>Its parts</h3>\n", out);
    sb_page_table(out, "parts", "<part|<stored as|modules");
    for (size_t i = 0; i < SB_MTP_PARTS; i++) {
        const sb_mtp_part *p = &a->parts[i];
        if (!p->name || !p->modules)
            continue;
        fprintf(out, "<tr><td>%s</td><td class=\"left\">%s%s%s</td><td>%zu</td></tr>\n", p->name,
                p->container == SB_CONTAINER_COUNT ? "not there" : sb_container_name(p->container),
                p->mixed ? ", mixed" : "", p->stacked ? ", stacked" : "", p->modules);
    }
    sb_page_table_end(out);
}

static void print_suspects(FILE *out, const sb_mtp_audit *a)
{
    if (!a->fault_count)
        return;
    fputs("<h3>Loaders with a known fault for such a head</h3>\n", out);
    sb_page_table(out, "suspects", "<engine|<versions|<what it does|<known from");
    for (size_t i = 0; i < a->fault_count; i++) {
        const sb_loader_fault *f = a->faults[i];
        fprintf(out, "<tr><td>%s</td><td class=\"words\">", f->engine);
        sb_page_text(out, f->versions);
        fputs("</td><td class=\"words\">", out);
        sb_page_text(out, f->what);
        fputs("</td><td class=\"left\">", out);
        sb_page_text(out, f->reference);
        fprintf(out, ", %s</td></tr>\n", f->verified ? f->dated : "as reported by others");
    }
    sb_page_table_end(out);
}

static void print_next(FILE *out, const sb_mtp_audit *a)
{
    if (!a->next[0] && !a->settle[0][0])
        return;
    fputs("<h3>Next</h3>\n", out);
    if (a->next[0])
        sb_page_lines(out, "next", a->next);
    if (a->settle[0][0])
        fputs("<p>Or, if an engine is running:</p>\n", out);
    for (int i = 0; i < 2; i++)
        if (a->settle[i][0])
            sb_page_lines(out, "settle", a->settle[i]);
}

static void print_run(FILE *out, const sb_head_run *run)
{
    static const char *const sides[] = {"own", "original"};
    static const sb_page_tone tones[] = {SB_TONE_good, SB_TONE_bad, SB_TONE_open};
    fputs("<h3>What it drafts</h3>\n<p>", out);
    sb_page_chip(out, tones[run->verdict], sb_head_verdict_name(run->verdict));
    fputs(" ", out);
    sb_page_text(out, run->why);
    fputs("</p>\n", out);
    if (!run->cell[SB_HEAD_OWN][SB_HEAD_OWN].known)
        return;
    sb_page_table(out, "run", "<head|<trunk|accepted|of|rate|95 %||");
    for (int h = 0; h < SB_HEAD_SIDES; h++)
        for (int t = 0; t < SB_HEAD_SIDES; t++) {
            const sb_head_cell *c = &run->cell[h][t];
            if (!c->known)
                continue;
            fprintf(out,
                    "<tr><td>%s</td><td class=\"left\">%s</td><td>%" PRIu64 "</td><td>%" PRIu64
                    "</td><td>%.4f</td><td>%.4f to %.4f</td><td>",
                    sides[h], sides[t], c->accepted, c->of, c->rate, c->low, c->high);
            sb_page_interval(out, &(sb_page_span){c->low, c->rate, c->high}, NULL);
            fputs("</td></tr>\n", out);
        }
    sb_page_table_end(out);
    fprintf(out,
            "<p>The best constant draft, the same token at every position, would be accepted at "
            "%" PRIu64 " of %" PRIu64 " positions.</p>\n",
            run->common, run->cell[SB_HEAD_OWN][SB_HEAD_OWN].of);
}

void sb_report_html_mtp(FILE *out, const sb_report *r)
{
    const sb_mtp_audit *a = r->mtp;
    if (!a)
        return;
    sb_page_section(out, "mtp", "The MTP head",
                    "Are the files the reason why speculation gains nothing? The answers from the "
                    "files, question by question.");
    fputs("<p>", out);
    sb_page_chip(out, sb_report_mtp_tone(a->verdict), sb_mtp_verdict_name(a->verdict));
    fputs(" ", out);
    sb_page_text(out, a->why);
    fputs("</p>\n", out);
    if (a->verdict != SB_MTP_NONE_DECLARED) {
        print_questions(out, a);
        print_parts(out, a);
        print_suspects(out, a);
        print_next(out, a);
    }
    if (r->head)
        print_run(out, r->head);
    sb_page_section_end(out);
}
