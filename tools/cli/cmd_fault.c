/* cmd_fault.c - samebit fault: plants faults and reports which were caught. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ref/container/show.h"
#include "ref/container/target.h"
#include "tools/cli/cli.h"
#include "tools/cli/opts.h"
#include "tools/judge/fault/sensitivity.h"
#include "tools/report/part/document.h"

typedef struct fault_request {
    int list, all, json, quiet, sensitivity, levels;
    const char *write;
    uint64_t tokens, seed, threads, elements, part;
    sb_repeated names;
    sb_target target; /* of --write */
} fault_request;

typedef struct fault_report {
    const fault_request *request;
    json_t *survivors, *alarms;
} fault_report;

static const char *signs_text(const sb_signs *signs)
{
    static char text[SB_SIGNS * 41];
    size_t n = 0;
    text[0] = '\0';
    for (size_t i = 0; i < signs->count; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", i ? " " : "", signs->name[i]);
    return text;
}

/* The results of other projects' criteria, a letter each. */
static const char *peers_text(const sb_finding_of_fault *f)
{
    static char text[SB_PEERS + 1];
    for (int p = 0; p < SB_PEERS; p++)
        text[p] = "-x"[f->peers[p] != 0];
    return f->has_peers ? text : "    ";
}

static void print_finding(const sb_finding_of_fault *f)
{
    const char *name = f->fault ? f->fault->name : f->name;
    printf("%-11s %-34s %s  %s\n", sb_fault_result_name(f->result), name, peers_text(f),
           f->result == SB_FAULT_SKIPPED ? f->place : signs_text(&f->signs));
    if (f->result == SB_FAULT_SURVIVED || f->result == SB_FAULT_MISPLACED ||
        f->result == SB_FAULT_ALARM)
        printf("            expected %s%s%s; first: %s\n", f->fault ? f->fault->fires : "nothing",
               f->fault && *f->fault->quiet ? ", quiet " : "", f->fault ? f->fault->quiet : "",
               *f->place ? f->place : "nothing");
    else if (!f->fault && sb_sign_has(&f->signs, "mistrusted"))
        printf("            %s\n", f->place);
    fflush(stdout);
}

static void found(void *ctx, const sb_finding_of_fault *f)
{
    fault_report *r = ctx;
    const char *name = f->fault ? f->fault->name : f->name;
    int good = f->result == SB_FAULT_CAUGHT || f->result == SB_FAULT_PASSED ||
               f->result == SB_FAULT_SKIPPED;
    if (f->result == SB_FAULT_ALARM)
        json_array_append_new(r->alarms, json_string(name));
    else if (!good)
        json_array_append_new(r->survivors,
                              json_pack("{s:s,s:s,s:s}", "name", name, "result",
                                        sb_fault_result_name(f->result), "first", f->place));
    if (!r->request->json && (!r->request->quiet || !good))
        print_finding(f);
}

static int wanted(const sb_fault *f, size_t index, const fault_request *r)
{
    if (r->write)
        return strcmp(f->name, r->names.item[0]) == 0;
    for (size_t i = 0; i < r->names.count; i++)
        if (sb_fault_matches(f, r->names.item[i]))
            return 1;
    /* without names: faults from incidents, and a few of each generated kind */
    int generated = strncmp(f->name, "op.", 3) == 0 || strncmp(f->name, "kernel.", 7) == 0 ||
                    strncmp(f->name, "at.", 3) == 0 || strncmp(f->name, "sound.", 6) == 0 ||
                    strncmp(f->name, "draw.", 5) == 0 || strncmp(f->name, "drafter.", 8) == 0;
    return !r->names.count && (r->all || !generated || index % 8 == 0);
}

/* The name "clean" stands for the correct engines without a fault. */
static sb_status check_names(const sb_faults *faults, const sb_repeated *names, sb_error *err)
{
    for (size_t n = 0; n < names->count; n++) {
        size_t i = 0;
        while (i < faults->count && !sb_fault_matches(&faults->items[i], names->item[n]))
            i++;
        if (i == faults->count && strcmp(names->item[n], "clean") != 0)
            return sb_fail(err, SB_ERR_USAGE, "there is no fault %s; see samebit fault --list",
                           names->item[n]);
    }
    return SB_OK;
}

/* Checks --write and begins its folder. */
static sb_status check_write(const sb_faults *faults, fault_request *r, sb_error *err)
{
    struct stat info;
    size_t i = 0;
    while (r->names.count == 1 && i < faults->count && !wanted(&faults->items[i], i, r))
        i++;
    if (r->names.count != 1 || i == faults->count || sb_fault_why_not(&faults->items[i]))
        return sb_fail(err, SB_ERR_USAGE,
                       "--write takes exactly one fault, by its full name, and the fault must be "
                       "one that can be planted here; see samebit fault --list");
    sb_status status = sb_target_open(r->write, &r->target, err);
    if (status)
        return status;
    if (strlen(r->target.partial) > 500)
        return sb_fail(err, SB_ERR_USAGE, "--write: the path is longer than 492 bytes");
    if (lstat(r->target.place, &info) == 0)
        return sb_fail(err, SB_ERR_USAGE, "%s: exists; expected a folder that does not exist yet",
                       SB_SHOW(r->write));
    return sb_target_begin(&r->target, NULL, err);
}

/* Lists what was written, whether the fault was caught or not. */
static void print_written(const fault_request *r)
{
    static const char *const names[] = {"checkpoint", "engine", "trace/trace.json"};
    static const char *const what[] = {
        "the sound checkpoint", "the checkpoint that the engine reads", "what the engine recorded"};
    char path[700];
    int have[3];
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", r->write, names[i]);
        have[i] = access(path, F_OK) == 0;
        if (have[i])
            printf("%s/%.10s: %s\n", SB_SHOW(r->write), i == 2 ? "trace" : names[i], what[i]);
    }
    if (have[2])
        printf("samebit diff %s/checkpoint --engine %s/trace\n", SB_SHOW(r->write),
               SB_SHOW(r->write));
}

