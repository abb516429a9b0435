/* cmd_check.c - samebit check: corruption found from the files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/container/show.h"
#include "ref/container/stub.h"
#include "tools/check/read/sample.h"
#include "tools/judge/accept/head.h"
#include "tools/report/check/report.h"
#include "tools/cli/cli.h"
#include "tools/cli/opts.h"
#include "tools/cli/prompt.h"
#include "tools/cli/remote.h"
#include "tools/report/part/document.h"

/* The command line. */
typedef struct wishes {
    const char *path, *drafter, *against, *need, *engine_name, *only, *skip, *waivers, *loaded,
        *junit, *io;
    const char *sarif, *markdown, *badge, *html, *image;
    const char *const *arguments; /* the command line */
    size_t argument_count;
    sb_prompts from; /* of --run */
    const sb_mtp_engine *engine;
    int headers, no_hashes, as_json, list, quiet, verbose;
    sb_remote_wish remote;
    sb_repeated overlays;
    uint64_t threads, positions, sample;
    unsigned char skipped[SB_CHECK_LAST + 1];
} wishes;

/* --- which checks ----------------------------------------------------------------------------- */

static const char *needs_name(sb_check_needs needs)
{
    return needs == SB_NEEDS_headers    ? "headers"
           : needs == SB_NEEDS_payload  ? "payload"
           : needs == SB_NEEDS_original ? "original's headers"
                                        : "original";
}

static sb_status list_checks(int as_json, sb_error *err)
{
    json_t *document = as_json ? sb_document("check") : NULL, *rows = json_array();
    for (unsigned i = 1; i <= SB_CHECK_LAST; i++) {
        const sb_check_row *row = sb_check_row_of(i);
        if (as_json)
            json_array_append_new(rows,
                                  json_pack("{s:i,s:s,s:s,s:s,s:s,s:s,s:s}", "check", (int)i, "id",
                                            row->id, "level", sb_level_name(row->worst), "needs",
                                            needs_name(row->needs), "title", row->title, "engines",
                                            row->engines, "advice", row->advice));
        else
            printf("%2u %-19s %-5s %-8s %s\n", i, row->id, sb_level_name(row->worst),
                   needs_name(row->needs), row->title);
    }
    if (!as_json) {
        json_decref(rows);
        return SB_OK;
    }
    json_object_set_new(document, "checks", rows);
    return sb_print_document(document, err);
}

/* Lists ids that contain the text, or the longest prefix of it that an id contains. */
static void similar(const char *text, char *out, size_t size)
{
    size_t used = 0;
    for (size_t n = strlen(text); n >= 3 && !used; n--)
        for (unsigned i = 1; i <= SB_CHECK_LAST && used + 32 < size; i++) {
            char part[32];
            snprintf(part, sizeof part, "%.*s", (int)n, text);
            if (n < sizeof part && strstr(sb_check_row_of(i)->id, part))
                used += (size_t)snprintf(out + used, size - used, "%s%s", used ? ", " : "",
                                         sb_check_row_of(i)->id);
        }
    if (!used)
        out[0] = '\0';
}

static sb_status unknown_check(const char *option, const char *name, sb_error *err)
{
    char others[200];
    similar(name, others, sizeof others);
    return sb_fail(err, SB_ERR_USAGE,
                   "--%s: there is no check '%s'%s%s; 'samebit check --list' "
                   "names them",
                   option, SB_SHOW(name), *others ? ", but " : "", others);
}

/* Marks the checks of a comma-separated list of numbers and ids. */
static sb_status mark(const char *option, const char *list, unsigned char *marks, sb_error *err)
{
    for (const char *at = list;; at++) {
        char name[64];
        size_t n = strcspn(at, ",");
        snprintf(name, sizeof name, "%.*s", (int)(n < 60 ? n : 60), at);
        unsigned number = sb_check_number(name);
        if (!number)
            return unknown_check(option, name, err);
        marks[number] = 1;
        at += n;
        if (!*at)
            return SB_OK;
    }
}

