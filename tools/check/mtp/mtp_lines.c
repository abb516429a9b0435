#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ref/container/show.h"
#include "tools/check/mtp/mtp_parts.h"

static const char no_tensors[] = "there are no tensors of a head";
static const char no_config[] = "there is no configuration to compare with";

static void say(sb_mtp_audit *audit, sb_mtp_question question, sb_mtp_state state,
                const char *format, ...) SB_PRINTF(4, 5);

static void say(sb_mtp_audit *audit, sb_mtp_question question, sb_mtp_state state,
                const char *format, ...)
{
    va_list args;
    va_start(args, format);
    audit->lines[question].state = state;
    vsnprintf(audit->lines[question].text, sizeof audit->lines[question].text, format, args);
    va_end(args);
}

/* --- lines that sum up findings --------------------------------------------------------------- */

/* The checks that a line sums up: a list that ends with 0. */
typedef struct summary {
    sb_mtp_question question;
    int payload; /* unknown if only headers were read */
    const char *sound;
    unsigned checks[14];
} summary;

static const summary summaries[] = {
    {SB_MTP_index, 0, "every file of the head is complete and in the index", {1, 2}},
    {SB_MTP_scales,
     1,
     "the scales of quantized parts are in range",
     {15, 16, 17, 18, 22, 26, 27, 29, 33, 34, 37, 39, 47}},
    {SB_MTP_values,
     1,
     "the values are finite, not zero, not copies of others, and as large as those of the trunk",
     {12, 13, 19, 20, 21, 28, 30, 35, 36, 42, 48, 53, 54}},
    {SB_MTP_original,
     1,
     "the values are the original's, as far as the format allows",
     {14, 23, 24, 25, 31, 38, 43, 44}},
    {SB_MTP_double_quantization, 1, "no sign of an earlier quantization", {40}},
    {SB_MTP_trained, 1, "the values are not those of an initialization", {41}},
    {SB_MTP_norms, 1, "stored around 0", {45}},
};

static int is_among(unsigned check, const unsigned *checks)
{
    for (size_t i = 0; checks[i]; i++)
        if (checks[i] == check)
            return 1;
    return 0;
}

static int is_about_head(const sb_finding *f)
{
    return strncmp(f->tensor, "mtp.", 4) == 0 || strstr(f->tensor, ".mtp.") != NULL;
}

/* The most severe finding of these checks about the head; *count is the number of such findings. */
static const sb_finding *heaviest(const sb_check *check, const unsigned *checks, size_t *count)
{
    const sb_finding *worst = NULL;
    *count = 0;
    for (size_t i = 0; i < check->findings.count; i++) {
        const sb_finding *f = &check->findings.rows[i];
        if (f->waived || f->level == SB_LEVEL_info || !is_about_head(f) ||
            !is_among(f->check, checks))
            continue;
        ++*count;
        if (!worst || f->level > worst->level)
            worst = f;
    }
    return worst;
}

static void tell_finding(sb_mtp_audit *audit, sb_mtp_question question, const sb_finding *f,
                         size_t count, sb_mtp_state state)
{
    audit->lines[question].findings = count;
    if (count > 1)
        say(audit, question, state, "%zu findings, first check %u %s: %s", count, f->check,
            SB_SHOW(f->tensor), f->message);
    else
        say(audit, question, state, "check %u %s: %s", f->check, SB_SHOW(f->tensor), f->message);
}

/* Of these checks, the first that options leave out; 0: all are made, or cannot be. */
static unsigned left_out(const sb_check *check, const unsigned *checks)
{
    for (size_t i = 0; checks[i]; i++)
        if (check->options->skip[checks[i]])
            return checks[i];
    return 0;
}

unsigned sb_mtp_left_out(const sb_check *check)
{
    unsigned first = 0;
    for (size_t i = 0; i < sizeof summaries / sizeof *summaries && !first; i++)
        first = left_out(check, summaries[i].checks);
    return first;
}

static void sum_up(const sb_check *check, const summary *s, sb_mtp_audit *audit)
{
    size_t count;
    const sb_finding *f = heaviest(check, s->checks, &count);
    const unsigned skipped = left_out(check, s->checks);
    int headers = check->options->headers_only && s->payload;
    if (f) /* an untrained head is useless, whatever the level of check 41 */
        tell_finding(audit, s->question, f, count,
                     f->level >= SB_LEVEL_error || f->check == 41 ? SB_MTP_bad : SB_MTP_note);
    else if (!audit->tensors || headers)
        say(audit, s->question, SB_MTP_unknown, "%s",
            headers ? "not checked: --headers reads no values" : no_tensors);
    else if (skipped)
        say(audit, s->question, SB_MTP_unknown, "not checked: check %u %s was not wanted", skipped,
            sb_check_row_of(skipped)->id);
    else if (s->question == SB_MTP_original && !check->master.checkpoint)
        say(audit, s->question, SB_MTP_unknown, "not checked: %s",
            check->stranger.checkpoint ? "the checkpoint of --against is probably not the original"
                                       : "no original was given (--against)");
    else
        say(audit, s->question, SB_MTP_ok, "%s", s->sound);
}

