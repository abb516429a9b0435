/* cmd_replay.c - samebit replay: one op of a replay bundle, run again and held against what was
 * recorded. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/container/map.h"
#include "ref/container/show.h"
#include "ref/run/backend.h"
#include "tools/cli/cli.h"
#include "tools/cli/opts.h"
#include "tools/compare/bundle.h"
#include "tools/report/tar.h"

typedef struct result {
    size_t count, outside, changed;
    size_t first; /* element that is outside, else the one nearest to its bound */
    double worst; /* error / bound of it, largest */
    int infinite; /* ... outside a bound of 0, or no number */
    sb_verdict verdict;
} result;

/* error / bound; -1 where the bound is 0 and the error is not, or where one is no number. */
static double ratio_of(float recorded, float own, double bound)
{
    double error = (double)recorded - (double)own;
    error = error < 0.0 ? -error : error;
    if (error == 0.0)
        return 0.0;
    return error > 0.0 && bound > 0.0 ? error / bound : -1.0;
}

static result judge(const sb_bundle *b)
{
    result r = {.count = b->rows * b->cols};
    size_t identical = 0;
    for (size_t i = 0; i < r.count; i++) {
        double ratio = ratio_of(b->recorded[i], b->out[i], b->bound[i]);
        int outside = !(ratio >= 0.0 && ratio <= 1.0);
        if (outside && !r.outside)
            r.first = i;
        else if (!r.outside && ratio > r.worst)
            r.first = i;
        r.outside += (size_t)outside;
        r.infinite = r.infinite || ratio < 0.0;
        r.worst = ratio > r.worst ? ratio : r.worst;
        r.changed += (size_t)(sb_bits_f32(b->out[i]) != sb_bits_f32(b->expected[i]));
        identical += (size_t)(b->recorded[i] == b->out[i]);
    }
    r.verdict = r.outside              ? SB_VERDICT_FAIL
                : identical == r.count ? SB_VERDICT_IDENTICAL
                                       : SB_VERDICT_WITHIN;
    return r;
}

static void print_text(const sb_bundle *b, const result *r)
{
    printf("%s: op %s, ", b->name, b->op_name);
    if (b->layer != SB_NO_LAYER)
        printf("layer %u, ", (unsigned)b->layer);
    printf("sequence %" PRIu64 ", token %" PRIu64 "; output %s, %zu x %zu, arithmetic %s\n",
           b->sequence, b->token, b->output, b->rows, b->cols, b->arithmetic);
    printf("recorded in the bundle: %s\n", b->words);
    if (r->changed)
        printf("the reference gives other values than the bundle expects: %zu of %zu\n", r->changed,
               r->count);
    else
        printf("the reference gives the %zu values that the bundle expects, bit for bit\n",
               r->count);
    printf("%s: %zu of %zu elements outside their bound", sb_verdict_name(r->verdict), r->outside,
           r->count);
    if (!r->infinite)
        printf(", worst %.3g of it", r->worst);
    printf("; row %zu, column %zu is %.9g, expected %.9g within %.3g\n", r->first / b->cols,
           r->first % b->cols, (double)b->recorded[r->first], (double)b->out[r->first],
           b->bound[r->first]);
}

static sb_status print_json(const sb_bundle *b, const result *r, sb_error *err)
{
    json_t *d = sb_document("replay");
    int bad = d == NULL;
    if (d) {
        bad |= json_object_set_new(d, "op", json_string(b->op_name));
        bad |= json_object_set_new(d, "name", json_string(b->name));
        bad |= json_object_set_new(d, "layer",
                                   b->layer == SB_NO_LAYER ? json_null() : json_integer(b->layer));
        bad |= json_object_set_new(d, "sequence", json_integer((json_int_t)b->sequence));
        bad |= json_object_set_new(d, "token", json_integer((json_int_t)b->token));
        bad |= json_object_set_new(d, "output", json_string(b->output));
        bad |= json_object_set_new(d, "elements", json_integer((json_int_t)r->count));
        bad |= json_object_set_new(d, "outside", json_integer((json_int_t)r->outside));
        bad |= json_object_set_new(d, "changed", json_integer((json_int_t)r->changed));
        bad |= json_object_set_new(d, "row", json_integer((json_int_t)(r->first / b->cols)));
        bad |= json_object_set_new(d, "column", json_integer((json_int_t)(r->first % b->cols)));
        bad |= json_object_set_new(d, "worst", r->infinite ? json_null() : json_real(r->worst));
        bad |= json_object_set_new(d, "verdict", json_string(sb_verdict_name(r->verdict)));
    }
    if (bad) {
        json_decref(d);
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a document");
    }
    return sb_print_document(d, err);
}

static sb_status replay(sb_bundle *b, const char *path, int as_json, sb_error *err)
{
    sb_status status;
    status = sb_bundle_run(b, &sb_backend_ref()->ops);
    if (status)
        sb_fail(err, status, "%s: op %s failed", SB_SHOW(path), b->op_name);
    result r = {.count = 0};
    if (!status) {
        r = judge(b);
        if (as_json)
            status = print_json(b, &r, err);
        else
            print_text(b, &r);
    }
    if (!status && (r.verdict == SB_VERDICT_FAIL || r.changed))
        status = sb_fail(err, SB_ERR_DIFF,
                         r.changed ? "%s: the reference has changed"
                                   : "%s: recorded values are outside their bound",
                         SB_SHOW(path));
    return status;
}

/* A bundle, or a pack that has one. */
static sb_status replay_file(const char *path, int as_json, sb_error *err)
{
    sb_map map = {NULL, 0};
    sb_bundle *b = NULL;
    sb_tar_member inside;
    sb_status status = sb_map_open(path, &map, err);
    int packed = !status && sb_tar_is(map.data, map.size);
    if (packed)
        status = sb_tar_find(map.data, map.size, path, "replay.safetensors", &inside, err);
    if (!status)
        status = packed ? sb_bundle_parse(inside.bytes, inside.count, path, &b, err)
                        : sb_bundle_open(path, &b, err);
    if (!status)
        status = replay(b, path, as_json, err);
    sb_bundle_free(b);
    sb_map_close(&map);
    return status;
}

sb_status sb_cmd_replay(int argc, char **argv, sb_error *err)
{
    int as_json = 0;
    const sb_opt opts[] = {
        {"json", 0, SB_OPT_FLAG, &as_json, NULL, "one JSON document"},
    };
    sb_command_line line = {
        .usage = "replay FILE [--json]",
        .about =
            "Runs the one op of a replay bundle (diff --bundle, alone or in a pack) again: its\n"
            "inputs, its part of the parameters, state and knobs are in the file. Says whether the "
            "reference still\n"
            "gives what the bundle expects, and whether what the engine recorded lies within\n"
            "the bound of each element. Exit status 1: one of the two does not.",
        .opts = opts,
        .opt_count = sizeof opts / sizeof *opts,
        .min_operands = 1,
        .max_operands = 1};
    sb_status status = sb_parse(&line, argc, argv, err);
    if (status || line.helped)
        return status;
    return replay_file(line.operand[0], as_json, err);
}
