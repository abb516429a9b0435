/* cmd_hash.c - the manifest of a checkpoint, and its verification: G-5, D-5 to D-8. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/container/show.h"
#include "ref/container/stub.h"
#include "tools/cli/cli.h"
#include "tools/cli/opts.h"
#include "tools/cli/remote.h"
#include "tools/check/hash/headers.h"
#include "tools/check/hash/manifest.h"
#include "tools/report/part/document.h"

enum { SHOWN = 20 }; /* most differences listed individually */

/* Bytes of tensors, and then layers of values. */
static void show_progress(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    if (strcmp(what, "hashed") == 0)
        sb_progress_bytes(ctx, what, done, total);
    else
        sb_progress(ctx, what, done, total);
}

static sb_status make_manifest(const char *path, int values, sb_manifest *out, sb_error *err)
{
    sb_checkpoint *checkpoint = NULL;
    sb_status status = sb_checkpoint_open(path, &checkpoint, err);
    if (!status)
        status = sb_manifest_make(checkpoint, values, show_progress, out, err);
    sb_checkpoint_close(checkpoint);
    return status;
}

static sb_status print_manifest(const char *path, int values, int as_json, sb_error *err)
{
    sb_manifest m = {0};
    sb_status status = make_manifest(path, values, &m, err);
    if (!status && as_json)
        status = sb_print_document(sb_manifest_json(&m, sb_document("hash")), err);
    else if (!status)
        sb_manifest_print(&m, stdout);
    sb_manifest_free(&m);
    if (!status && fflush(stdout) != 0)
        status = sb_fail(err, SB_ERR_IO, "the manifest could not be written to stdout");
    return status;
}

static json_t *differences_json(const sb_differences *d)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < d->count; i++) {
        json_t *row = json_object();
        SB_PUT(row, "difference", sb_difference_name(&d->rows[i]));
        SB_PUT(row, "name", d->rows[i].name);
        SB_PUT(row, "what", d->rows[i].what);
        SB_ADD(rows, row);
    }
    return rows;
}

static void print_differences(const sb_differences *d)
{
    for (size_t i = 0; i < d->count && i < SHOWN; i++)
        printf("%-8s %s (%s)\n", sb_difference_name(&d->rows[i]), SB_SHOW(d->rows[i].name),
               d->rows[i].what);
    if (d->count > SHOWN)
        printf("and %zu more\n", d->count - SHOWN);
}

/* Sets a message with the first difference of each kind. */
static sb_status summary(const char *path, const sb_differences *d, sb_error *err)
{
    size_t count[3] = {0, 0, 0};
    const sb_difference *first[3] = {NULL, NULL, NULL};
    char text[900] = "";
    size_t used = 0;
    for (size_t i = 0; i < d->count; i++) {
        unsigned kind = (unsigned)d->rows[i].kind;
        if (count[kind]++ == 0)
            first[kind] = &d->rows[i];
    }
    for (unsigned k = 0; k < 3; k++)
        if (first[k])
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%zu %s, first %s (%s)",
                                     used ? "; " : "", count[k], sb_difference_name(first[k]),
                                     SB_SHOW(first[k]->name), first[k]->what);
    return d->count ? sb_fail(err, SB_ERR_DIFF, "%s: %s", SB_SHOW(path), text) : SB_OK;
}

static sb_status report(const sb_manifest *now, const char *path, const char *manifest,
                        const sb_differences *d, int as_json, sb_error *err)
{
    sb_status verdict = summary(path, d, err);
    if (!as_json) {
        if (!verdict)
            printf("IDENTICAL %s %s\n", path, manifest);
        print_differences(d);
        return verdict;
    }
    json_t *document = sb_document("hash");
    SB_PUT(document, "verdict", verdict ? "FAIL" : "IDENTICAL");
    SB_PUT(document, "checkpoint", now->checkpoint.hex);
    SB_PUT(document, "message", SB_KNOWN(verdict, err->text));
    SB_PUT(document, "differences", differences_json(d));
    sb_error why;
    sb_status printed = sb_print_document(document, &why);
    if (printed)
        *err = why; /* without the document there is no verdict */
    return printed ? printed : verdict;
}