static sb_status choose_engine(wishes *w, sb_error *err)
{
    char names[200];
    w->engine = w->engine_name ? sb_mtp_engine_named(w->engine_name) : NULL;
    if (!w->engine_name || w->engine)
        return SB_OK;
    sb_mtp_engine_names(names, sizeof names);
    return sb_fail(err, SB_ERR_USAGE, "--for is '%s'; expected one of %s", SB_SHOW(w->engine_name),
                   names);
}

/* A sample has the values of single layers and tensors of this checkpoint, and of no other. */
static sb_status choose_sample(const wishes *w, sb_error *err)
{
    const char *other = w->headers          ? "headers"
                        : w->against        ? "against"
                        : w->loaded         ? "loaded"
                        : w->positions      ? "run"
                        : w->overlays.count ? "overlay"
                        : w->drafter        ? "drafter"
                                            : NULL;
    if (other)
        return sb_fail(err, SB_ERR_USAGE, "--sample and --%s exclude each other", other);
    if (w->sample > SB_SAMPLE_MOST)
        return sb_fail(err, SB_ERR_USAGE, "--sample is %llu; at most %d",
                       (unsigned long long)w->sample, SB_SAMPLE_MOST);
    return SB_OK;
}

/* The report is about the drafter; these options ask for something of the checkpoint. */
static sb_status choose_drafter(const wishes *w, sb_error *err)
{
    const char *other = w->against          ? "--against"
                        : w->overlays.count ? "--overlay"
                        : w->need           ? "--need"
                        : w->engine         ? "--for"
                        : w->positions      ? "--run"
                        : w->loaded         ? "--loaded"
                                            : NULL;
    if (!other)
        return SB_OK;
    return sb_fail(err, SB_ERR_USAGE,
                   "--drafter checks the drafter, and %s asks for something else; type two "
                   "commands",
                   other);
}

static sb_status choose(wishes *w, sb_error *err)
{
    unsigned char only[SB_CHECK_LAST + 1] = {0};
    sb_status status = w->only ? mark("only", w->only, only, err) : SB_OK;
    for (unsigned i = 1; i <= SB_CHECK_LAST && w->only; i++)
        w->skipped[i] = !only[i];
    if (!status && w->skip)
        status = mark("skip", w->skip, w->skipped, err);
    if (!status && w->need && strcmp(w->need, "mtp") != 0)
        status = sb_fail(err, SB_ERR_USAGE, "--need is '%s'; expected mtp", SB_SHOW(w->need));
    if (!status)
        status = choose_engine(w, err);
    if (!status && w->threads > 1024)
        status = sb_fail(err, SB_ERR_USAGE, "--threads is %llu; at most 1024",
                         (unsigned long long)w->threads);
    if (!status && w->positions > SB_HEAD_MAX_POSITIONS)
        status = sb_fail(err, SB_ERR_USAGE, "--run is %llu; at most %d",
                         (unsigned long long)w->positions, SB_HEAD_MAX_POSITIONS);
    if (!status && sb_prompts_given(&w->from))
        status = w->positions
                     ? sb_prompts_check(&w->from, err)
                     : sb_fail(err, SB_ERR_USAGE, "%s needs --run N: it is the text of the run",
                               SB_SHOW(sb_prompts_name(&w->from)));
    if (!status && w->positions && w->headers)
        status = sb_fail(err, SB_ERR_USAGE, "--run and --headers exclude each other");
    if (!status && w->sample)
        status = choose_sample(w, err);
    if (!status && w->remote.remote && !w->headers && !w->sample)
        status = sb_fail(err, SB_ERR_USAGE,
                         "--remote does not read all values: it needs --headers, or --sample N");
    if (!status && w->io && sb_io_named(w->io) == SB_IO_COUNT)
        status = sb_fail(err, SB_ERR_USAGE, "--io is '%s'; expected auto, map, pread or direct",
                         SB_SHOW(w->io));
    if (!status && w->drafter)
        status = choose_drafter(w, err);
    if (!status && w->quiet && w->verbose)
        status = sb_fail(err, SB_ERR_USAGE, "--quiet and --verbose exclude each other");
    return status;
}

