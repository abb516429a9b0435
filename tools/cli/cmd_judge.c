/* cmd_judge.c - samebit judge: compares a kernel's output with test vectors. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/text.h"
#include "ref/container/file.h"
#include "ref/container/json_out.h"
#include "ref/container/show.h"
#include "ref/container/target.h"
#include "tools/cli/cli.h"
#include "tools/report/result/judge.h"
#include "tools/cli/opts.h"
#include "tools/cli/protocol.h"
#include "tools/report/part/document.h"

/* --- pairs of files --------------------------------------------------------------------------- */

typedef struct pair {
    char *name, *file, *got;
} pair;

typedef struct pairs {
    pair *item;
    size_t count, room;
} pairs;

static void free_pairs(pairs *p)
{
    for (size_t i = 0; i < p->count; i++) {
        free(p->item[i].name);
        free(p->item[i].file);
        free(p->item[i].got);
    }
    free(p->item);
}

static sb_status add_pair(pairs *p, char *name, char *file, char *got, sb_error *err)
{
    pair *grown = sb_grow(p->item, p->count, &p->room, sizeof *grown);
    p->item = grown ? grown : p->item;
    if (!grown || !name || !file || !got) {
        free(name);
        free(file);
        free(got);
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for names of files");
    }
    grown[p->count++] = (pair){name, file, got};
    return SB_OK;
}

static int by_name(const void *left, const void *right)
{
    const pair *a = left, *b = right;
    return strcmp(a->name, b->name);
}

/* Lists all *.safetensors of a folder, and the files of the same names in `got`. */
static sb_status list_folder(const char *folder, const char *got, pairs *p, sb_error *err)
{
    /* C-9: "`judge` refuses a folder whose name ends in `.partial` or `.replaced`" */
    if (sb_target_is_passing(folder))
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: by its name this folder is one that samebit vectors did not finish, or "
                       "one that it replaced: cases may be missing",
                       SB_SHOW(folder));
    DIR *dir = opendir(folder);
    sb_status status = SB_OK;
    if (!dir)
        return sb_fail(err, SB_ERR_IO, "%s: the folder cannot be read", SB_SHOW(folder));
    for (struct dirent *e = readdir(dir); e && !status; e = readdir(dir))
        if (e->d_name[0] != '.' && sb_ends(e->d_name, ".safetensors"))
            status = add_pair(p, sb_strdup(e->d_name), sb_path_join(folder, e->d_name),
                              sb_path_join(got, e->d_name), err);
    closedir(dir);
    if (!status && !p->count)
        status = sb_fail(err, SB_ERR_SKIPPED, "%s: MISTRUSTED: no *.safetensors, nothing to judge",
                         SB_SHOW(folder));
    if (p->count)
        qsort(p->item, p->count, sizeof *p->item, by_name);
    return status;
}

static sb_status list_pairs(const char *file, const char *got, pairs *p, sb_error *err)
{
    if (sb_is_folder(file) != sb_is_folder(got))
        return sb_fail(err, SB_ERR_USAGE, "%s is %s, and %s is %s; expected two files or folders",
                       SB_SHOW(file), sb_is_folder(file) ? "a folder" : "a file", SB_SHOW(got),
                       sb_is_folder(got) ? "a folder" : "a file");
    if (sb_is_folder(file))
        return list_folder(file, got, p, err);
    return add_pair(p, sb_strdup(sb_path_last(file)), sb_strdup(file), sb_strdup(got), err);
}

/* --- the run ---------------------------------------------------------------------------------- */

typedef struct wishes {
    sb_gate_wish gate;
    const char *baseline, *junit, *html, *file, *got;
    const char *const *arguments; /* the command line */
    size_t argument_count;
    int same_bits, metamorphic, as_json;
} wishes;

/* A refusal of a single pair ends the command; in a folder the other cases are still judged. */
static sb_status judge_pairs(const wishes *w, const pairs *p, sb_gate_judged *cases, sb_error *err)
{
    for (size_t i = 0; i < p->count; i++) {
        sb_error why = {{0}};
        sb_status status = sb_gate_judged_open(&w->gate, p->item[i].name, p->item[i].file,
                                               p->item[i].got, &cases[i], &why);
        if (status == SB_ERR_USAGE || status == SB_ERR_MEMORY || (status && p->count == 1)) {
            *err = why;
            return status;
        }
        cases[i].refused = status;
        cases[i].why = why;
    }
    return SB_OK;
}

/* --- the end ---------------------------------------------------------------------------------- */

static sb_verdict heaviest(const sb_gate_judged *cases, size_t count)
{
    sb_verdict worst = SB_VERDICT_none;
    for (size_t i = 0; i < count; i++)
        worst = sb_verdict_worse(worst, cases[i].c ? (sb_verdict)cases[i].result.verdict
                                                   : SB_VERDICT_SKIPPED);
    return worst;
}

