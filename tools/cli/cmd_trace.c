/* cmd_trace.c - samebit trace: is a trace complete, and for which comparisons does it suffice? */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ref/container/digest.h"
#include "ref/container/show.h"
#include "ref/run/model.h"
#include "tools/cli/cli.h"
#include "tools/cli/dumped.h"
#include "tools/cli/opts.h"
#include "tools/judge/trace/audit.h"
#include "tools/judge/trace/names.h"
#include "tools/judge/trace/read.h"
#include "tools/judge/trace/sampling_json.h"
#include "tools/judge/trace/write.h"
#include "tools/report/part/document.h"

typedef struct report {
    const char *dir, *checkpoint, *write;
    int as_json, kinds;
    sb_dumped dumped;
    sb_trace *trace; /* or */
    sb_dump *dump;
    sb_model *model; /* NULL: --checkpoint was not given */
    sb_audit *audit;
    sb_trace_writer *writer; /* NULL: --write was not given */
    size_t steps;            /* steps so far */
} report;

static const sb_trace_head *head_of(const report *r)
{
    return r->dump ? sb_dump_info(r->dump) : sb_trace_info(r->trace);
}

/* --- the audit -------------------------------------------------------------------------------- */

static sb_status take(void *ctx, const sb_step *step, sb_error *err)
{
    report *r = ctx;
    sb_status status = sb_audit_step(r->audit, step, err);
    if (!status && r->writer)
        status = sb_trace_write(r->writer, step, err);
    r->steps++;
    if (r->trace)
        sb_progress(NULL, "step", r->steps, sb_trace_steps(r->trace));
    return status;
}

/* U-1: "tells which checkpoint was run" */
static sb_status check_model(report *r, sb_error *err)
{
    const sb_trace_head *head = head_of(r);
    sb_digest digest;
    sb_status status = SB_OK;
    if (!r->model)
        return SB_OK;
    if (head->vocab_size != r->model->config.vocab_size)
        sb_audit_add(r->audit, "checkpoint", 0, 0, -1, "vocab_size is %u, but %u in the checkpoint",
                     (unsigned)head->vocab_size, (unsigned)r->model->config.vocab_size);
    if (head->checkpoint.hex[0])
        status = sb_checkpoint_digest(r->model->checkpoint, &digest, err);
    if (!status && head->checkpoint.hex[0] && strcmp(digest.hex, head->checkpoint.hex) != 0)
        sb_audit_add(r->audit, "checkpoint", 0, 0, -1,
                     "the trace names a checkpoint with digest %s, but this checkpoint has %s",
                     head->checkpoint.hex, digest.hex);
    return status;
}

static void check_level(report *r)
{
    sb_level_words lacks = sb_level_lacks(sb_audit_level(r->audit), head_of(r)->level);
    if (*lacks.text)
        sb_audit_add(r->audit, "level", 0, 0, -1, "%s", lacks.text);
}

static sb_status open_steps(report *r, sb_error *err)
{
    const sb_config *config = r->model ? &r->model->config : NULL;
    if (sb_dumped_is(&r->dumped, r->dir))
        return sb_dumped_open(&r->dumped, r->dir, config, r->checkpoint, &r->dump, err);
    if (r->dumped.map || sb_prompts_given(&r->dumped.from))
        return sb_fail(err, SB_ERR_USAGE,
                       "%s is not a file of another program: expected no --map and no tokens",
                       SB_SHOW(r->dir));
    return sb_trace_open(r->dir, &r->trace, err);
}

static sb_status begin_writing(report *r, sb_error *err)
{
    if (!r->write)
        return SB_OK;
    if (!head_of(r)->vocab_size)
        return sb_fail(err, SB_ERR_USAGE,
                       "%s does not give the size of the vocabulary: --write needs --checkpoint",
                       SB_SHOW(r->dir));
    return sb_trace_begin(r->write, head_of(r), &r->writer, err);
}

static sb_status examine(report *r, sb_error *err)
{
    sb_status status = SB_OK;
    if (r->checkpoint)
        status = sb_model_open(r->checkpoint, &r->model, err);
    if (!status)
        status = open_steps(r, err);
    if (!status)
        status = sb_audit_new(r->model ? &r->model->config : NULL, head_of(r), &r->audit, err);
    if (!status)
        status = check_model(r, err);
    if (!status)
        status = begin_writing(r, err);
    if (!status)
        status =
            r->dump ? sb_dump_play(r->dump, take, r, err) : sb_trace_play(r->trace, take, r, err);
    if (!status && r->writer)
        status = sb_trace_commit(r->writer, err);
    if (!status)
        check_level(r);
    return status;
}

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