/* --- the run ---------------------------------------------------------------------------------- */

/* Inputs and results of a run. */
typedef struct run {
    const wishes *w;
    char *path, *against; /* after a lookup in the hub's cache, or on a server */
    char *target;         /* the same; with --drafter, path is the drafter's and this is CKPT */
    sb_waivers waivers;
    sb_loaded_list list;
    sb_check check;
    sb_loaded loaded;
    sb_mtp_audit mtp;
    sb_sequence *sequences; /* the text of --run */
    size_t sequence_count;
    sb_head_run head;
    sb_report report;
} run;

/* Reads the user's files first: an error in them shows before minutes of reading. */
static sb_status read_inputs(run *r, sb_error *err)
{
    const wishes *w = r->w;
    sb_status status = w->waivers ? sb_waivers_load(w->waivers, &r->waivers, err) : SB_OK;
    if (!status && w->loaded)
        status = sb_loaded_load(w->loaded, &r->list, err);
    if (!status)
        status = sb_place_of(w->path, &w->remote, w->drafter ? &r->target : &r->path, err);
    if (!status && w->drafter)
        status = sb_place_of(w->drafter, &w->remote, &r->path, err);
    if (!status && sb_prompts_given(&w->from))
        status = sb_prompts_read(&w->from, r->path, NULL, &r->sequences, &r->sequence_count, err);
    if (!status && w->against)
        status = sb_place_of(w->against, &w->remote, &r->against, err);
    return status;
}

/* Runs the head after the audit of the files; SB_HEAD_UNKNOWN if the audit found no head. */
static sb_status run_head(run *r, sb_error *err)
{
    const int given = sb_prompts_given(&r->w->from);
    sb_head_options options = {.path = r->path,
                               .original = r->against,
                               .overlays = r->w->overlays.item,
                               .overlay_count = r->w->overlays.count,
                               .positions = r->w->positions,
                               .text_name = given ? sb_prompts_name(&r->w->from) : NULL,
                               .progress = sb_progress};
    if (r->mtp.verdict == SB_MTP_NONE_DECLARED) {
        r->head = (sb_head_run){.verdict = SB_HEAD_UNKNOWN, .why = "there is no head to run"};
        return SB_OK;
    }
    sb_accept_text *texts = given ? calloc(r->sequence_count + 1, sizeof *texts) : NULL;
    if (given && !texts)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for texts");
    for (size_t i = 0; i < r->sequence_count; i++)
        texts[i] = (sb_accept_text){r->sequences[i].ids, r->sequences[i].count, 0};
    options.texts = texts;
    options.text_count = r->sequence_count;
    sb_status status = sb_head_measure(&options, &r->head, err);
    free(texts);
    if (!status)
        sb_mtp_audit_join(&r->mtp, &r->head, r->path, r->against);
    return status;
}

static sb_status make_report(run *r, sb_error *err)
{
    sb_status status = SB_OK;
    sb_waivers *waivers = r->w->waivers ? &r->waivers : NULL;
    if (waivers)
        sb_waivers_apply(waivers, &r->check.findings);
    if (r->w->loaded)
        status = sb_loaded_compare(&r->check, &r->list, r->w->loaded, waivers, &r->loaded, err);
    const int drafter = r->check.self.is_drafter; /* has no MTP head, and is asked for none */
    if (!status && !drafter)
        status = sb_mtp_audit_make(&r->check, &r->mtp, err);
    if (!status && r->w->positions)
        status = run_head(r, err);
    r->report = (sb_report){.check = &r->check,
                            .waivers = waivers,
                            .loaded = r->w->loaded ? &r->loaded : NULL,
                            .mtp = drafter ? NULL : &r->mtp,
                            .head = r->w->positions ? &r->head : NULL,
                            .path = r->path,
                            .against = r->against,
                            .arguments = r->w->arguments,
                            .argument_count = r->w->argument_count};
    if (r->against && strcmp(r->against, r->w->against) != 0)
        r->report.original_id = r->w->against;
    return status ? status : sb_report_make(&r->report, err);
}

