#include "tools/report/result/trace.h"

#include <inttypes.h>
#include <stdio.h>

#include "ref/container/show.h"
#include "tools/judge/trace/names.h"
#include "tools/judge/trace/sampling_json.h"
#include "tools/report/part/document.h"

/* --- text ------------------------------------------------------------------------------------- */

static void print_finding(const sb_finding *f)
{
    char text[sizeof *f + 96];
    sb_finding_text(f, text, sizeof text);
    printf("FAIL %s\n", text);
}

static void print_kept(const sb_audit_counts *c)
{
    sb_tap_name row;
    const char *before = "values of";
    for (size_t i = 0; i < SB_AUDIT_TAPS && sb_tap_row(i, &row); i++)
        if (c->kept[i]) {
            printf("%s %s", before, row.name);
            before = ",";
        }
    if (*before == ',')
        printf("\n");
}

static void print_head(const sb_trace_head *h)
{
    printf("engine %s\n", SB_SHOW(h->engine));
    printf("profile %s, arithmetic %s\n", h->profile[0] ? SB_SHOW(h->profile) : "not given",
           h->arithmetic[0] ? SB_SHOW(h->arithmetic) : "not given");
    printf("checkpoint %s, vocab_size %u\n", h->checkpoint.hex[0] ? h->checkpoint.hex : "not given",
           (unsigned)h->vocab_size);
    if (h->rollback)
        printf("rollback %s\n", sb_trace_rollback_name(h->rollback));
    if (h->drafter)
        printf("drafter %s\n", sb_trace_drafter_name(h->drafter));
    if (*h->functions)
        printf("functions %s\n", SB_SHOW(h->functions));
    if (h->delta_chunk)
        printf("delta rule: chunks of %u rows\n", (unsigned)h->delta_chunk);
    if (h->prefix)
        printf("prefixes: %s", sb_trace_prefix_name(h->prefix));
    if (h->prefix && h->prefix_block)
        printf(", multiples of %u tokens", (unsigned)h->prefix_block);
    if (h->prefix)
        printf("\n");
}

static void print_counts(const sb_audit_counts *c)
{
    printf("steps %zu, sequences %zu, rows: %zu prompt, %zu decode, %zu verify, %zu draft\n",
           c->steps, c->sequences, c->rows[SB_CALL_prompt], c->rows[SB_CALL_decode],
           c->rows[SB_CALL_verify], c->rows[SB_CALL_draft]);
    printf("rounds %zu, accepted %zu of %zu drafts\n", c->rounds, c->accepted, c->drafted);
    if (c->prefixes)
        printf("%zu sequence%s another one\n", c->prefixes,
               c->prefixes == 1 ? " continues" : "s continue");
    if (c->samplings) {
        char text[400];
        sb_sampling_text(&c->first_sampling, 1, text, sizeof text);
        printf("%zu sequence%s, the first: %s\n", c->samplings,
               c->samplings == 1 ? " declares its sampler" : "s declare their samplers",
               *text ? text : "nothing");
    }
    if (c->orphans)
        printf("%zu sequence%s after position 0 without a parent, the first is %u at %" PRIu64
               ": the state that it begins with is not known\n",
               c->orphans, c->orphans == 1 ? " begins" : "s begin", (unsigned)c->first_orphan,
               c->first_orphan_position);
    printf("taps %zu, %zu with values\n", c->arrays, c->with_data);
    print_kept(c);
    printf("states %zu, %zu pieces, %zu with values\n", c->states, c->pieces, c->pieces_with_data);
    if (c->not_finite)
        printf("%zu values are NaN or infinite\n", c->not_finite);
    if (c->constant)
        printf("%zu arrays are constant, the first %s\n", c->constant, SB_SHOW(c->first_constant));
    if (c->unknown)
        printf("%zu arrays are not taps and were not read, the first %s\n", c->unknown,
               SB_SHOW(c->first_unknown));
}

static void print_level(const sb_level *level, unsigned says)
{
    unsigned reached = sb_level_reached(level);
    printf("level %u", reached);
    if (reached + 1 < SB_TRACE_LEVELS)
        printf("; for level %u: %s", reached + 1, sb_level_next(level).text);
    printf("%s\n", says < reached ? " (trace.json claims less)" : "");
}

void sb_trace_print(const sb_trace_document *d)
{
    const sb_finding *findings;
    size_t found = sb_audit_findings(d->audit, &findings);
    print_head(d->head);
    print_counts(sb_audit_count(d->audit));
    print_level(sb_audit_level(d->audit), d->claims);
    for (size_t i = 0; i < found && i < SB_FINDINGS; i++)
        print_finding(&findings[i]);
    if (found > SB_FINDINGS)
        printf("and %zu more\n", found - SB_FINDINGS);
    if (!found)
        printf("PASS\n");
}