static void print_report(const report *r)
{
    const sb_finding *findings;
    size_t found = sb_audit_findings(r->audit, &findings);
    print_head(head_of(r));
    print_counts(sb_audit_count(r->audit));
    print_level(sb_audit_level(r->audit), r->dump ? SB_TRACE_LEVELS : head_of(r)->level);
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

static json_t *findings_json(const report *r)
{
    json_t *out = json_array();
    const sb_finding *f;
    size_t found = sb_audit_findings(r->audit, &f);
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

static sb_status print_json(const report *r, sb_error *err)
{
    const sb_audit_counts *c = sb_audit_count(r->audit);
    const sb_level *level = sb_audit_level(r->audit);
    const sb_finding *findings;
    unsigned reached = sb_level_reached(level);
    size_t found = sb_audit_findings(r->audit, &findings);
    json_t *d = sb_document("trace");
    SB_PUT(d, "verdict", found ? "FAIL" : "PASS");
    SB_PUT(d, "level", reached);
    SB_PUT(d, "missing",
           reached + 1 < SB_TRACE_LEVELS ? json_string(sb_level_next(level).text) : json_null());
    SB_PUT(d, "head", head_json(head_of(r)));
    SB_PUT(d, "steps", c->steps);
    SB_PUT(d, "sequences", c->sequences);
    SB_PUT(d, "prefixes", c->prefixes);
    SB_PUT(d, "sampling", c->samplings ? sb_sampling_json(&c->first_sampling) : json_null());
    SB_PUT(d, "orphans", c->orphans);
    SB_PUT(d, "rows", rows_json(c));
    SB_PUT(d, "rounds",
           json_pack("{s:I,s:I,s:I}", "count", (json_int_t)c->rounds, "drafted",
                     (json_int_t)c->drafted, "accepted", (json_int_t)c->accepted));
    SB_PUT(d, "taps",
           json_pack("{s:I,s:I,s:o}", "count", (json_int_t)c->arrays, "with_values",
                     (json_int_t)c->with_data, "values_of", kept_json(c)));
    SB_PUT(d, "states",
           json_pack("{s:I,s:I,s:I}", "count", (json_int_t)c->states, "pieces",
                     (json_int_t)c->pieces, "with_values", (json_int_t)c->pieces_with_data));
    SB_PUT(d, "not_finite", c->not_finite);
    SB_PUT(d, "constant", c->constant);
    SB_PUT(d, "unknown", c->unknown);
    SB_PUT(d, "found", found);
    SB_PUT(d, "findings", findings_json(r));
    return sb_print_document(d, err);
}

/* --- the command ------------------------------------------------------------------------------ */

/* The message on stderr about findings. */
static sb_status verdict_of(const report *r, sb_error *err)
{
    const sb_finding *f;
    size_t found = sb_audit_findings(r->audit, &f);
    if (!found)
        return SB_OK;
    return sb_fail(err, SB_ERR_DIFF,
                   "%s: %zu findings, the first: %s: step %" PRIu64 ", sequence %u: %s",
                   SB_SHOW(r->dir), found, f->check, f->step, (unsigned)f->sequence, f->words);
}

static const char about[] =
    "Checks a whole trace that samebit run --trace or another engine wrote. Does every array\n"
    "have the shape that its step requires, does it match its digest, and do positions, rounds,\n"
    "drafts, slots and states of every sequence fit together? Prints the level of the trace,\n"
    "what is missing for the next level, and every contradiction by step, row and sequence.\n"
    "docs/trace.md defines the folder.\n"
    "Files of other programs (docs/dumps.md) are read, too; --write converts them to a trace.\n"
    "Exit status 1: a contradiction; 3: the input cannot be read as a trace.";

static const char more[] = "examples:\n"
                           "  samebit run CKPT --tokens 1,2,3 -n 8 --draft 3 --trace t --taps all\n"
                           "  samebit trace t --checkpoint CKPT\n"
                           "  samebit trace answers.jsonl --checkpoint CKPT --write t\n";

static sb_status parse(report *r, sb_command_line *line, int argc, char **argv, sb_error *err)
{
    const sb_opt opts[] = {
        {"checkpoint", 0, SB_OPT_INPUT, &r->checkpoint, "CKPT",
         "compare digest, widths and shapes of states with it"},
        SB_OPT_JSON(&r->as_json),
        {"write", 0, SB_OPT_OUTPUT, &r->write, "DIR", "write the input as a trace folder"},
        SB_DUMPED_OPTS(&r->dumped),
        SB_PROMPT_OPTS(&r->dumped.from, "the engine's input, if the file lacks it,"),
        {"kinds", 0, SB_OPT_FLAG, &r->kinds, NULL, "list the readable files of other programs"},
    };
    *line = (sb_command_line){.usage = "trace DIR|FILE [--checkpoint CKPT] [--write DIR] [--json]",
                              .about = about,
                              .opts = opts,
                              .opt_count = sizeof opts / sizeof *opts,
                              .more = more,
                              .min_operands = 0,
                              .max_operands = 1};
    sb_status status = sb_parse(line, argc, argv, err);
    if (!status && !line->helped && !r->kinds && line->operands != 1)
        status = sb_fail(err, SB_ERR_USAGE, "found %u operands; usage: samebit %s", line->operands,
                         line->usage);
    return status;
}

static sb_status report_all(report *r, sb_error *err)
{
    sb_status status = examine(r, err);
    if (!status && r->as_json)
        status = print_json(r, err);
    else if (!status)
        print_report(r);
    return status ? status : verdict_of(r, err);
}

sb_status sb_cmd_trace(int argc, char **argv, sb_error *err)
{
    report r = {.dir = NULL};
    sb_command_line line;
    sb_status status = parse(&r, &line, argc, argv, err);
    if (status || line.helped)
        return status;
    if (r.kinds)
        return sb_dumped_kinds(r.as_json, err);
    r.dir = line.operand[0];
    status = report_all(&r, err);
    sb_trace_writer_free(r.writer);
    sb_audit_free(r.audit);
    sb_trace_close(r.trace);
    sb_dump_close(r.dump);
    sb_dumped_clear(&r.dumped);
    sb_model_close(r.model);
    return status;
}