/* The files that were asked for besides the report on stdout. */
static sb_status write_files(const run *r, sb_error *err)
{
    const wishes *w = r->w;
    sb_status status = w->junit ? sb_report_junit(&r->report, w->junit, err) : SB_OK;
    if (!status && w->sarif)
        status = sb_report_sarif(&r->report, w->sarif, err);
    if (!status && w->markdown)
        status = sb_report_markdown(&r->report, w->markdown, err);
    if (!status && w->badge)
        status = sb_report_badge(&r->report, w->badge, err);
    if (!status && w->html)
        status = sb_report_html(&r->report, w->html, err);
    if (!status && w->image)
        status = sb_report_image(&r->report, w->image, err);
    return status;
}

static sb_status print_report(run *r, sb_error *err)
{
    const wishes *w = r->w;
    sb_status status = write_files(r, err);
    if (status)
        return status;
    if (w->as_json)
        return sb_print_document(sb_report_json(&r->report, sb_document("check")), err);
    sb_report_style style = {
        .lines = w->verbose ? SIZE_MAX : SB_REPORT_LINES, .quiet = w->quiet, .verbose = w->verbose};
    sb_report_text(&r->report, &style, stdout);
    return fflush(stdout) == 0
               ? SB_OK
               : sb_fail(err, SB_ERR_IO, "the report could not be written to stdout");
}

/* The exit status, and one line for users who read only stderr. */
static sb_status verdict(const run *r, sb_error *err)
{
    const sb_report *p = &r->report;
    if (p->verdict == SB_CHECK_pass && p->head && p->head->failed)
        return sb_fail(err, SB_ERR_SKIPPED, "%s: %.900s", SB_SHOW(p->path), p->head->why);
    if (p->verdict == SB_CHECK_pass && p->head && r->w->need && p->head->verdict == SB_HEAD_UNKNOWN)
        return sb_fail(err, SB_ERR_SKIPPED, "%s: --need mtp: not known: %.900s", SB_SHOW(p->path),
                       p->head->why);
    if (p->verdict == SB_CHECK_pass)
        return SB_OK;
    if (p->verdict == SB_CHECK_mistrusted)
        return sb_fail(err, SB_ERR_SKIPPED,
                       "%s: MISTRUSTED: none of the wanted checks could be made", SB_SHOW(p->path));
    return sb_fail(err, SB_ERR_DIFF, "%s: FAIL: %zu FATAL, %zu ERROR%s%s%s", SB_SHOW(p->path),
                   p->level[SB_LEVEL_fatal], p->level[SB_LEVEL_error],
                   p->loaded && sb_loaded_bad(p->loaded)
                       ? "; the engine does not hold the values of the files"
                       : "",
                   p->need ? "; --need mtp: " : "", p->need ? p->need : "");
}

static sb_status check_all(const wishes *w, sb_error *err)
{
    run r = {.w = w};
    sb_check_options options = {.headers_only = w->headers,
                                .need_mtp = w->need != NULL,
                                .sample = (size_t)w->sample,
                                .engine = w->engine,
                                .no_hashes = w->no_hashes,
                                .io = w->io ? sb_io_named(w->io) : SB_IO_auto,
                                .progress = sb_progress_bytes};
    memcpy(options.skip, w->skipped, sizeof options.skip);
    sb_status status = read_inputs(&r, err);
    options.path = r.path;
    options.overlays = w->overlays.item;
    options.overlay_count = w->overlays.count;
    options.against = r.against;
    if (!status && w->sample)
        status = sb_place_sample(w->path, &w->remote, &options, err);
    options.target = r.target;
    if (!status)
        status = sb_check_run(&options, &r.check, err);
    if (!status)
        status = make_report(&r, err);
    if (!status)
        status = print_report(&r, err);
    if (!status)
        status = verdict(&r, err);
    sb_report_free(&r.report);
    sb_loaded_result_free(&r.loaded);
    sb_check_free(&r.check);
    sb_loaded_free(&r.list);
    sb_waivers_free(&r.waivers);
    sb_sequences_free(r.sequences, r.sequence_count);
    free(r.path);
    free(r.against);
    free(r.target);
    return status;
}