/* --- JSON ------------------------------------------------------------------------------------- */

static json_t *head_json(const sb_trace_head *h)
{
    json_t *out = json_object();
    SB_PUT(out, "engine", h->engine);
    SB_PUT(out, "profile", h->profile);
    SB_PUT(out, "arithmetic", h->arithmetic);
    SB_PUT(out, "checkpoint", h->checkpoint.hex[0] ? h->checkpoint.hex : NULL);
    SB_PUT(out, "vocab_size", h->vocab_size);
    if (h->rollback)
        SB_PUT(out, "rollback", sb_trace_rollback_name(h->rollback));
    if (h->drafter)
        SB_PUT(out, "drafter", sb_trace_drafter_name(h->drafter));
    if (*h->functions)
        SB_PUT(out, "functions", h->functions);
    if (h->delta_chunk)
        SB_PUT(out, "delta_chunk", h->delta_chunk);
    if (h->prefix)
        SB_PUT(out, "prefix", sb_trace_prefix_name(h->prefix));
    if (h->prefix_block)
        SB_PUT(out, "prefix_block", h->prefix_block);
    return out;
}

static json_t *rows_json(const sb_audit_counts *c)
{
    json_t *out = json_object();
    for (unsigned k = 0; k < 4; k++)
        SB_PUT(out, sb_call_kind_name((sb_call_kind)k), c->rows[k]);
    return out;
}

static json_t *kept_json(const sb_audit_counts *c)
{
    json_t *out = json_array();
    sb_tap_name row;
    for (size_t i = 0; i < SB_AUDIT_TAPS && sb_tap_row(i, &row); i++)
        if (c->kept[i])
            SB_ADD(out, row.name);
    return out;
}

static json_t *findings_json(const sb_trace_document *d)
{
    json_t *out = json_array();
    const sb_finding *f;
    size_t found = sb_audit_findings(d->audit, &f);
    for (size_t i = 0; i < found && i < SB_FINDINGS; i++) {
        json_t *row = json_object();
        SB_PUT(row, "check", f[i].check);
        SB_PUT(row, "step", f[i].step);
        SB_PUT(row, "sequence", f[i].sequence);
        SB_PUT(row, "row", SB_KNOWN(f[i].row >= 0, f[i].row));
        SB_PUT(row, "message", f[i].words);
        SB_ADD(out, row);
    }
    return out;
}

json_t *sb_trace_json(const sb_trace_document *trace)
{
    const sb_audit_counts *c = sb_audit_count(trace->audit);
    const sb_level *level = sb_audit_level(trace->audit);
    const sb_finding *findings;
    unsigned reached = sb_level_reached(level);
    size_t found = sb_audit_findings(trace->audit, &findings);
    json_t *d = sb_document("trace"), *rounds = json_object(), *taps = json_object(),
           *states = json_object();
    SB_PUT(d, "verdict", found ? "FAIL" : "PASS");
    SB_PUT(d, "level", reached);
    SB_PUT(d, "missing", SB_KNOWN(reached + 1 < SB_TRACE_LEVELS, sb_level_next(level).text));
    SB_PUT(d, "head", head_json(trace->head));
    SB_PUT(d, "steps", c->steps);
    SB_PUT(d, "sequences", c->sequences);
    SB_PUT(d, "prefixes", c->prefixes);
    SB_PUT(d, "sampling", SB_KNOWN(c->samplings, sb_sampling_json(&c->first_sampling)));
    SB_PUT(d, "orphans", c->orphans);
    SB_PUT(d, "rows", rows_json(c));
    SB_PUT(rounds, "count", c->rounds);
    SB_PUT(rounds, "drafted", c->drafted);
    SB_PUT(rounds, "accepted", c->accepted);
    SB_PUT(d, "rounds", rounds);
    SB_PUT(taps, "count", c->arrays);
    SB_PUT(taps, "with_values", c->with_data);
    SB_PUT(taps, "values_of", kept_json(c));
    SB_PUT(d, "taps", taps);
    SB_PUT(states, "count", c->states);
    SB_PUT(states, "pieces", c->pieces);
    SB_PUT(states, "with_values", c->pieces_with_data);
    SB_PUT(d, "states", states);
    SB_PUT(d, "not_finite", c->not_finite);
    SB_PUT(d, "constant", c->constant);
    SB_PUT(d, "unknown", c->unknown);
    SB_PUT(d, "found", found);
    SB_PUT(d, "findings", findings_json(trace));
    return d;
}
