/* cmd_replay.c - samebit replay: runs one op of a replay bundle again and compares with the
 * recorded output. */
#include <stdio.h>

#include "gpu/gpu.h"
#include "ref/base/bytes.h"
#include "ref/container/json.h"
#include "ref/container/map.h"
#include "ref/container/show.h"
#include "ref/run/backend.h"
#include "tools/cli/cli.h"
#include "tools/cli/diff_side.h"
#include "tools/cli/opts.h"
#include "tools/report/part/document.h"
#include "tools/report/part/tar.h"
#include "tools/report/result/replay.h"

/* error / bound; -1 if the error is not 0 and the bound is 0, if the quotient overflows, or if a
 * value is NaN. */
static double ratio_of(float recorded, float own, double bound)
{
    double error = (double)recorded - (double)own;
    error = error < 0.0 ? -error : error;
    if (error == 0.0)
        return 0.0;
    double ratio = error > 0.0 && bound > 0.0 ? error / bound : -1.0;
    return ratio <= 0x1.fffffffffffffp1023 ? ratio : -1.0;
}

static void judge_values(sb_replay_document *r)
{
    const sb_bundle *b = r->bundle;
    size_t identical = 0;
    r->count = b->rows * b->cols;
    for (size_t i = 0; i < r->count; i++) {
        double ratio = ratio_of(r->found[i], b->out[i], b->bound[i]);
        int outside = !(ratio >= 0.0 && ratio <= 1.0);
        if (outside && !r->outside)
            r->first = i;
        else if (!r->outside && ratio > r->worst)
            r->first = i;
        r->outside += (size_t)outside;
        r->infinite = r->infinite || ratio < 0.0;
        r->worst = ratio > r->worst ? ratio : r->worst;
        r->changed += (size_t)(sb_bits_f32(b->out[i]) != sb_bits_f32(b->expected[i]));
        identical += (size_t)(r->found[i] == b->out[i]);
    }
    r->verdict = r->outside              ? SB_VERDICT_FAIL
                 : identical == r->count ? SB_VERDICT_IDENTICAL
                                         : SB_VERDICT_WITHIN;
}

static sb_status conclude(const sb_replay_document *r, const char *path, sb_error *err)
{
    if (r->changed)
        return sb_fail(err, SB_ERR_DIFF,
                       "%s: the reference has changed since the bundle was written", SB_SHOW(path));
    if (r->verdict != SB_VERDICT_FAIL)
        return SB_OK;
    if (r->backend)
        return sb_fail(err, SB_ERR_DIFF, "%s: values of %s are outside their bound", SB_SHOW(path),
                       SB_SHOW(r->backend));
    return sb_fail(err, SB_ERR_DIFF, "%s: recorded values are outside their bound", SB_SHOW(path));
}

/* other: a second copy of the bundle for the backend, or NULL. */
static sb_status replay(sb_bundle *b, sb_bundle *other, sb_side *backend, const char *path,
                        int as_json, sb_error *err)
{
    sb_replay_document r = {.bundle = b, .found = b->recorded};
    sb_status status = sb_bundle_run(b, &sb_backend_ref()->ops, NULL, NULL);
    if (!status && other) {
        const sb_backend *by = backend->runner.backend;
        r.backend = backend->spec;
        r.found = other->out;
        status = sb_bundle_run(other, &by->ops, backend->has_fault ? sb_plant_hook : NULL,
                               &backend->plant);
    }
    if (status)
        return sb_fail(err, status, "%s: op %s failed", SB_SHOW(path), b->op_name);
    if (other)
        sb_bundle_align(b->output, b->out, other->out, b->rows, b->cols);
    judge_values(&r);
    if (as_json)
        status = sb_print_document(sb_replay_json(&r), err);
    else
        sb_replay_print(&r);
    return status ? status : conclude(&r, path, err);
}

/* Fails. The message lists the pack's members, and the reason from the pack's document why there is
 * no replay bundle. */
