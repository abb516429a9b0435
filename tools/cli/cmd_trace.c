/* cmd_trace.c - samebit trace: is a trace complete, and for which comparisons does it suffice? */
#include <inttypes.h>
#include <string.h>

#include "ref/container/digest.h"
#include "ref/container/show.h"
#include "ref/run/model.h"
#include "tools/cli/cli.h"
#include "tools/cli/dumped.h"
#include "tools/cli/opts.h"
#include "tools/judge/trace/read.h"
#include "tools/judge/trace/write.h"
#include "tools/report/part/document.h"
#include "tools/report/result/trace.h"

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

static sb_status take_step(void *ctx, const sb_step *step, sb_error *err)
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
        status = r->dump ? sb_dump_play(r->dump, take_step, r, err)
                         : sb_trace_play(r->trace, take_step, r, err);
    if (!status && r->writer)
        status = sb_trace_commit(r->writer, err);
    if (!status)
        check_level(r);
    return status;
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
    if (status)
        return status;
    const sb_trace_document d = {.head = head_of(r),
                                 .audit = r->audit,
                                 .claims = r->dump ? SB_TRACE_LEVELS : head_of(r)->level};
    if (r->as_json)
        status = sb_print_document(sb_trace_json(&d), err);
    else
        sb_trace_print(&d);
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