static sb_status conclude(const wishes *w, const sb_judge_report *r, sb_error *err)
{
    const sb_gate_judged *refused = NULL, *failed = NULL;
    size_t fails = 0;
    for (size_t i = 0; i < r->count; i++) {
        const sb_gate_judged *j = &r->cases[i];
        refused = !j->c && !refused ? j : refused;
        failed = j->c && j->result.verdict == (int)r->verdict && !failed ? j : failed;
        fails += j->c && j->result.verdict == SB_VERDICT_FAIL;
    }
    if (fails)
        return sb_fail(err, SB_ERR_DIFF, "FAIL: %s: %.700s%s", SB_SHOW(failed->name),
                       failed->result.words, fails > 1 ? "; and others" : "");
    if (r->change && r->change->worse)
        return sb_fail(err, SB_ERR_DIFF, "FAIL: worse than %s", SB_SHOW(r->baseline));
    if (r->change && r->change->changed && w->same_bits)
        return sb_fail(err, SB_ERR_DIFF, "FAIL: --same-bits: %zu output%s from %s",
                       r->change->changed, r->change->changed == 1 ? " differs" : "s differ",
                       SB_SHOW(r->baseline));
    if (refused)
        return sb_fail(err, refused->refused, "%s: %.900s", SB_SHOW(refused->name),
                       refused->why.text);
    if (r->verdict == SB_VERDICT_MISTRUSTED)
        return sb_fail(err, SB_ERR_SKIPPED, "MISTRUSTED: %s: %.700s", SB_SHOW(failed->name),
                       failed->result.words);
    return SB_OK;
}

/* Compares the JSON document with the baseline, even if the document is not printed. */
static sb_status compare(sb_judge_report *r, sb_judge_change *change, sb_error *err)
{
    json_t *before = NULL, *now = sb_judge_json(r);
    sb_status status =
        sb_json_lost() ? sb_fail(err, SB_ERR_MEMORY, "out of memory for a document") : SB_OK;
    if (!status)
        status = sb_judge_baseline_load(r->baseline, &before, err);
    if (!status)
        status = sb_judge_baseline_compare(before, now, r->baseline, change, err);
    if (!status)
        r->change = change;
    json_decref(before);
    json_decref(now);
    return status;
}

/* A report without cases. */
static sb_judge_report begin(const wishes *w)
{
    return (sb_judge_report){.baseline = w->baseline,
                             .same_bits = w->same_bits,
                             .file = w->file,
                             .got = w->got,
                             .arguments = w->arguments,
                             .argument_count = w->argument_count};
}

static sb_status report(const wishes *w, const sb_gate_judged *cases, size_t count, sb_error *err)
{
    sb_judge_change change = {.rows = NULL};
    sb_judge_report r = begin(w);
    r.cases = cases;
    r.count = count;
    r.verdict = heaviest(cases, count);
    sb_status status = w->baseline ? compare(&r, &change, err) : SB_OK;
    if (!status && w->junit)
        status = sb_judge_junit(&r, w->junit, err);
    if (!status && w->html)
        status = sb_judge_html(&r, w->html, err);
    if (!status && w->as_json)
        status = sb_print_document(sb_judge_json(&r), err);
    else if (!status)
        sb_judge_text(&r, stdout);
    if (!status)
        status = conclude(w, &r, err);
    sb_judge_change_free(&change);
    return status;
}

static sb_status judge_all(const wishes *w, sb_error *err)
{
    pairs p = {NULL, 0, 0};
    sb_status status = list_pairs(w->file, w->got, &p, err);
    sb_gate_judged *cases = sb_alloc(p.count, sizeof *cases);
    if (!status && !cases)
        status = sb_fail(err, SB_ERR_MEMORY, "out of memory for %zu cases", p.count);
    if (!status)
        status = judge_pairs(w, &p, cases, err);
    if (!status)
        status = report(w, cases, p.count, err);
    for (size_t i = 0; cases && i < p.count; i++)
        sb_gate_judged_close(&cases[i]);
    free(cases);
    free_pairs(&p);
    return status;
}

/* --- the metamorphic gate --------------------------------------------------------------------- */