/* --- the command line ------------------------------------------------------------------------- */

static const char about[] =
    "Finds out from its files alone whether a checkpoint is intact: what is wrong, where, what\n"
    "engines do with such files, and what to do. Nothing is repaired; nothing is downloaded\n"
    "without --remote.\n"
    "\n"
    "CKPT and ORIGINAL are a folder, a safetensors file, or a hub id (org/name, org/name@revision)\n"
    "that is in the local cache. Names, shapes and configuration are checked first, then every\n"
    "byte is read once. --headers stops before the bytes; --sample N reads those of N layers and\n"
    "tensors. With --remote both also take an id or an address that is not here\n"
    "(docs/howto/remote.md). With --against the original that CKPT was\n"
    "made from, every code is compared with the weight that it stands for. --loaded compares what an engine\n"
    "says it holds in memory (tools/record/params.py records a PyTorch model). --run lets the MTP\n"
    "head draft along N tokens: of the model's own, or of a file.\n"
    "\n"
    "CKPT may also be the folder of an EAGLE-3 drafter. With --drafter DIR, the drafter in DIR is\n"
    "checked, and whether it fits CKPT: states, vocabulary, embedding (docs/check/drafter.md).";

static const char more[] =
    "Levels: FATAL an engine must refuse the file; ERROR refuse it unless you know better (a waiver);\n"
    "WARN look at it; INFO worth knowing. Verdict and exit status: PASS 0, FAIL 1 (FATAL or ERROR\n"
    "left after waivers, a need not met, an engine that holds other values), wrong use 2, nothing\n"
    "can be opened 3, MISTRUSTED 4 (none of the wanted checks, or not --run, could be made; or\n"
    "--need mtp --run N is UNKNOWN).\n"
    "\n"
    "waivers, one a line, the reason is required, FATAL cannot be waived:\n"
    "  fp4-saturation  *.layers.0.mlp.*  # calibrated on purpose, see the model card\n"
    "\n"
    "examples:\n"
    "  samebit check Qwen3.5-35B-A3B-NVFP4 --headers                 seconds: is anything missing?\n"
    "  samebit check org/name --headers --remote                     before a download: a few MB\n"
    "  samebit check org/name --sample 40 --remote                   and values of 40 of its layers\n"
    "  samebit check ./my-nvfp4 --against Qwen/Qwen3.5-35B-A3B       every weight, from the cache\n"
    "  samebit check ./my-nvfp4 --need mtp                           may I turn speculation on?\n"
    "  samebit check ./my-nvfp4 --need mtp --run 256 --against ORIG  does it draft well?\n"
    "  samebit check ./my-nvfp4 --only 15,16,fp4-nearest --json      some checks, for a program\n"
    "  samebit check ./my-nvfp4 --loaded engine.json                 does the engine hold the same?\n"
    "  samebit check ./my-nvfp4 --drafter ./eagle3                   is this drafter sound, and for it?\n";