/* Moves the complete folder to its place. Returns the status of the campaign, or a failure. */
static sb_status end_write(fault_request *r, sb_status campaign, sb_error *err)
{
    sb_error why;
    sb_status status = sb_target_commit(&r->target, 0, NULL, &why);
    if (status)
        *err = why;
    else if (!r->json)
        print_written(r);
    return status ? status : campaign;
}

static sb_status list_json(const sb_faults *faults, sb_error *err)
{
    json_t *document = sb_document("fault"), *rows = json_array();
    for (size_t i = 0; i < faults->count; i++) {
        const sb_fault *f = &faults->items[i];
        json_array_append_new(rows, json_pack("{s:s,s:s,s:b,s:s,s:s,s:s}", "name", f->name, "plant",
                                              sb_fault_plant_name(f->plant), "must_pass", f->benign,
                                              "fires", f->benign ? "" : f->fires, "words", f->words,
                                              "origin", f->origin));
    }
    json_object_set_new(document, "faults", rows);
    return sb_print_document(document, err);
}

static void print_list(const sb_faults *faults)
{
    for (size_t i = 0; i < faults->count; i++) {
        const sb_fault *f = &faults->items[i];
        printf("%-28s %-10s %-34s %s%s%s%s\n", f->name, sb_fault_plant_name(f->plant),
               f->benign ? "(must pass)" : f->fires, f->words, *f->origin ? " [" : "", f->origin,
               *f->origin ? "]" : "");
    }
    printf("%zu faults\n", faults->count);
}

static json_t *kinds_json(const sb_score *s)
{
    json_t *kinds = json_array();
    for (size_t i = 0; i < s->kind_count; i++) {
        const sb_clean_kind *k = &s->kinds[i];
        json_array_append_new(
            kinds, json_pack("{s:s,s:s,s:I,s:I,s:I,s:I}", "axis", k->axis, "name", k->name, "runs",
                             (json_int_t)k->runs, "tokens", (json_int_t)k->tokens, "false_alarms",
                             (json_int_t)k->false_alarms, "mistrusted", (json_int_t)k->mistrusted));
    }
    return kinds;
}

static void print_kinds(const sb_score *s)
{
    if (s->kind_count)
        printf("\n%-9s %-22s %6s %8s %12s %10s\n", "correct", "engine", "runs", "tokens",
               "false alarms", "mistrusted");
    for (size_t i = 0; i < s->kind_count; i++) {
        const sb_clean_kind *k = &s->kinds[i];
        printf("%-9s %-22s %6zu %8llu %12zu %10zu\n", k->axis, k->name, k->runs,
               (unsigned long long)k->tokens, k->false_alarms, k->mistrusted);
    }
}