static sb_status verify(const char *path, const char *manifest, int values, int as_json,
                        sb_error *err)
{
    sb_manifest then = {0}, now = {0};
    sb_differences differences = {0};
    sb_status status = sb_manifest_load(manifest, &then, err);
    if (!status && values && !then.has_values)
        status = sb_fail(err, SB_ERR_INPUT,
                         "%s: has no values to compare; it was written without --values",
                         SB_SHOW(manifest));
    if (!status)
        status = make_manifest(path, values, &now, err);
    if (!status)
        status = sb_manifest_compare(&now, &then, values, &differences, err);
    if (!status)
        status = report(&now, path, manifest, &differences, as_json, err);
    free(differences.rows);
    sb_manifest_free(&then);
    sb_manifest_free(&now);
    return status;
}

/* --headers: names, dtypes and shapes. */
static sb_status print_headers(const char *path, int as_json, sb_error *err)
{
    sb_checkpoint *checkpoint = NULL;
    sb_status status = sb_checkpoint_open(path, &checkpoint, err);
    json_t *document = !status && as_json ? sb_document("hash") : NULL;
    if (!status)
        status = as_json ? sb_headers_json(checkpoint, document, err)
                         : sb_headers_print(checkpoint, stdout, err);
    if (!status && as_json)
        status = sb_print_document(document, err);
    else
        json_decref(document);
    sb_checkpoint_close(checkpoint);
    return status;
}

sb_status sb_cmd_hash(int argc, char **argv, sb_error *err)
{
    int as_json = 0, values = 0, headers = 0;
    uint64_t threads = 0;
    const char *manifest = NULL;
    char *path = NULL; /* after a lookup in the hub's cache, or on a server */
    sb_remote_wish wish = {0};
    const sb_opt opts[] = {
        {"values", 0, SB_OPT_FLAG, &values, NULL,
         "also hash the values of layers: the same in every dialect"},
        {"headers", 0, SB_OPT_FLAG, &headers, NULL,
         "names, dtypes and shapes only, and a digest of these"},
        SB_OPT_REMOTE(&wish),
        {"verify", 0, SB_OPT_INPUT, &manifest, "FILE", "compare with a manifest, text or JSON"},
        {"threads", 0, SB_OPT_NUMBER, &threads, "T", "number of threads; never changes a digest"},
        SB_OPT_JSON(&as_json),
    };
    sb_command_line line = {
        .usage = "hash CKPT [--values] [--verify FILE | --headers [--remote]] [--json]",
        .about =
            "Prints a manifest: per tensor digest, dtype, shape and name, and the digest of the\n"
            "checkpoint, which shards and the order in files do not change. --values adds per\n"
            "linear layer a hash of codes, block scales and divisor that is the same in every\n"
            "dialect of one number format and for experts stacked or apart, and a hash of the\n"
            "values themselves, each rounded once. --verify compares: exit 1 names what differs,\n"
            "is missing or extra; with --values the layers by what they mean, and by their exact\n"
            "values within one dialect, and tensors only where they belong to no layer. --headers\n"
            "reads no data; with --remote, CKPT may then be a hub id or an address.",
        .opts = opts,
        .opt_count = sizeof opts / sizeof *opts,
        .more = "example:\n  samebit hash CKPT --values > manifest\n"
                "  samebit hash CKPT --values --verify manifest\n",
        .min_operands = 1,
        .max_operands = 1};
    sb_status status = sb_parse(&line, argc, argv, err);
    if (status || line.helped)
        return status;
    if (threads > 1024)
        return sb_fail(err, SB_ERR_USAGE, "--threads is %llu; at most 1024",
                       (unsigned long long)threads);
    if (headers && (values || manifest))
        return sb_fail(err, SB_ERR_USAGE, "--headers excludes --values and --verify");
    if (wish.remote && !headers)
        return sb_fail(err, SB_ERR_USAGE, "--remote reads only headers: it needs --headers");
    sb_set_threads((unsigned)threads);
    if (headers)
        sb_stubs_allow();
    status = sb_place_of(line.operand[0], &wish, &path, err);
    if (!status)
        status = headers    ? print_headers(path, as_json, err)
                 : manifest ? verify(path, manifest, values, as_json, err)
                            : print_manifest(path, values, as_json, err);
    free(path);
    return status;
}