/* V-2: "Files that no index entry names are an ERROR each" - a waiver of such a finding also covers
 * the head. */
static int is_waived(const sb_check *check)
{
    for (size_t i = 0; i < check->findings.count; i++) {
        const sb_finding *f = &check->findings.rows[i];
        if (f->check == 2 && f->waived && is_about_head(f))
            return 1;
    }
    return 0;
}

/* Reports files of the head that are missing or that engines do not read; returns 1 if there are
 * any. */
static int say_places(const sb_check *check, const sb_mtp_places *p, sb_mtp_audit *a)
{
    if (p->absent)
        say(a, SB_MTP_index, SB_MTP_bad,
            "the index puts %" PRIu64 " tensors of the head into %s, which %s %s: download %s "
            "again",
            p->absent, p->files.names, p->absent_files > 1 ? "are" : "is",
            p->missing ? "missing" : "damaged", p->absent_files > 1 ? "them" : "it");
    else if (p->unindexed && !is_waived(check))
        say(a, SB_MTP_index, SB_MTP_bad,
            "%" PRIu64 " tensors are in %s%s, but not in the index, first %s: engines that follow "
            "the index load none of them",
            p->unindexed, SB_SHOW(p->unindexed_file), p->several_files ? " and in other files" : "",
            SB_SHOW(p->unindexed_name));
    else
        return 0;
    return 1;
}

/* --- lines with a question of their own ------------------------------------------------------- */

static void say_presence(const sb_mtp_census *c, sb_mtp_audit *a)
{
    int expected = a->declared || a->layers > 0;
    if (!a->has_config)
        say(a, SB_MTP_presence, SB_MTP_unknown,
            "there is no configuration; there are %" PRIu64 " tensors of a head", c->tensors);
    else if (expected && c->tensors)
        say(a, SB_MTP_presence, SB_MTP_ok, "a head is declared, and there are %" PRIu64 " tensors",
            c->tensors);
    else if (expected)
        say(a, SB_MTP_presence, a->declared || c->misplaced ? SB_MTP_bad : SB_MTP_note,
            "a head is %s, but no tensor begins with mtp.",
            a->declared ? "declared" : "usual in this family");
    else if (c->tensors)
        say(a, SB_MTP_presence, SB_MTP_bad,
            "there are %" PRIu64
            " tensors, but mtp_num_hidden_layers does not declare them: engines do not load them",
            c->tensors);
    else
        say(a, SB_MTP_presence, SB_MTP_ok, "no head is declared, and there is none");
}

static void say_count(const sb_check *check, const sb_mtp_census *c, sb_mtp_audit *a)
{
    int exact;
    if (!a->has_config || !c->tensors) {
        say(a, SB_MTP_count, SB_MTP_unknown, "%s", c->tensors ? no_config : no_tensors);
        return;
    }
    sb_mtp_fingerprint known = sb_mtp_fingerprint_of(&check->self.config, c->tensors, &exact);
    a->expected_tensors = known.tensors;
    snprintf(a->fingerprint, sizeof a->fingerprint, "%" PRIu64 ": %s", known.tensors, known.who);
    if (exact)
        say(a, SB_MTP_count, SB_MTP_ok, "%" PRIu64 " tensors: %s", c->tensors, known.who);
    else
        say(a, SB_MTP_count, SB_MTP_note,
            "%" PRIu64 " tensors, which no known exporter writes; the nearest is %s", c->tensors,
            a->fingerprint);
}

static void say_coverage(const sb_mtp_census *c, sb_mtp_audit *a)
{
    if (!a->has_config || !c->tensors)
        say(a, SB_MTP_coverage, SB_MTP_unknown, "%s", c->tensors ? no_config : no_tensors);
    else if (c->found < c->implied)
        say(a, SB_MTP_coverage, SB_MTP_bad,
            "%" PRIu64 " of %" PRIu64 " modules and tensors of the head (%" PRIu64 " of %" PRIu64
            " of the model), first missing %s",
            c->found, c->implied, c->model_found, c->model_implied, SB_SHOW(c->first_missing));
    else
        say(a, SB_MTP_coverage, SB_MTP_ok,
            "%" PRIu64 " of %" PRIu64 " modules and tensors of the head (%" PRIu64 " of %" PRIu64
            " of the model)",
            c->found, c->implied, c->model_found, c->model_implied);
}

static void say_prefix(const sb_mtp_census *c, sb_mtp_audit *a)
{
    if (c->misplaced)
        say(a, SB_MTP_prefix, SB_MTP_bad, "%" PRIu64 " tensors under another prefix, first %s",
            c->misplaced, SB_SHOW(c->first_misplaced));
    else if (c->tensors)
        say(a, SB_MTP_prefix, SB_MTP_ok, "mtp.");
    else
        say(a, SB_MTP_prefix, SB_MTP_unknown, "%s", no_tensors);
}

