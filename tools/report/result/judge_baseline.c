#include "tools/report/result/judge_baseline.h"

#include <stdio.h>
#include <string.h>

#include "ref/container/json.h"
#include "ref/container/show.h"
#include "tools/report/part/document.h"

/* --- the earlier document --------------------------------------------------------------------- */

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static sb_status wrong(const char *file, const char *what, sb_error *err)
{
    return sb_fail(err, SB_ERR_INPUT, "%s: %s; expected the output of samebit judge --json",
                   SB_SHOW(file), what);
}

/* Checks that all members read by the comparison exist and have their types. */
static sb_status check_case(const json_t *d, const char *file, sb_error *err)
{
    const json_t *outputs = json_object_get(d, "outputs");
    if (!text_of(d, "name") || !text_of(d, "verdict"))
        return wrong(file, "a case lacks its name or verdict", err);
    if (outputs && (!json_is_array(outputs) || !text_of(d, "inputs")))
        return wrong(file, "the outputs of a case are not a list, or its inputs have no digest",
                     err);
    for (size_t i = 0; i < json_array_size(outputs); i++)
        if (!text_of(json_array_get(outputs, i), "name"))
            return wrong(file, "an output has no name", err);
    return SB_OK;
}

static sb_status check(const json_t *d, const char *file, sb_error *err)
{
    const char *command = text_of(d, "command");
    const json_t *cases = json_object_get(d, "cases");
    if (!command || strcmp(command, "judge") != 0 || !json_is_array(cases))
        return wrong(file, "no list of cases", err);
    sb_status status = SB_OK;
    for (size_t i = 0; i < json_array_size(cases) && !status; i++)
        status = check_case(json_array_get(cases, i), file, err);
    return status;
}

static sb_status checked(sb_status status, const char *file, json_t **out, sb_error *err)
{
    if (!status)
        status = check(*out, file, err);
    if (status) {
        json_decref(*out);
        *out = NULL;
    }
    return status;
}

sb_status sb_judge_baseline_load(const char *path, json_t **out, sb_error *err)
{
    *out = NULL;
    return checked(sb_json_load(path, out, err), path, out, err);
}

sb_status sb_judge_baseline_parse(const char *text, size_t size, const char *file, json_t **out,
                                  sb_error *err)
{
    *out = NULL;
    return checked(sb_json_parse(text, size, file, out, err), file, out, err);
}

/* --- the comparison --------------------------------------------------------------------------- */

static const json_t *named(const json_t *list, const char *name)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        if (strcmp(text_of(item, "name"), name) == 0)
            return item;
    }
    return NULL;
}

static int passes(const json_t *d)
{
    const char *verdict = text_of(d, "verdict");
    return strcmp(verdict, "FAIL") != 0 && strcmp(verdict, "MISTRUSTED") != 0 &&
           strcmp(verdict, "SKIPPED") != 0;
}

static sb_status say(sb_judge_change *c, const char *name, int worse, const char *what)
{
    json_t *row = json_object();
    SB_PUT(row, "name", name);
    SB_PUT(row, "worse", json_boolean(worse));
    SB_PUT(row, "what", what);
    return row && json_array_append_new(c->rows, row) == 0 ? SB_OK : SB_ERR_MEMORY;
}

/* "3 of 9 rows, the first is 4"; empty if a document has no rows. */
static void rows_text(const json_t *before, const json_t *now, char *out, size_t size)
{
    const json_t *a = json_object_get(before, "rows"), *b = json_object_get(now, "rows");
    size_t count = json_array_size(b), changed = 0, first = 0;
    *out = '\0';
    if (count == 0 || json_array_size(a) != count)
        return;
    for (size_t i = 0; i < count; i++) {
        if (json_equal(json_array_get(a, i), json_array_get(b, i)))
            continue;
        first = changed++ ? first : i;
    }
    snprintf(out, size, ", at %zu of %zu indices of the first axis, first at %zu", changed, count,
             first);
}

