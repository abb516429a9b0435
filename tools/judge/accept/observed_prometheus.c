/* observed_prometheus.c - vLLM's counters in the text form of Prometheus: one series per line.
 *
 * Reads only the lines of the four counters and ignores other metrics. Series differ by their
 * labels; each may occur once. */
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/show.h"
#include "tools/judge/accept/observed_parts.h"

/* One series of a counter, as in the text. */
typedef struct series {
    unsigned metric;
    const char *labels; /* between the braces */
    size_t label_bytes;
    uint64_t value, position;
} series;

typedef struct reader {
    const char *file;
    size_t line;
    series *rows;
    size_t count, room;
} reader;

enum { ROUNDS, DRAFTED, ACCEPTED, BY_DEPTH, METRICS };

static const char *const metrics[METRICS] = {
    "vllm:spec_decode_num_drafts", "vllm:spec_decode_num_draft_tokens",
    "vllm:spec_decode_num_accepted_tokens", "vllm:spec_decode_num_accepted_tokens_per_pos"};

/* The value of a label, with its escapes. */
typedef struct label {
    const char *text;
    size_t bytes;
} label;

static sb_status bad(const reader *r, sb_error *err, const char *what)
{
    return sb_fail(err, SB_ERR_INPUT, "%s:%zu: %s", SB_SHOW(r->file), r->line, what);
}

static int is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* The counter of a name, with or without _total; METRICS: another metric. */
static unsigned metric_of(const char *name, size_t n)
{
    static const char total[] = "_total";
    size_t m = sizeof total - 1;
    if (n > m && memcmp(name + n - m, total, m) == 0)
        n -= m;
    for (unsigned i = 0; i < METRICS; i++)
        if (strlen(metrics[i]) == n && memcmp(metrics[i], name, n) == 0)
            return i;
    return METRICS;
}

/* The closing brace of the labels that begin at `at`; NULL: none. */
static const char *labels_end(const char *at, const char *end)
{
    int quoted = 0;
    for (; at < end; at++) {
        if (quoted && *at == '\\')
            at++;
        else if (*at == '"')
            quoted = !quoted;
        else if (*at == '}' && !quoted)
            return at;
    }
    return NULL;
}

/* Finds a label: name="value", in any order. */
static int find_label(const series *s, const char *name, label *out)
{
    const char *at = s->labels, *end = s->labels + s->label_bytes;
    size_t n = strlen(name);
    while (at < end) {
        while (at < end && (*at == ',' || is_blank(*at)))
            at++;
        const char *start = at;
        while (at < end && *at != '"')
            at++;
        if (at == end)
            return 0;
        const char *value = ++at;
        while (at < end && *at != '"')
            at += *at == '\\' && end - at > 1 ? 2 : 1;
        if (at == end)
            return 0;
        if ((size_t)(value - start) == n + 2 && memcmp(start, name, n) == 0 && start[n] == '=') {
            *out = (label){value, (size_t)(at - value)};
            return 1;
        }
        at++;
    }
    return 0;
}

/* Reads a count as Prometheus writes it ("1234.0", "1.5e+06"): an integer below the limit. */
static sb_status take_value(const reader *r, const char *at, const char *end, uint64_t *out,
                            sb_error *err)
{
    char text[40];
    size_t n = 0;
    while (at < end && is_blank(*at))
        at++;
    while (at + n < end && !is_blank(at[n]))
        n++;
    if (n == 0 || n >= sizeof text)
        return bad(r, err, "the counter has no value, or one of more than 39 characters");
    memcpy(text, at, n);
    text[n] = '\0';
    if (strspn(text, "0123456789.eE+-") != n ||
        (text[0] != '.' && (text[0] < '0' || text[0] > '9')))
        return bad(r, err, "the counter is not a number that is 0 or more");
    char *behind = text;
    double value = strtod(text, &behind);
    if (*behind || !(value >= 0) || !(value <= (double)SB_OBSERVED_MAX_COUNT) ||
        (double)(uint64_t)value != value)
        return bad(r, err, "the counter is not a whole number up to 2^48");
    *out = (uint64_t)value;
    return SB_OK;
}

static sb_status take_position(const reader *r, series *s, sb_error *err)
{
    label position;
    if (!find_label(s, "position", &position))
        return bad(r, err, "the counter by position has no label position");
    if (position.bytes == 0 || position.bytes > 2)
        return bad(r, err, "the position is outside 0 to 63");
    for (size_t i = 0; i < position.bytes; i++) {
        if (position.text[i] < '0' || position.text[i] > '9')
            return bad(r, err, "the position is outside 0 to 63");
        s->position = s->position * 10 + (uint64_t)(position.text[i] - '0');
    }
    return s->position < SB_OBSERVED_DEPTHS ? SB_OK
                                            : bad(r, err, "the position is outside 0 to 63");
}

