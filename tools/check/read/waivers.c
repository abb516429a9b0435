#include "tools/check/read/waivers.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/file.h"
#include "ref/container/show.h"
#include "ref/model/declared_pattern.h"

typedef struct span {
    const char *at;
    size_t n;
} span;

static int is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static span trim(span s)
{
    while (s.n && is_blank(s.at[0])) {
        s.at++;
        s.n--;
    }
    while (s.n && is_blank(s.at[s.n - 1]))
        s.n--;
    return s;
}

/* The first word; *rest is the text after it. */
static span word(span s, span *rest)
{
    span first = {s.at, 0};
    while (first.n < s.n && !is_blank(s.at[first.n]))
        first.n++;
    *rest = trim((span){s.at + first.n, s.n - first.n});
    return first;
}

static char *copy(span s)
{
    char *text = sb_alloc(s.n + 1, 1);
    if (text)
        memcpy(text, s.at, s.n);
    return text;
}

static sb_status no_memory(const char *file, sb_error *err)
{
    return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(file));
}

static sb_status add(sb_waivers *w, unsigned line, unsigned check, span glob, span why,
                     const char *file, sb_error *err)
{
    sb_waiver *grown = sb_grow(w->rows, w->count, &w->room, sizeof *grown);
    if (!grown)
        return no_memory(file, err);
    w->rows = grown;
    sb_waiver *row = &w->rows[w->count++];
    *row = (sb_waiver){.line = line, .check = check, .glob = copy(glob), .why = copy(why)};
    return row->glob && row->why ? SB_OK : no_memory(file, err);
}

/* The position of the reason. It starts at the first '#' after a blank, because names may contain
 * '#'. */
static size_t reason_at(span s)
{
    for (size_t i = 1; i < s.n; i++)
        if (s.at[i] == '#' && is_blank(s.at[i - 1]))
            return i;
    return s.n;
}

static sb_status parse_line(sb_waivers *w, unsigned number, span line, const char *file,
                            sb_error *err)
{
    char name[64] = "";
    span rest, tail;
    line = trim(line);
    if (line.n == 0 || line.at[0] == '#')
        return SB_OK;
    size_t hash = reason_at(line);
    span why = hash < line.n ? trim((span){line.at + hash + 1, line.n - hash - 1}) : (span){"", 0};
    span check = word(trim((span){line.at, hash}), &rest);
    span glob = word(rest, &tail);
    if (check.n < sizeof name)
        memcpy(name, check.at, check.n);
    unsigned which = sb_check_number(name);
    if (!which && strcmp(name, "loaded") != 0)
        return sb_fail(
            err, SB_ERR_INPUT,
            "%s:%u: '%s' is no check; expected a number or id of 'samebit check --list', "
            "or loaded",
            SB_SHOW(file), number, SB_SHOW(check.n < sizeof name ? name : "..."));
    if (glob.n == 0 || tail.n)
        return sb_fail(
            err, SB_ERR_INPUT, "%s:%u: %s; expected CHECK GLOB # WHY, with '*' for every tensor",
            SB_SHOW(file), number,
            glob.n ? "there is more than one pattern" : "the pattern for tensor names is missing");
    if (why.n == 0)
        return sb_fail(err, SB_ERR_INPUT,
                       "%s:%u: the reason is missing; expected '# why' after the pattern",
                       SB_SHOW(file), number);
    return add(w, number, which, glob, why, file, err);
}

sb_status sb_waivers_parse(const char *text, size_t n, const char *file, sb_waivers *out,
                           sb_error *err)
{
    unsigned number = 0;
    *out = (sb_waivers){0};
    for (size_t at = 0; at < n;) {
        const char *end = memchr(text + at, '\n', n - at);
        size_t length = end ? (size_t)(end - (text + at)) : n - at;
        number++;
        if (memchr(text + at, '\0', length))
            return sb_fail(err, SB_ERR_INPUT, "%s:%u: holds a NUL byte; expected a line of text",
                           SB_SHOW(file), number);
        sb_status status = parse_line(out, number, (span){text + at, length}, file, err);
        if (status)
            return status;
        at += length + 1;
    }
    return SB_OK;
}

sb_status sb_waivers_load(const char *path, sb_waivers *out, sb_error *err)
{
    unsigned char *bytes = NULL;
    size_t count = 0;
    *out = (sb_waivers){0};
    sb_status status = sb_read_file(path, SB_WAIVERS_MAX_BYTES, &bytes, &count, err);
    if (!status)
        status = sb_waivers_parse((const char *)bytes, count, path, out, err);
    free(bytes);
    return status;
}

void sb_waivers_free(sb_waivers *waivers)
{
    for (size_t i = 0; i < waivers->count; i++) {
        free(waivers->rows[i].glob);
        free(waivers->rows[i].why);
    }
    free(waivers->rows);
    *waivers = (sb_waivers){0};
}

/* 1 if a waiver covers a place: places are not counted. */
static int covers_place(const sb_waivers *waivers, const sb_finding *f)
{
    for (size_t i = 0; i < waivers->count && f->level != SB_LEVEL_fatal; i++)
        if (waivers->rows[i].check == f->check && sb_glob_matches(waivers->rows[i].glob, f->tensor))
            return 1;
    return 0;
}

int sb_waivers_cover(sb_waivers *waivers, unsigned check, sb_level level, const char *tensor)
{
    for (size_t i = 0; i < waivers->count && i < INT32_MAX; i++) {
        sb_waiver *row = &waivers->rows[i];
        if (row->check != check || !sb_glob_matches(row->glob, tensor))
            continue;
        if (level == SB_LEVEL_fatal) {
            row->fatal++;
            continue;
        }
        row->covered++;
        return (int)i + 1;
    }
    return 0;
}

void sb_waivers_apply(sb_waivers *waivers, sb_findings *findings)
{
    for (size_t i = 0; i < findings->count; i++) {
        sb_finding *f = &findings->rows[i];
        f->waived = sb_waivers_cover(waivers, f->check, f->level, f->tensor);
    }
    for (size_t i = 0; i < findings->place_count; i++)
        findings->places[i].waived = covers_place(waivers, &findings->places[i]);
}