static sb_status no_bundle(const sb_map *map, const char *path, sb_error *err)
{
    char names[400];
    sb_tar_member report;
    json_t *document = NULL;
    sb_status status = sb_tar_find(map->data, map->size, path, "report.json", &report, err);
    if (!status)
        (void)sb_json_parse_rich((const char *)report.bytes, report.count, path, &document, err);
    const char *why =
        json_string_value(json_object_get(json_object_get(document, "bundle"), "missing"));
    sb_tar_names(map->data, map->size, names, sizeof names);
    status = sb_fail(err, SB_ERR_INPUT,
                     "%s: the pack has no replay.safetensors%s%s; the members are: %s",
                     SB_SHOW(path), why ? ", for " : "", why ? SB_SHOW(why) : "", SB_SHOW(names));
    json_decref(document);
    return status;
}

/* A bundle, or a pack that has one. */
static sb_status open_bundle(const char *path, const sb_map *map, sb_bundle **out, sb_error *err)
{
    sb_tar_member inside;
    if (!sb_tar_is(map->data, map->size))
        return sb_bundle_open(path, out, err);
    sb_status status = sb_tar_find(map->data, map->size, path, "replay.safetensors", &inside, err);
    return status ? no_bundle(map, path, err)
                  : sb_bundle_parse(inside.bytes, inside.count, path, out, err);
}

static sb_status replay_file(const char *path, sb_side *backend, int as_json, sb_error *err)
{
    sb_map map = {NULL, 0};
    sb_bundle *b = NULL, *other = NULL;
    sb_status status = sb_map_open(path, &map, err);
    if (!status)
        status = open_bundle(path, &map, &b, err);
    if (!status && backend->spec)
        status = sb_gpu_check_memory(backend->runner.backend, map.size, err);
    if (!status && backend->spec)
        status = open_bundle(path, &map, &other, err);
    if (!status)
        status = replay(b, other, backend, path, as_json, err);
    sb_gpu_forget(backend->runner.backend);
    sb_bundle_free(b);
    sb_bundle_free(other);
    sb_map_close(&map);
    return status;
}

/* An engine of this program that runs ops. */
static sb_status find_backend(const char *name, sb_side *out, sb_error *err)
{
    const sb_dumped none = {0};
    if (!sb_side_is_live(name))
        return sb_fail(
            err, SB_ERR_USAGE,
            "--backend is '%s'; expected ref or sim:NAME, optionally followed by +MISTAKE",
            SB_SHOW(name));
    return sb_side_open(name, &none, out, err);
}

sb_status sb_cmd_replay(int argc, char **argv, sb_error *err)
{
    int as_json = 0;
    const char *name = NULL;
    sb_side backend = {.spec = NULL};
    const sb_opt opts[] = {
        {"backend", 0, SB_OPT_INPUT, &name, "E", "judge the output of E: ref, sim:NAME[+MISTAKE]"},
        SB_OPT_JSON(&as_json),
    };
    sb_command_line line = {
        .usage = "replay FILE [--backend E] [--json]",
        .about =
            "Repeats the one op of a replay bundle (diff --bundle, alone or in a pack). The file holds\n"
            "the op's inputs, its part of the parameters, state and knobs. Prints whether the reference\n"
            "still gives the expected values of the bundle, and whether each recorded value of the\n"
            "engine lies within its bound; with --backend, the values of that engine of this\n"
            "program are judged instead. Exit status 1: one of the two checks fails.",
        .opts = opts,
        .opt_count = sizeof opts / sizeof *opts,
        .min_operands = 1,
        .max_operands = 1};
    sb_status status = sb_parse(&line, argc, argv, err);
    if (status || line.helped)
        return status;
    if (name)
        status = find_backend(name, &backend, err);
    if (!status)
        status = replay_file(line.operand[0], &backend, as_json, err);
    sb_side_close(&backend);
    return status;
}