/* The rows of the table after those of plants. The last two kinds of plants are never run. */
enum { ROW_ALL = SB_PLANT_none, ROW_CORRECT = SB_PLANT_covered, LEVEL_ROWS };
static const char *const row_words[LEVEL_ROWS] = {
    [SB_PLANT_op] = "generated, in one op",
    [SB_PLANT_special] = "incidents, in one op",
    [SB_PLANT_mistake] = "mistakes, in one op",
    [SB_PLANT_slip] = "slips between calls",
    [SB_PLANT_hit] = "hits of a prefix cache",
    [SB_PLANT_knob] = "rounding points of another engine",
    [SB_PLANT_edit] = "in a checkpoint",
    [SB_PLANT_file] = "in a file, seen by check",
    [SB_PLANT_trace] = "in a trace",
    [SB_PLANT_kernel] = "in a kernel",
    [SB_PLANT_feed] = "another token fed",
    [SB_PLANT_self] = "the reference in disguise",
    [SB_PLANT_engine] = "an op of another engine",
    [SB_PLANT_draw] = "draws of a sampler",
    [ROW_ALL] = "all",
    [ROW_CORRECT] = "correct engines",
};

/* A row of the table by levels: the kinds of faults, all of them, and correct engines. */
static sb_level_score levels_of(const sb_score *s, int row)
{
    sb_level_score sum = {.planted = 0};
    if (row == ROW_CORRECT)
        return s->correct;
    for (int plant = 0; plant < ROW_ALL; plant++)
        if (row == plant || row == ROW_ALL) {
            sum.planted += s->levels[plant].planted;
            for (unsigned level = 0; level < SB_TRACE_VIEWS; level++)
                sum.failed[level] += s->levels[plant].failed[level];
        }
    return sum;
}

static json_t *levels_json(const sb_score *s)
{
    json_t *rows = json_array();
    for (int i = 0; i < LEVEL_ROWS; i++) {
        const sb_level_score row = levels_of(s, i);
        json_t *failed = json_array();
        for (unsigned level = 0; level < SB_TRACE_VIEWS; level++)
            json_array_append_new(failed, json_integer((json_int_t)row.failed[level]));
        json_array_append_new(rows, json_pack("{s:s,s:I,s:o}", "planted", row_words[i], "count",
                                              (json_int_t)row.planted, "failed", failed));
    }
    return rows;
}

/* The table of docs/faults.md. */
static void print_levels(const sb_score *s)
{
    printf("\n| planted | runs |");
    for (unsigned view = 0; view < SB_TRACE_VIEWS; view++)
        printf(" %s |", sb_view_name(view));
    printf("\n|---|---|");
    for (unsigned view = 0; view < SB_TRACE_VIEWS; view++)
        printf("---|");
    printf("\n");
    for (int i = 0; i < LEVEL_ROWS; i++) {
        const sb_level_score row = levels_of(s, i);
        if (!row.planted)
            continue;
        printf("| %s | %zu |", row_words[i], row.planted);
        for (unsigned level = 0; level < SB_TRACE_VIEWS; level++)
            printf(" %zu |", row.failed[level]);
        printf("\n");
    }
}

static sb_status report(const fault_request *r, const sb_score *s, fault_report *out, sb_error *err)
{
    if (r->json) {
        json_t *document = sb_document("fault");
        json_t *peers = json_object();
        for (int p = 0; p < SB_PEERS; p++)
            json_object_set_new(peers, sb_peer_name((sb_peer)p),
                                json_pack("{s:I,s:I}", "caught", (json_int_t)s->peers_caught[p],
                                          "false_alarms", (json_int_t)s->peers_alarms[p]));
        json_object_set_new(document, "planted", json_integer((json_int_t)s->planted));
        json_object_set_new(document, "caught", json_integer((json_int_t)s->caught));
        json_object_set(document, "survivors", out->survivors);
        json_object_set_new(document, "misplaced", json_integer((json_int_t)s->misplaced));
        json_object_set_new(document, "skipped", json_integer((json_int_t)s->skipped));
        json_object_set_new(document, "false_alarms", json_integer((json_int_t)s->false_alarms));
        json_object_set(document, "false_alarm_names", out->alarms);
        json_object_set_new(document, "clean_tokens", json_integer((json_int_t)s->clean_tokens));
        json_object_set_new(document, "mistrusted", json_integer((json_int_t)s->mistrusted));
        json_object_set_new(document, "kinds", kinds_json(s));
        if (r->levels)
            json_object_set_new(document, "levels", levels_json(s));
        json_object_set_new(document, "peers", peers);
        return sb_print_document(document, err);
    }
    printf("\n%zu planted: %zu caught, %zu survived, %zu misplaced; %zu not planted here\n"
           "%zu correct engines, %llu tokens: %zu false alarms, %zu mistrusted\n\n"
           "criterion        caught of %-5zu  false alarms of %zu\n",
           s->planted, s->caught, s->survived, s->misplaced, s->skipped, s->benign,
           (unsigned long long)s->clean_tokens, s->false_alarms, s->mistrusted, s->peers_faults,
           s->peers_clean);
    for (int p = 0; p < SB_PEERS; p++)
        printf("%-16s %-16zu %zu\n", sb_peer_name((sb_peer)p), s->peers_caught[p],
               s->peers_alarms[p]);
    printf("%-16s %-16zu %zu\n", "samebit", s->caught, s->false_alarms);
    print_kinds(s);
    if (r->levels)
        print_levels(s);
    return SB_OK;
}