/* Writes "fc plain, attention plain, experts fp8-block". Counts findings about storage, too. */
static void say_containers(const sb_check *check, sb_mtp_audit *a)
{
    static const unsigned checks[] = {4, 6, 7, 8, 11, 32, 0};
    char text[256] = "";
    size_t used = 0, count;
    int mixed = 0;
    for (unsigned p = 0; p < SB_MTP_PARTS; p++) {
        const sb_mtp_part *part = &a->parts[p];
        if (!part->modules || used + 64 > sizeof text)
            continue;
        mixed |= part->mixed;
        used += (size_t)snprintf(
            text + used, sizeof text - used, "%s%s %s%s%s", used ? ", " : "", part->name,
            part->container < SB_CONTAINER_COUNT ? sb_container_name(part->container)
                                                 : "unreadable",
            part->stacked ? " stacked" : "", part->mixed ? " (mixed)" : "");
    }
    const sb_finding *f = heaviest(check, checks, &count);
    if (f)
        tell_finding(a, SB_MTP_containers, f, count,
                     f->level >= SB_LEVEL_error ? SB_MTP_bad : SB_MTP_note);
    else
        say(a, SB_MTP_containers,
            !used   ? SB_MTP_unknown
            : mixed ? SB_MTP_note
                    : SB_MTP_ok,
            "%s", used ? text : no_tensors);
}

/* The first module that is not stored as declared; NULL: none. */
static sb_status find_contradiction(const sb_check *check, const sb_unit **out, const char **rule,
                                    size_t *count, sb_error *err)
{
    *out = NULL;
    *count = 0;
    for (size_t i = 0; i < check->self.units.count; i++) {
        const sb_unit *unit = &check->self.units.rows[i];
        sb_declaration d;
        unsigned part = sb_mtp_part_of(unit->name);
        if (unit->region != SB_REGION_mtp || unit->tensor || unit->status || part == SB_MTP_PARTS ||
            sb_found_origin(check->self.checkpoint, &unit->found) ||
            strcmp(unit->kind, "mtp.mlp.gate") == 0 || strstr(unit->name, "shared_expert_gate"))
            continue;
        sb_status status = sb_declared_for(check->self.declared, unit->name, &d, err);
        if (status == SB_ERR_MEMORY)
            return status;
        int plain = unit->found.container == SB_CONTAINER_plain;
        if (status || d.answer != (plain ? SB_DECLARED_YES : SB_DECLARED_NO))
            continue;
        if (!(*count)++) {
            *out = unit;
            *rule = d.rule;
        }
    }
    return SB_OK;
}

static sb_status say_representation(const sb_check *check, sb_mtp_audit *a, sb_error *err)
{
    const sb_unit *unit;
    const char *rule;
    size_t count;
    if (!a->tensors) {
        say(a, SB_MTP_representation, SB_MTP_unknown, "%s", no_tensors);
        return SB_OK;
    }
    if (!check->self.has_declared) {
        say(a, SB_MTP_representation, SB_MTP_unknown,
            "not checked: the declaration of the quantization cannot be read");
        return SB_OK;
    }
    sb_status status = find_contradiction(check, &unit, &rule, &count, err);
    if (status)
        return status;
    if (!unit) {
        say(a, SB_MTP_representation, SB_MTP_ok, "%s",
            check->self.declared ? "as declared" : "no quantization is declared");
        return SB_OK;
    }
    int plain = unit->found.container == SB_CONTAINER_plain;
    /* AutoRound quantizes the head although its block list does not name it; engines handle that */
    int known = !plain && sb_declared_dialect(check->self.declared) == SB_DIALECT_auto_round;
    a->lines[SB_MTP_representation].findings = count;
    say(a, SB_MTP_representation, known ? SB_MTP_note : SB_MTP_bad,
        "%zu modules are not stored as declared, first %s: stored %s, declared %s (%s)", count,
        SB_SHOW(unit->name), sb_container_name(unit->found.container),
        plain ? "quantized" : "not quantized", rule);
    return SB_OK;
}

static void name_lines(sb_mtp_audit *audit)
{
    static const char *const names[SB_MTP_QUESTIONS][2] = {
        {"presence", "presence"},
        {"count", "tensors"},
        {"coverage", "coverage"},
        {"prefix", "prefix"},
        {"index", "files and index"},
        {"containers", "containers"},
        {"representation", "as declared"},
        {"scales", "scales"},
        {"values", "values"},
        {"original", "original"},
        {"double_quantization", "double quantization"},
        {"trained", "trained"},
        {"norms", "norms"},
    };
    for (unsigned i = 0; i < SB_MTP_QUESTIONS; i++) {
        audit->lines[i].key = names[i][0];
        audit->lines[i].title = names[i][1];
    }
}

sb_status sb_mtp_fill_lines(const sb_check *check, const sb_mtp_census *census,
                            const sb_mtp_places *places, sb_mtp_audit *audit, sb_error *err)
{
    name_lines(audit);
    say_presence(census, audit);
    say_count(check, census, audit);
    say_coverage(census, audit);
    say_prefix(census, audit);
    say_containers(check, audit);
    for (size_t i = 0; i < sizeof summaries / sizeof *summaries; i++)
        if (summaries[i].question != SB_MTP_index || !say_places(check, places, audit))
            sum_up(check, &summaries[i], audit);
    return say_representation(check, audit, err);
}
