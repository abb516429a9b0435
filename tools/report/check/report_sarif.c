/* report_sarif.c - the report as SARIF 2.1.0, which code hosts show beside the files of a
 * repository. */
#include <stdlib.h>
#include <string.h>

#include "ref/samebit.h"
#include "tools/report/check/report.h"
#include "tools/report/part/print.h"

static const char *level_of(sb_level level)
{
    return level >= SB_LEVEL_error ? "error" : level == SB_LEVEL_warn ? "warning" : "note";
}

/* One rule for each check; its index is the number of the check less 1. */
static json_t *rules(void)
{
    json_t *out = json_array();
    for (unsigned i = 1; i <= SB_CHECK_LAST; i++) {
        const sb_check_row *row = sb_check_row_of(i);
        json_array_append_new(out,
                              json_pack("{s:s,s:{s:s},s:{s:s},s:{s:s},s:{s:s}}", "id", row->id,
                                        "shortDescription", "text", row->title, "fullDescription",
                                        "text", row->engines, "help", "text", row->advice,
                                        "defaultConfiguration", "level", level_of(row->worst)));
    }
    return out;
}

/* The place of a finding: the file of its tensor, else config.json, below the path of the command
 * line. */
static json_t *location(const sb_report *r, const sb_finding *f)
{
    const sb_checkpoint *c = r->check->self.checkpoint;
    const sb_tensor *t = c && *f->tensor ? sb_checkpoint_find(c, f->tensor) : NULL;
    const char *file = t ? sb_checkpoint_shard_name(c, t->shard) : "config.json";
    size_t bytes = strlen(r->path) + strlen(file) + 2;
    char *path = malloc(bytes);
    if (!path)
        return NULL;
    snprintf(path, bytes, "%s/%s", r->path, file);
    json_t *out = json_pack("{s:{s:{s:o}}}", "physicalLocation", "artifactLocation", "uri",
                            sb_report_string(path));
    free(path);
    if (*f->tensor)
        json_object_set_new(out, "logicalLocations",
                            json_pack("[{s:o,s:s}]", "fullyQualifiedName",
                                      sb_report_string(f->tensor), "kind", "member"));
    return out;
}

static json_t *result(const sb_report *r, const sb_finding *f)
{
    const sb_check_row *row = sb_check_row_of(f->check);
    json_t *out = json_pack("{s:s,s:i,s:s,s:{s:o},s:[o]}", "ruleId", row->id, "ruleIndex",
                            (int)f->check - 1, "level", level_of(f->level), "message", "text",
                            sb_report_string(f->message), "locations", location(r, f));
    if (out && f->waived)
        json_object_set_new(out, "suppressions",
                            json_pack("[{s:s,s:o}]", "kind", "external", "justification",
                                      sb_report_string(r->waivers->rows[f->waived - 1].why)));
    return out;
}

static json_t *document(const sb_report *r)
{
    json_t *results = json_array();
    int failed = !results;
    for (size_t i = 0; i < r->check->findings.count && !failed; i++)
        failed = json_array_append_new(results, result(r, &r->check->findings.rows[i])) != 0;
    if (failed) {
        json_decref(results);
        return NULL;
    }
    return json_pack("{s:s,s:s,s:[{s:{s:{s:s,s:s,s:o}},s:o,s:{s:s}}]}", "$schema",
                     "https://json.schemastore.org/sarif-2.1.0.json", "version", "2.1.0", "runs",
                     "tool", "driver", "name", "samebit check", "version", SAMEBIT_VERSION, "rules",
                     rules(), "results", results, "properties", "verdict",
                     sb_check_verdict_name(r->verdict));
}

static int print_sarif(FILE *out, const void *ctx)
{
    json_t *d = document(ctx);
    int failed = !d || json_dumpf(d, out, JSON_INDENT(2)) != 0;
    json_decref(d);
    fputc('\n', out);
    return !failed;
}

sb_status sb_report_sarif(const sb_report *r, const char *path, sb_error *err)
{
    return sb_print_file(path, print_sarif, r, "SARIF report", err);
}