sb_status sb_cmd_check(int argc, char **argv, sb_error *err)
{
    wishes w = {0};
    const sb_opt opts[] = {
        {"against", 0, SB_OPT_INPUT, &w.against, "ORIGINAL", "the checkpoint it was made from"},
        {"drafter", 0, SB_OPT_INPUT, &w.drafter, "DIR",
         "check the EAGLE-3 drafter in DIR, with CKPT as its target"},
        {"overlay", 0, SB_OPT_REPEATED, &w.overlays, "PATTERN=DIR",
         "check CKPT as if the matching modules of DIR were grafted; repeatable"},
        {"need", 0, SB_OPT_STRING, &w.need, "mtp", "fail unless the MTP head can be used"},
        {"for", 0, SB_OPT_STRING, &w.engine_name, "ENGINE",
         "only show known faults of this engine's loader: vllm, sglang, llamacpp, mlx, ..."},
        {"run", 0, SB_OPT_NUMBER, &w.positions, "N",
         "run the MTP head along N tokens (its own without a text): does it draft well?"},
        SB_PROMPT_OPTS(&w.from, "the text of --run"),
        {"headers", 0, SB_OPT_FLAG, &w.headers, NULL, "names, shapes and configuration only"},
        {"sample", 0, SB_OPT_NUMBER, &w.sample, "N",
         "read the values of at most N layers and tensors, of each kind one first"},
        SB_OPT_REMOTE(&w.remote),
        {"no-hashes", 0, SB_OPT_FLAG, &w.no_hashes, NULL,
         "do not compare files with the hashes of the hub"},
        {"only", 0, SB_OPT_STRING, &w.only, "LIST",
         "make only these checks: numbers or ids, with commas"},
        {"skip", 0, SB_OPT_STRING, &w.skip, "LIST", "make all checks but these"},
        {"waivers", 0, SB_OPT_INPUT, &w.waivers, "FILE",
         "file of findings to waive, each with a reason"},
        {"loaded", 0, SB_OPT_INPUT, &w.loaded, "LIST",
         "compare with the parameters that an engine holds: a list, samebit-loaded 1"},
        {"threads", 0, SB_OPT_NUMBER, &w.threads, "T",
         "number of threads; never changes a finding"},
        {"io", 0, SB_OPT_STRING, &w.io, "WAY",
         "how files are read: auto, map, pread, direct; never changes a finding"},
        SB_OPT_JSON(&w.as_json),
        {"junit", 0, SB_OPT_OUTPUT, &w.junit, "FILE",
         "also write JUnit XML: a test case per check"},
        {"sarif", 0, SB_OPT_OUTPUT, &w.sarif, "FILE",
         "also write SARIF, for the findings page of a code host"},
        {"markdown", 0, SB_OPT_OUTPUT, &w.markdown, "FILE",
         "also write a summary, for a CI job or an issue"},
        {"badge", 0, SB_OPT_OUTPUT, &w.badge, "FILE",
         "write the verdict as an SVG picture, or FILE.json for shields.io"},
        {"html", 0, SB_OPT_OUTPUT, &w.html, "FILE",
         "also write a page for a browser (docs/report.md)"},
        {"image", 0, SB_OPT_OUTPUT, &w.image, "FILE",
         "write the verdict and a map of the folder as an SVG picture, for the page of a model"},
        {"list", 0, SB_OPT_FLAG, &w.list, NULL, "list all checks: number, id, worst level, needs"},
        {"quiet", 'q', SB_OPT_FLAG, &w.quiet, NULL, "print the closing line only"},
        {"verbose", 'v', SB_OPT_FLAG, &w.verbose, NULL,
         "print every finding, and the checks that passed"},
    };
    sb_command_line line = {.usage = "check CKPT [--against ORIGINAL | --drafter DIR] [options]",
                            .about = about,
                            .opts = opts,
                            .opt_count = sizeof opts / sizeof *opts,
                            .more = more,
                            .min_operands = 0,
                            .max_operands = 1};
    sb_status status = sb_parse(&line, argc, argv, err);
    if (status || line.helped)
        return status;
    if (!w.list && line.operands == 0)
        return sb_fail(err, SB_ERR_USAGE, "found 0 operands; usage: samebit %s", line.usage);
    w.path = line.operand[0];
    w.arguments = (const char *const *)argv;
    w.argument_count = (size_t)argc;
    status = choose(&w, err);
    if (status)
        return status;
    if (w.list)
        return list_checks(w.as_json, err);
    sb_set_threads((unsigned)w.threads);
    if (w.headers)
        sb_stubs_allow();
    return check_all(&w, err);
}