static void worst_text(const json_t *d, char *out, size_t size)
{
    const json_t *worst = json_object_get(d, "worst");
    if (json_is_number(worst))
        snprintf(out, size, "%.3g", json_number_value(worst));
    else
        snprintf(out, size, "infinite");
}

static sb_status compare_output(const char *name, const json_t *before, const json_t *now,
                                sb_judge_change *c)
{
    const char *a = text_of(before, "digest"), *b = text_of(now, "digest");
    char what[400], rows[120], worst[2][32];
    if (a && b && strcmp(a, b) == 0)
        return SB_OK;
    if (!a && !b)
        return SB_OK;
    c->changed++;
    if (!a || !b) {
        snprintf(what, sizeof what, "%.80s is %s", text_of(now, "name"),
                 b ? "present now, but not before" : "missing now, but not before");
        return say(c, name, 0, what);
    }
    rows_text(before, now, rows, sizeof rows);
    worst_text(before, worst[0], sizeof worst[0]);
    worst_text(now, worst[1], sizeof worst[1]);
    snprintf(what, sizeof what, "%.80s: bits changed%s; worst error / bound %s, was %s",
             text_of(now, "name"), rows, worst[1], worst[0]);
    return say(c, name, 0, what);
}

static sb_status compare_case(const json_t *before, const json_t *now, const char *file,
                              sb_judge_change *c, sb_error *err)
{
    const char *name = text_of(now, "name");
    const char *a = text_of(before, "inputs"), *b = text_of(now, "inputs");
    if (a && b && strcmp(a, b) != 0)
        return sb_fail(err, SB_ERR_INPUT, "%s: case %s has different inputs in this run",
                       SB_SHOW(file), SB_SHOW(name));
    char what[200];
    sb_status status = SB_OK;
    int worse = passes(before) && !passes(now), better = !passes(before) && passes(now);
    c->worse += (size_t)worse;
    c->better += (size_t)better;
    snprintf(what, sizeof what, "verdict %.40s, was %.40s", text_of(now, "verdict"),
             text_of(before, "verdict"));
    if (strcmp(text_of(now, "verdict"), text_of(before, "verdict")) != 0)
        status = say(c, name, worse, what);
    const json_t *outputs = json_object_get(now, "outputs");
    for (size_t i = 0; i < json_array_size(outputs) && !status; i++) {
        const json_t *o = json_array_get(outputs, i);
        const json_t *old = named(json_object_get(before, "outputs"), text_of(o, "name"));
        status = compare_output(name, old, o, c);
    }
    return status == SB_ERR_MEMORY ? sb_fail(err, status, "out of memory for a comparison")
                                   : status;
}

sb_status sb_judge_baseline_compare(const json_t *before, const json_t *now, const char *file,
                                    sb_judge_change *out, sb_error *err)
{
    const json_t *old = json_object_get(before, "cases"), *new = json_object_get(now, "cases");
    *out = (sb_judge_change){.rows = json_array()};
    sb_status status = out->rows ? SB_OK : SB_ERR_MEMORY;
    for (size_t i = 0; i < json_array_size(new) && !status; i++) {
        const json_t *d = json_array_get(new, i);
        const json_t *was = named(old, text_of(d, "name"));
        status =
            was ? compare_case(was, d, file, out, err) : say(out, text_of(d, "name"), 0, "is new");
    }
    for (size_t i = 0; i < json_array_size(old) && !status; i++) {
        const char *name = text_of(json_array_get(old, i), "name");
        if (named(new, name))
            continue;
        out->worse++;
        status = say(out, name, 1, "is missing now");
    }
    if (status)
        sb_judge_change_free(out);
    return status;
}

void sb_judge_change_free(sb_judge_change *change)
{
    json_decref(change->rows);
    *change = (sb_judge_change){.rows = NULL};
}
