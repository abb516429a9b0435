#include "tools/report/diff/jsonl.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/json_out.h"
#include "ref/container/show.h"

/* The lists of the document, and the name of a line of each. */
static const struct {
    const char *key, *type;
} lists[] = {{"tokens", "token"},
             {"rounds", "round"},
             {"hits", "hit"},
             {"ops", "op"},
             {"explanations", "explanation"},
             {"pairs", "pair"}};

/* Keys of the last line, not of the first. */
static const char *const sums[] = {"verdict",  "reason",       "note",       "meaning", "near_ties",
                                   "failures", "skipped_taps", "statistics", "right"};

static int is_sum(const char *key)
{
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
        if (strcmp(sums[i], key) == 0)
            return 1;
    return 0;
}

static json_t *new_line(const char *type, size_t engine)
{
    return json_pack("{s:s,s:s}", "type", type, "of", engine ? "versus" : "engine");
}

/* Prints and frees a line; 0 if memory is out. */
static int print_line(FILE *out, json_t *line)
{
    int good = line && sb_json_dumpf(line, out, JSON_COMPACT);
    json_decref(line);
    fputc('\n', out);
    return good;
}

/* Appends the members of an object to a line. */
static json_t *with_members(json_t *line, const json_t *members)
{
    if (line && json_object_update(line, (json_t *)(uintptr_t)members) == 0)
        return line;
    json_decref(line);
    return NULL;
}

static json_t *arguments_of(const sb_diff_reports *r)
{
    json_t *list = json_array();
    for (size_t i = 0; i < r->argument_count; i++) {
        char *clean = sb_strdup(r->arguments[i]);
        if (clean)
            sb_clean_text(clean);
        int failed = !clean || json_array_append_new(list, json_string(clean)) != 0;
        free(clean);
        if (failed) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* The names of the entries of "layers". */
static json_t *layers_of(const sb_diff_report *r)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < r->layers && list; i++)
        json_array_append_new(list, json_integer(i));
    if (json_array_append_new(list, json_string("mtp.0")) == 0 &&
        json_array_append_new(list, json_null()) == 0)
        return list;
    json_decref(list);
    return NULL;
}

/* O-5: "a head, then a line for each", and a summary, so that a truncated file is noticed. */
static int print_head(FILE *out, const sb_diff_lines *l, const json_t *document, size_t engine)
{
    const char *key;
    json_t *value, *line = new_line("head", engine);
    int failed = !line;
    json_object_foreach((json_t *)(uintptr_t)document, key, value)
    {
        if (!json_is_array(value) && !json_is_object(value) && !is_sum(key) &&
            strcmp(key, "first_failure") != 0)
            failed |= json_object_set(line, key, value) != 0;
    }
    failed |= json_object_set(line, "notes", json_object_get(document, "notes")) != 0;
    if (l->reports->item[engine].verdicts->cells.rows)
        failed |= json_object_set_new(line, "layers", layers_of(&l->reports->item[engine])) != 0;
    failed |= json_object_set_new(line, "arguments", arguments_of(l->reports)) != 0;
    if (*l->reports->digest)
        failed |= json_object_set_new(line, "digest", json_string(l->reports->digest)) != 0;
    return print_line(out, line) && !failed;
}

static int print_sums(FILE *out, const json_t *document, size_t engine)
{
    json_t *line = new_line("summary", engine);
    int failed = !line;
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) {
        json_t *value = json_object_get(document, sums[i]);
        if (value)
            failed |= json_object_set(line, sums[i], value) != 0;
    }
    return print_line(out, line) && !failed;
}

/* The largest error / bound of each layer in this token; null if nothing was compared. */
static json_t *cells_json(const sb_cells *c, size_t token)
{
    json_t *list = json_array();
    for (size_t i = 0; i < c->layers && list; i++) {
        float x = c->worst[token * c->layers + i];
        json_t *value = x < 0 ? json_null() : json_real((double)x);
        if (json_array_append_new(list, value) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}

static int print_items(FILE *out, const json_t *list, const char *type, size_t engine,
                       const sb_cells *cells)
{
    int good = 1;
    for (size_t i = 0; i < json_array_size(list) && good; i++) {
        json_t *line = with_members(new_line(type, engine), json_array_get(list, i));
        if (line && cells && i < cells->rows)
            good = json_object_set_new(line, "layers", cells_json(cells, i)) == 0;
        good = print_line(out, line) && good;
    }
    return good;
}

static int print_engine(FILE *out, const sb_diff_lines *l, const json_t *document, size_t engine)
{
    const sb_cells *cells = &l->reports->item[engine].verdicts->cells;
    const json_t *failure = json_object_get(document, "first_failure");
    int good = print_head(out, l, document, engine);
    for (size_t i = 0; i < sizeof lists / sizeof *lists && good; i++)
        good = print_items(out, json_object_get(document, lists[i].key), lists[i].type, engine,
                           strcmp(lists[i].type, "token") == 0 ? cells : NULL);
    if (good && json_is_object(failure))
        good = print_line(out, with_members(new_line("first_failure", engine), failure));
    return good && print_sums(out, document, engine);
}

int sb_diff_jsonl(FILE *out, const void *lines)
{
    const sb_diff_lines *l = lines;
    const json_t *versus = json_object_get(l->document, "versus");
    int good = print_engine(out, l, l->document, 0);
    if (good && l->reports->count > 1)
        good = print_engine(out, l, versus, 1);
    return good;
}