static sb_status add_series(reader *r, const series *s, sb_error *err)
{
    if (r->count == SB_OBSERVED_PARTS)
        return bad(r, err, "the file has more than 100000 series");
    series *rows = sb_grow(r->rows, r->count, &r->room, sizeof *rows);
    if (!rows)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(r->file));
    r->rows = rows;
    r->rows[r->count++] = *s;
    return SB_OK;
}

static sb_status take_line(reader *r, const char *at, const char *end, sb_error *err)
{
    while (at < end && is_blank(*at))
        at++;
    const char *name = at;
    while (at < end && !is_blank(*at) && *at != '{')
        at++;
    series s = {.metric = metric_of(name, (size_t)(at - name))};
    if (s.metric == METRICS)
        return SB_OK;
    while (at < end && is_blank(*at))
        at++;
    if (at < end && *at == '{') {
        s.labels = at + 1;
        at = labels_end(s.labels, end);
        if (!at)
            return bad(r, err, "the labels have no closing brace");
        s.label_bytes = (size_t)(at++ - s.labels);
    }
    sb_status status = take_value(r, at, end, &s.value, err);
    if (!status && s.metric == BY_DEPTH)
        status = take_position(r, &s, err);
    return status ? status : add_series(r, &s, err);
}

/* --- all series ------------------------------------------------------------------------------- */

static int same_bytes(const char *a, size_t n, const char *b, size_t m)
{
    return n == m && (n == 0 || memcmp(a, b, n) == 0);
}

static int by_series(const void *a, const void *b)
{
    const series *x = a, *y = b;
    if (x->metric != y->metric)
        return x->metric < y->metric ? -1 : 1;
    size_t n = x->label_bytes < y->label_bytes ? x->label_bytes : y->label_bytes;
    int order = n ? memcmp(x->labels, y->labels, n) : 0;
    return order ? order : (x->label_bytes > y->label_bytes) - (x->label_bytes < y->label_bytes);
}

/* E-10: "Series of several engines are added. Series of several models are refused, and so is a
 * series that occurs twice" */
static sb_status check_series(reader *r, sb_error *err)
{
    label first = {0};
    int named = 0;
    if (r->count)
        qsort(r->rows, r->count, sizeof *r->rows, by_series);
    for (size_t i = 0; i < r->count; i++) {
        label model = {0};
        if (i && by_series(&r->rows[i - 1], &r->rows[i]) == 0)
            return sb_fail(
                err, SB_ERR_INPUT,
                "%s: a series of %s occurs twice: expected the metrics of a single scrape",
                SB_SHOW(r->file), metrics[r->rows[i].metric]);
        if (!find_label(&r->rows[i], "model_name", &model))
            continue;
        if (named && !same_bytes(first.text, first.bytes, model.text, model.bytes))
            return sb_fail(err, SB_ERR_INPUT, "%s: has counters of more than one model_name",
                           SB_SHOW(r->file));
        first = model;
        named = 1;
    }
    return SB_OK;
}

static sb_status add_up(const reader *r, sb_observed *out, sb_error *err)
{
    uint64_t *sums[BY_DEPTH] = {&out->rounds, &out->drafted, &out->accepted};
    int *known[BY_DEPTH] = {&out->has_rounds, &out->has_drafted, &out->has_accepted};
    size_t seen[METRICS] = {0};
    int over = 0;
    for (size_t i = 0; i < r->count; i++) {
        const series *s = &r->rows[i];
        if (seen[s->metric]++ == 0 && s->metric < BY_DEPTH)
            *known[s->metric] = 1;
        if (s->metric < BY_DEPTH) {
            over |= sb_observed_add(sums[s->metric], s->value);
            continue;
        }
        over |= sb_observed_add(&out->by_depth[s->position], s->value);
        if (s->position >= out->depths)
            out->depths = (size_t)s->position + 1;
    }
    out->parts = seen[ROUNDS] ? seen[ROUNDS] : seen[DRAFTED] ? seen[DRAFTED] : seen[ACCEPTED];
    return over ? sb_fail(err, SB_ERR_INPUT, "%s: the counters add up to more than 2^48",
                          SB_SHOW(r->file))
                : SB_OK;
}

sb_status sb_observed_prometheus(const char *text, size_t n, const char *file, sb_observed *out,
                                 sb_error *err)
{
    reader r = {.file = file};
    sb_status status = SB_OK;
    out->engine = SB_ENGINE_vllm;
    for (const char *at = text, *end = text + n; at < end && !status;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop)
            stop = end;
        r.line++;
        status = take_line(&r, at, stop, err);
        at = stop < end ? stop + 1 : end;
    }
    if (!status && r.count == 0)
        status = sb_fail(err, SB_ERR_INPUT,
                         "%s: is neither JSON nor metrics with vllm:spec_decode_num_*; expected "
                         "the counters of vLLM, SGLang or llama-server",
                         SB_SHOW(file));
    if (!status)
        status = check_series(&r, err);
    if (!status)
        status = add_up(&r, out, err);
    free(r.rows);
    return status;
}