/* Makes a temporary folder for checkpoints. */
static sb_status make_folder(char folder[512], sb_error *err)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(folder, 512, "%.400s/samebit-fault-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    return mkdtemp(folder) ? SB_OK
                           : sb_fail(err, SB_ERR_IO, "%s: cannot create this folder", folder);
}

static void print_curve(const sb_sensitivity *s, json_t *rows, int json)
{
    json_t *named = json_array();
    for (size_t i = 0; i < SB_SENSITIVITY_STEPS; i++)
        json_array_append_new(named, json_integer((json_int_t)s->named[i]));
    json_array_append_new(rows, json_pack("{s:s,s:s,s:I,s:I,s:o}", "op", s->op, "tap", s->tap,
                                          "elements", (json_int_t)s->elements, "exact",
                                          (json_int_t)s->exact, "named", named));
    if (json)
        return;
    printf("| %s | %zu | %zu | %.1e |", s->op, s->elements, s->exact, s->bound);
    for (size_t i = 0; i < SB_SENSITIVITY_STEPS; i++)
        printf(" %zu |", s->named[i]);
    printf("\n");
    fflush(stdout);
}

/* The detection curve, op by op. Each fault of at least twice its bound must be named. */
static sb_status curve(const fault_request *r, sb_campaign *c, sb_error *err)
{
    json_t *document = sb_document("fault"), *rows = json_array();
    size_t missed = 0;
    int more = 1;
    sb_status status = SB_OK;
    if (!r->json)
        printf("| op | elements | exact | largest bound | 0.5 | 1 | 1.5 | 2 | 5 | 10 | 100 |\n"
               "|---|---|---|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; more && !status; i++) {
        sb_sensitivity s;
        status = sb_sensitivity_of(c, i, (size_t)r->elements, r->seed, &s, &more, err);
        if (status || !more)
            continue;
        print_curve(&s, rows, r->json);
        for (size_t step = 0; step < SB_SENSITIVITY_STEPS; step++)
            if (sb_sensitivity_steps[step] >= 2)
                missed += s.elements - s.exact - s.named[step];
    }
    json_object_set_new(document, "sensitivity", rows);
    if (!status && r->json)
        status = sb_print_document(json_incref(document), err);
    json_decref(document);
    return status || !missed
               ? status
               : sb_fail(err, SB_ERR_DIFF,
                         "%zu faults of at least twice their bound were not named", missed);
}

/* Runs the selected faults and the correct engines, then computes the score. */
static sb_status plant_all(const fault_request *r, const sb_faults *faults, sb_campaign *c,
                           fault_report *out, sb_error *err)
{
    sb_status status = SB_OK;
    for (size_t i = 0; i < faults->count && !status; i++)
        if (wanted(&faults->items[i], i, r)) {
            status = sb_campaign_fault(c, &faults->items[i], err);
            sb_progress(NULL, "fault", i + 1, faults->count);
        }
    if (!status && r->tokens)
        status = sb_campaign_clean(c, r->tokens, (uint32_t)r->part, err);
    const sb_score *s = sb_campaign_score(c);
    if (!status)
        status = report(r, s, out, err);
    if (!status && (s->survived || s->misplaced || s->false_alarms))
        status = sb_fail(err, SB_ERR_DIFF, "%zu survivors, %zu misplaced, %zu false alarms",
                         s->survived, s->misplaced, s->false_alarms);
    return status;
}