static sb_status judge_meta(const wishes *w, sb_error *err)
{
    sb_gate_meta meta;
    sb_status status = sb_gate_meta_judge(w->file, w->got, &meta, err);
    if (!status && w->junit)
        status = sb_judge_meta_junit(&meta, w->junit, err);
    if (!status && w->html) {
        const sb_judge_report r = begin(w);
        status = sb_judge_meta_html(&meta, &r, w->html, err);
    }
    if (!status && w->as_json)
        status = sb_print_document(sb_judge_meta_json(&meta), err);
    else if (!status)
        sb_judge_meta_text(&meta, stdout);
    if (!status && meta.verdict == SB_VERDICT_FAIL)
        status = sb_fail(err, SB_ERR_DIFF, "FAIL: %.900s", meta.words);
    if (!status && meta.verdict == SB_VERDICT_MISTRUSTED)
        status = sb_fail(err, SB_ERR_SKIPPED, "MISTRUSTED: %.900s", meta.words);
    return status;
}

/* --- the command line ------------------------------------------------------------------------- */

static const char about[] =
    "Says whether the output of a kernel is right. F is a file of `samebit vectors`. GOT has the kernel's\n"
    "output as the tensor `out` (F32, BF16, F16 or F64; whole numbers for codes and ids), and further\n"
    "outputs as `out.NAME`. Every element is compared with a bound that is derived for it. Only the inputs\n"
    "of F are used. F and GOT may be folders with files of the same names.\n"
    "\n"
    "Without --arith the arithmetic is the tightest one of the table under which GOT passes: it shows\n"
    "what your kernel rounds. The report also shows which planted mistakes would be found with these "
    "inputs.";

static const char more[] =
    "Exit status: 0 it passes, 1 FAIL (or worse than the baseline), 2 wrong use, 3 a file is refused,\n"
    "4 MISTRUSTED: nothing was compared, or the inputs could not have shown a mistake.\n"
    "\n"
    "examples:\n"
    "  samebit vectors linear --format nvfp4-ct --arith bf16_mma -o v.safetensors\n"
    "  samebit judge v.safetensors got.safetensors --arith bf16_mma\n"
    "  samebit judge vectors/ outputs/ --arith bf16_mma --junit report.xml\n"
    "  samebit judge v.safetensors got.safetensors --json > main.json      # on the main branch\n"
    "  samebit judge v.safetensors got.safetensors --baseline main.json    # on yours\n"
    "  samebit vectors linear --metamorphic -o batches/\n"
    "  samebit judge --metamorphic batches/ outputs/\n";

sb_status sb_cmd_judge(int argc, char **argv, sb_error *err)
{
    wishes w = {.gate = {NULL, NULL}};
    const sb_opt opts[] = {
        {"arith", 0, SB_OPT_STRING, &w.gate.arith, "A",
         "what the kernel may do: exact, fp32, bf16_mma, fp32:cuda_fast, fp32@256 (chunks), ..., "
         "with +bf16 or +f16"},
        {"need", 0, SB_OPT_STRING, &w.gate.need, "NAME",
         "fail unless GOT has the output out.NAME; all: every output"},
        {"baseline", 0, SB_OPT_INPUT, &w.baseline, "JSON",
         "print what changed since an earlier --json; fail if it is worse"},
        {"same-bits", 0, SB_OPT_FLAG, &w.same_bits, NULL,
         "with --baseline: fail if any bit changed"},
        {"metamorphic", 0, SB_OPT_FLAG, &w.metamorphic, NULL,
         "F is a folder of samebit vectors --metamorphic: same bits in every batch?"},
        SB_OPT_JSON(&w.as_json),
        {"junit", 0, SB_OPT_OUTPUT, &w.junit, "FILE", "also write JUnit XML: a test case per file"},
        {"html", 0, SB_OPT_OUTPUT, &w.html, "FILE", "also write a page for a browser"},
    };
    sb_command_line line = {.usage = "judge F GOT [--arith A] [options]",
                            .about = about,
                            .opts = opts,
                            .opt_count = sizeof opts / sizeof *opts,
                            .more = more,
                            .min_operands = 2,
                            .max_operands = 2};
    sb_status status = sb_parse(&line, argc, argv, err);
    if (status || line.helped)
        return status;
    w.file = line.operand[0];
    w.got = line.operand[1];
    w.arguments = (const char *const *)argv;
    w.argument_count = (size_t)argc;
    if (w.same_bits && !w.baseline)
        return sb_fail(err, SB_ERR_USAGE, "--same-bits needs --baseline");
    if (w.metamorphic && (w.gate.arith || w.gate.need || w.baseline))
        return sb_fail(err, SB_ERR_USAGE, "--metamorphic excludes --arith, --need and --baseline");
    if (w.metamorphic)
        return judge_meta(&w, err);
    if (!sb_is_folder(w.file) && sb_protocol_file(w.file)) {
        if (w.gate.need || w.baseline || w.junit || w.html)
            return sb_fail(
                err, SB_ERR_USAGE,
                "a protocol is judged as a whole; its only options are --arith and --json");
        return sb_protocol_verdict(w.file, w.got, w.gate.arith, w.as_json, err);
    }
    return judge_all(&w, err);
}