static sb_status campaign(const fault_request *r, const sb_faults *faults, sb_error *err)
{
    char made[512] = "";
    const char *folder = r->write ? r->target.partial : made;
    fault_report out = {.request = r, .survivors = json_array(), .alarms = json_array()};
    sb_campaign *c = NULL;
    sb_status status = r->write ? SB_OK : make_folder(made, err);
    int own = !status && !r->write;
    if (!status)
        status = sb_campaign_new(&(sb_campaign_options){.folder = folder,
                                                        .keep = r->write != NULL,
                                                        .levels = r->levels,
                                                        .seed = r->seed,
                                                        .found = found,
                                                        .found_ctx = &out},
                                 &c, err);
    if (!status)
        status = r->sensitivity ? curve(r, c, err) : plant_all(r, faults, c, &out, err);
    sb_campaign_free(c);
    if (own)
        rmdir(folder);
    json_decref(out.survivors);
    json_decref(out.alarms);
    return status;
}

sb_status sb_cmd_fault(int argc, char **argv, sb_error *err)
{
    fault_request r = {.tokens = 400, .seed = 42, .elements = 2, .target = {.fd = -1}};
    const sb_opt opts[] = {
        {"list", 0, SB_OPT_FLAG, &r.list, NULL,
         "list the faults, and the checks that must name each"},
        {"all", 0, SB_OPT_FLAG, &r.all, NULL,
         "plant every fault of ops, places and kernels; default: one in eight"},
        {"tokens", 0, SB_OPT_NUMBER, &r.tokens, "N", "tokens of correct engines (400)"},
        {"levels", 0, SB_OPT_FLAG, &r.levels, NULL,
         "also count the faults that a trace of each level alone would catch"},
        {"part", 0, SB_OPT_NUMBER, &r.part, "P",
         "part P of the runs of correct engines; parts share no run (0)"},
        {"sensitivity", 0, SB_OPT_FLAG, &r.sensitivity, NULL,
         "measure the smallest named error of a single element"},
        {"elements", 0, SB_OPT_NUMBER, &r.elements, "N", "elements per op, for --sensitivity (2)"},
        {"seed", 0, SB_OPT_NUMBER, &r.seed, "S", "seed of tokens and noise (42)"},
        {"threads", 0, SB_OPT_NUMBER, &r.threads, "T", "number of threads; 0: one per core"},
        {"write", 0, SB_OPT_OUTPUT, &r.write, "DIR",
         "for one NAME: write checkpoint and trace to DIR, for samebit diff"},
        {"quiet", 0, SB_OPT_FLAG, &r.quiet, NULL, "print unexpected results only"},
        SB_OPT_JSON(&r.json),
    };
    sb_command_line line = {
        .usage = "fault [NAME...] [--list] [--all] [--tokens N] [options]",
        .about =
            "Plants faults in engines of this program, in checkpoints and in traces, and compares\n"
            "them with the reference: each fault must be named by its own check and by no other.\n"
            "Correct engines must pass. NAME: F08, op.linear.sign, op.rope.*, clean (at most "
            "four).",
        .opts = opts,
        .opt_count = sizeof opts / sizeof *opts,
        .max_operands = 4,
        .names = 1};
    sb_faults faults = {.count = 0};
    sb_status status = sb_parse(&line, argc, argv, err);
    if (status || line.helped)
        return status;
    for (unsigned i = 0; i < line.operands && r.names.count < SB_MAX_REPEATS; i++)
        r.names.item[r.names.count++] = line.operand[i];
    sb_set_threads((unsigned)r.threads);
    status = sb_faults_list(&faults, err);
    if (!status)
        status = check_names(&faults, &r.names, err);
    if (!status && r.write && !r.list)
        status = check_write(&faults, &r, err);
    if (r.write)
        r.tokens = 0;
    if (!status && r.part > UINT32_MAX)
        status = sb_fail(err, SB_ERR_USAGE, "--part: expected at most %u", UINT32_MAX);
    if (!status && r.list && r.json)
        status = list_json(&faults, err);
    else if (!status && r.list)
        print_list(&faults);
    else if (!status)
        status = campaign(&r, &faults, err);
    if (r.write && !r.list && (!status || status == SB_ERR_DIFF))
        status = end_write(&r, status, err);
    sb_target_close(&r.target);
    sb_faults_free(&faults);
    return status;
}
