#include "tools/cli/draft_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/text.h"
#include "ref/container/file.h"
#include "ref/container/json.h"
#include "ref/container/show.h"
#include "tools/cli/tokens.h"

enum {
    MOST_SEQUENCES = 1 << 20,
    MOST_ODDS = 1 << 24, /* tokens with a probability in one distribution */
    PLACE = 512
};

/* E-20: "their sum differs from 1 by at most 0.001" */
static const double SUM_SLACK = 0.001;

/* --- messages --------------------------------------------------------------------------------- */

/* "drafts:12: sequence 0, round 3" */
static const char *place_of(const sb_draft_file *f, const sb_drafts *d, char room[PLACE])
{
    const int at = f->form == SB_DRAFTS_positions;
    int n =
        snprintf(room, PLACE, "%s:%s%zu", SB_SHOW(f->name), f->is_trace ? " step " : "", d->line);
    if (f->form == SB_DRAFTS_lists)
        snprintf(room + n, (size_t)(PLACE - n), ": list %" PRIu64, d->round);
    else
        snprintf(room + n, (size_t)(PLACE - n), ": sequence %" PRIu64 ", %s %" PRIu64, d->sequence,
                 at ? "position" : "round", at ? d->position : d->round);
    return room;
}

static sb_status no_memory(const sb_draft_file *f, sb_error *err)
{
    return sb_fail(err, SB_ERR_MEMORY, "out of memory for the drafts of %s", SB_SHOW(f->name));
}

sb_status sb_draft_file_lacks_odds(const sb_draft_file *f, const sb_drafts *d, sb_error *err)
{
    char place[PLACE];
    return sb_fail(err, SB_ERR_INPUT,
                   "%s has no probabilities; expected the distribution of each draft, which "
                   "--accept-mode residual needs",
                   place_of(f, d, place));
}

/* --- one entry -------------------------------------------------------------------------------- */

static void free_drafts(sb_drafts *d)
{
    free(d->ids);
    free(d->parents);
    free(d->odds);
    free(d->odds_ids);
    free(d->odds_p);
}

static sb_drafts *add_entry(sb_draft_file *f, size_t line)
{
    sb_drafts *more = sb_grow(f->entries, f->count, &f->room, sizeof *more);
    if (!more)
        return NULL;
    f->entries = more;
    f->entries[f->count] = (sb_drafts){.line = line};
    return &f->entries[f->count++];
}

static sb_status check_count(const sb_draft_file *f, const sb_drafts *d, sb_error *err)
{
    char place[PLACE];
    if (d->depth <= SB_MAX_DRAFTS)
        return SB_OK;
    return sb_fail(err, SB_ERR_INPUT, "%s has %zu drafts; expected at most %d",
                   place_of(f, d, place), d->count, SB_MAX_DRAFTS);
}

static sb_status read_ids(const sb_draft_file *f, const sb_json_object *o, sb_drafts *d,
                          sb_error *err)
{
    const json_t *list = sb_json_get(o, "drafts");
    char place[PLACE];
    if (!json_is_array(list))
        return sb_json_wrong(o, "drafts", list, "a list of token ids", err);
    d->count = d->depth = json_array_size(list);
    sb_status status = sb_json_get(o, "parents") ? SB_OK : check_count(f, d, err);
    if (status)
        return status;
    d->ids = sb_alloc(d->count, sizeof *d->ids);
    if (!d->ids)
        return no_memory(f, err);
    for (size_t i = 0; i < d->count; i++) {
        const json_t *id = json_array_get(list, i);
        sb_json_text found;
        if (!json_is_integer(id) || json_integer_value(id) < 0 ||
            json_integer_value(id) > UINT32_MAX)
            return sb_fail(err, SB_ERR_INPUT, "%s: draft %zu is %s; expected a token id",
                           place_of(f, d, place), i, sb_json_found(id, &found));
        d->ids[i] = (uint32_t)json_integer_value(id);
    }
    return SB_OK;
}

/* S-16: the parents of a tree. Drafts that each follow the one before it are none. */
static sb_status read_parents(const sb_draft_file *f, const sb_json_object *o, sb_drafts *d,
                              sb_error *err)
{
    const json_t *list = sb_json_get(o, "parents");
    char place[PLACE];
    int tree = 0;
    if (!list)
        return SB_OK;
    if (!json_is_array(list) || json_array_size(list) != d->count)
        return sb_fail(err, SB_ERR_INPUT,
                       "%s has %zu drafts and %zu parents; expected a parent for each draft",
                       place_of(f, d, place), d->count, json_array_size(list));
    d->parents = sb_alloc(d->count, sizeof *d->parents);
    if (!d->parents)
        return no_memory(f, err);
    for (size_t i = 0; i < d->count; i++) {
        const json_t *value = json_array_get(list, i);
        const json_int_t parent = json_integer_value(value);
        sb_json_text found;
        if (!json_is_integer(value) || parent < -1 || parent >= (json_int_t)i)
            return sb_fail(
                err, SB_ERR_INPUT,
                "%s: the parent of draft %zu is %s; expected -1 or the number of a draft "
                "before it",
                place_of(f, d, place), i, sb_json_found(value, &found));
        d->parents[i] = (int)parent;
        tree |= parent != (json_int_t)i - 1;
    }
    if (tree) {
        sb_status status = sb_tree_depth(d->ids, d->parents, d->count, &d->depth, err);
        return status ? sb_fail_in(err, SB_ERR_INPUT, place_of(f, d, place)) : SB_OK;
    }
    free(d->parents);
    d->parents = NULL;
    return check_count(f, d, err);
}

/* --- the distributions of the drafts ----------------------------------------------------------- */

/* One pair [id, probability] of the distribution of draft i. */
static sb_status read_pair(const sb_draft_file *f, const sb_drafts *d, size_t i, const json_t *pair,
                           uint32_t *id, float *p, sb_error *err)
{
    const json_t *token = json_array_get(pair, 0), *value = json_array_get(pair, 1);
    const double x = json_number_value(value);
    sb_json_text found;
    char place[PLACE];
    if (json_array_size(pair) != 2 || !json_is_integer(token) || !json_is_number(value))
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: probabilities of draft %zu: found %s; expected a pair [id, "
                       "probability]",
                       place_of(f, d, place), i, sb_json_found(pair, &found));
    if (json_integer_value(token) < 0 || json_integer_value(token) > UINT32_MAX)
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: probabilities of draft %zu: the token is %s; expected a token id",
                       place_of(f, d, place), i, sb_json_found(token, &found));
    if (!(x >= 0 && x <= 1))
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: draft %zu: the probability of token %" JSON_INTEGER_FORMAT
                       " is %s; expected 0 to 1",
                       place_of(f, d, place), i, json_integer_value(token),
                       sb_json_found(value, &found));
    *id = (uint32_t)json_integer_value(token);
    *p = (float)x;
    return SB_OK;
}

typedef struct pair {
    uint32_t id;
    float p;
} pair;

static int by_id(const void *x, const void *y)
{
    const pair *a = x, *b = y;
    return (a->id > b->id) - (a->id < b->id);
}

/* E-20: "no token twice", "their sum differs from 1 by at most 0.001", "the draft itself has a
 * probability above 0". pairs: (n), ascending */
static sb_status check_odds(const sb_draft_file *f, const sb_drafts *d, size_t i, const pair *pairs,
                            size_t n, sb_error *err)
{
    char place[PLACE];
    double sum = 0;
    float own = 0;
    for (size_t k = 0; k < n; k++) {
        sum += (double)pairs[k].p;
        own = pairs[k].id == d->ids[i] ? pairs[k].p : own;
        if (k && pairs[k].id == pairs[k - 1].id)
            return sb_fail(err, SB_ERR_INPUT,
                           "%s: probabilities of draft %zu: token %u is there twice",
                           place_of(f, d, place), i, (unsigned)pairs[k].id);
    }
    if (!(sum >= 1 - SUM_SLACK && sum <= 1 + SUM_SLACK))
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: the probabilities of draft %zu have the sum %.6g; expected 1, within "
                       "%g",
                       place_of(f, d, place), i, sum, SUM_SLACK);
    if (!(own > 0))
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: draft %zu is token %u, which has no probability in its own "
                       "distribution",
                       place_of(f, d, place), i, (unsigned)d->ids[i]);
    return SB_OK;
}

/* The distribution of draft i, to odds_ids and odds_p from `at` on. */
static sb_status read_odds(const sb_draft_file *f, sb_drafts *d, size_t i, const json_t *list,
                           size_t at, sb_error *err)
{
    const size_t n = json_array_size(list);
    pair *pairs = sb_alloc(n, sizeof *pairs);
    sb_status status = pairs ? SB_OK : no_memory(f, err);
    for (size_t k = 0; k < n && !status; k++)
        status = read_pair(f, d, i, json_array_get(list, k), &pairs[k].id, &pairs[k].p, err);
    if (!status) {
        qsort(pairs, n, sizeof *pairs, by_id);
        status = check_odds(f, d, i, pairs, n, err);
    }
    for (size_t k = 0; k < n && !status; k++) {
        d->odds_ids[at + k] = pairs[k].id;
        d->odds_p[at + k] = pairs[k].p;
    }
    free(pairs);
    d->odds[i] = (sb_draft_odds){d->odds_ids + at, d->odds_p + at, n};
    return status;
}

static sb_status read_all_odds(const sb_draft_file *f, const sb_json_object *o, sb_drafts *d,
                               sb_error *err)
{
    const json_t *all = sb_json_get(o, "probabilities");
    char place[PLACE];
    size_t total = 0;
    if (!all)
        return SB_OK;
    if (!json_is_array(all) || json_array_size(all) != d->count)
        return sb_fail(err, SB_ERR_INPUT,
                       "%s has %zu drafts and probabilities of %zu; expected a list for each draft",
                       place_of(f, d, place), d->count, json_array_size(all));
    for (size_t i = 0; i < d->count; i++) {
        const json_t *list = json_array_get(all, i);
        sb_json_text found;
        if (!json_is_array(list) || !json_array_size(list) || json_array_size(list) > MOST_ODDS)
            return sb_fail(err, SB_ERR_INPUT,
                           "%s: probabilities of draft %zu: found %s; expected a list of pairs "
                           "[id, probability]",
                           place_of(f, d, place), i, sb_json_found(list, &found));
        total += json_array_size(list);
    }
    d->odds = sb_alloc(d->count, sizeof *d->odds);
    d->odds_ids = sb_alloc(total, sizeof *d->odds_ids);
    d->odds_p = sb_alloc(total, sizeof *d->odds_p);
    sb_status status = d->odds && d->odds_ids && d->odds_p ? SB_OK : no_memory(f, err);
    for (size_t i = 0, at = 0; i < d->count && !status; at += d->odds[i++].count)
        status = read_odds(f, d, i, json_array_get(all, i), at, err);
    return status;
}

/* --- entries as JSON --------------------------------------------------------------------------- */

static sb_status read_bounded(const sb_json_object *o, const char *key, uint64_t below,
                              uint64_t *out, sb_error *err)
{
    sb_status status = sb_json_u64_or(o, key, 0, out, err);
    if (!status && *out >= below)
        status = sb_json_fail(o, key, SB_ERR_INPUT, err,
                              "is %" PRIu64 "; expected less than %" PRIu64, *out, below);
    return status;
}

/* E-19: "An entry with a position and without a round" makes a file of positions. */
static sb_status read_kind(sb_draft_file *f, const sb_json_object *o, sb_drafts *d, int *numbered,
                           sb_error *err)
{
    *numbered = sb_json_get(o, "round") != NULL;
    d->has_position = sb_json_get(o, "position") != NULL;
    const sb_drafts_form form =
        d->has_position && !*numbered ? SB_DRAFTS_positions : SB_DRAFTS_rounds;
    if (f->count == 1)
        f->form = form;
    if (form == f->form)
        return SB_OK;
    return sb_fail(err, SB_ERR_INPUT,
                   "%s: an entry %s after entries %s; expected all entries alike", SB_SHOW(o->file),
                   form == SB_DRAFTS_positions ? "for a position" : "for a round",
                   form == SB_DRAFTS_positions ? "for rounds" : "for positions");
}

/* Counts the rounds of each sequence. Returns nonzero if memory is out. */
static int take_number(sb_draft_file *f, uint64_t sequence, uint64_t *number)
{
    if (sequence >= f->sequences) {
        uint64_t *more = sb_realloc(f->rounds, (size_t)sequence + 1, sizeof *more);
        if (!more)
            return 1;
        memset(more + f->sequences, 0, ((size_t)sequence + 1 - f->sequences) * sizeof *more);
        f->rounds = more;
        f->sequences = (size_t)sequence + 1;
    }
    *number = f->rounds[sequence]++;
    return 0;
}

/* E-18: "The rounds of a sequence are numbered from 0 and stand in this order" */
static sb_status read_number(sb_draft_file *f, const sb_json_object *o, sb_drafts *d, int numbered,
                             sb_error *err)
{
    uint64_t expected = 0;
    if (take_number(f, d->sequence, &expected))
        return no_memory(f, err);
    sb_status status = sb_json_u64_or(o, "round", expected, &d->round, err);
    if (!status && numbered && d->round != expected)
        status =
            sb_fail(err, SB_ERR_INPUT,
                    "%s: sequence %" PRIu64 ": found round %" PRIu64 "; expected round %" PRIu64,
                    SB_SHOW(o->file), d->sequence, d->round, expected);
    return status;
}

static sb_status read_entry(sb_draft_file *f, json_t *value, size_t line, sb_error *err)
{
    /* the last three are those of a trace; they say nothing about the drafts */
    static const char *const keys[] = {"sequence",      "round",    "position", "drafts", "parents",
                                       "probabilities", "accepted", "emitted",  "forced", NULL};
    char where[PLACE];
    sb_json_object o;
    int numbered = 0;
    sb_drafts *d = add_entry(f, line);
    if (!d)
        return no_memory(f, err);
    snprintf(where, sizeof where, "%s:%s%zu", f->name, f->is_trace ? " step " : "", line);
    sb_status status = sb_json_object_at(value, where, "", &o, err);
    if (!status)
        status = sb_json_only(&o, keys, err);
    if (!status)
        status = read_kind(f, &o, d, &numbered, err);
    if (!status)
        status = read_bounded(&o, "sequence", MOST_SEQUENCES, &d->sequence, err);
    if (!status)
        status = read_bounded(&o, "position", SB_POSITION_LIMIT, &d->position, err);
    if (!status && f->form == SB_DRAFTS_rounds)
        status = read_number(f, &o, d, numbered, err);
    if (!status)
        status = read_ids(f, &o, d, err);
    if (!status)
        status = read_parents(f, &o, d, err);
    return status ? status : read_all_odds(f, &o, d, err);
}

/* The rounds of a trace (docs/trace.md), which have the same keys. */
static sb_status read_trace(sb_draft_file *f, const char *text, size_t n, sb_error *err)
{
    json_t *document = NULL;
    f->is_trace = 1;
    sb_status status = sb_json_parse_rich(text, n, f->name, &document, err);
    const json_t *steps = json_object_get(document, "steps");
    for (size_t i = 0; i < json_array_size(steps) && !status; i++) {
        const json_t *rounds = json_object_get(json_array_get(steps, i), "rounds");
        for (size_t k = 0; k < json_array_size(rounds) && !status; k++)
            status = read_entry(f, json_array_get(rounds, k), i, err);
    }
    json_decref(document);
    return status;
}

/* --- lines -------------------------------------------------------------------------------------- */

static sb_status read_list(sb_draft_file *f, const char *line, size_t number, sb_error *err)
{
    char where[PLACE];
    sb_sequence list = {NULL, 0};
    snprintf(where, sizeof where, "%s:%zu", SB_SHOW(f->name), number);
    sb_status status = sb_tokens_parse(line, where, &list, err);
    if (status)
        return status == SB_ERR_USAGE ? SB_ERR_INPUT : status; /* keeps the message */
    sb_drafts *d = add_entry(f, number);
    if (!d) {
        free(list.ids);
        return no_memory(f, err);
    }
    f->form = SB_DRAFTS_lists;
    d->round = f->count - 1;
    d->ids = list.ids;
    d->count = d->depth = list.count;
    return check_count(f, d, err);
}

static sb_status read_object(sb_draft_file *f, const char *line, size_t n, size_t number,
                             sb_error *err)
{
    char where[PLACE];
    json_t *value = NULL;
    snprintf(where, sizeof where, "%s:%zu", f->name, number);
    sb_status status = sb_json_parse_rich(line, n, where, &value, err);
    if (!status)
        status = read_entry(f, value, number, err);
    json_decref(value);
    return status;
}

static const char *skip_blanks(const char *at)
{
    return at + strspn(at, " \t\r");
}

/* text: ends with a NUL, and is changed */
static sb_status read_lines(sb_draft_file *f, char *text, sb_error *err)
{
    int json = -1; /* not known yet */
    size_t number = 0;
    sb_status status = SB_OK;
    for (char *line = text; line && !status;) {
        char *end = strchr(line, '\n');
        if (end)
            *end++ = '\0';
        number++;
        const char *first = skip_blanks(line);
        if (*first && *first != '#') {
            json = json < 0 ? *first == '{' : json;
            status = json ? read_object(f, line, strlen(line), number, err)
                          : read_list(f, line, number, err);
        }
        line = end;
    }
    return status;
}

/* --- the file ------------------------------------------------------------------------------------ */

static int by_place(const void *x, const void *y)
{
    const sb_drafts *a = x, *b = y;
    if (a->sequence != b->sequence)
        return a->sequence < b->sequence ? -1 : 1;
    if (a->round != b->round)
        return a->round < b->round ? -1 : 1;
    if (a->position != b->position)
        return a->position < b->position ? -1 : 1;
    return (a->line > b->line) - (a->line < b->line);
}

/* Sorts the entries for sb_draft_file_find. */
static sb_status put_in_order(sb_draft_file *f, sb_error *err)
{
    char place[PLACE];
    if (!f->count)
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: no drafts: expected one line of token ids per round, or entries as "
                       "JSON",
                       SB_SHOW(f->name));
    qsort(f->entries, f->count, sizeof *f->entries, by_place);
    for (size_t i = 0; i < f->count; i++) {
        const sb_drafts *d = &f->entries[i];
        f->most = d->count > f->most ? d->count : f->most;
        f->depth = d->depth > f->depth ? d->depth : f->depth;
        if (d->parents && !f->tree_line)
            f->tree_line = d->line;
        if (i && f->form == SB_DRAFTS_positions && d->sequence == d[-1].sequence &&
            d->position == d[-1].position)
            return sb_fail(err, SB_ERR_INPUT, "%s is also in line %zu; expected one entry for each",
                           place_of(f, d, place), d[-1].line);
    }
    return SB_OK;
}

sb_status sb_draft_file_parse(const char *text, size_t n, const char *file, sb_draft_file **out,
                              sb_error *err)
{
    enum { HEAD = 4096 };
    const char *end = memchr(text, '\0', n);
    *out = NULL;
    if (end)
        return sb_fail(err, SB_ERR_INPUT, "%s: byte %zu is 0; expected text", SB_SHOW(file),
                       (size_t)(end - text));
    sb_draft_file *f = sb_alloc(1, sizeof *f);
    char *copy = sb_alloc(n + 1, 1);
    sb_status status = SB_OK;
    if (f)
        f->name = strdup(file);
    if (!f || !f->name || !copy)
        status = sb_fail(err, SB_ERR_MEMORY, "out of memory for %s", SB_SHOW(file));
    if (!status) {
        /* a trace names its format at its beginning */
        memcpy(copy, text, n < HEAD ? n : HEAD);
        const int trace = *skip_blanks(copy) == '{' && strstr(copy, "\"samebit-trace\"") != NULL;
        memcpy(copy, text, n);
        status = trace ? read_trace(f, text, n, err) : read_lines(f, copy, err);
    }
    if (!status)
        status = put_in_order(f, err);
    free(copy);
    if (status) {
        sb_draft_file_free(f);
        return status;
    }
    *out = f;
    return SB_OK;
}

sb_status sb_draft_file_load(const char *path, sb_draft_file **out, sb_error *err)
{
    unsigned char *bytes = NULL;
    size_t count = 0;
    *out = NULL;
    sb_status status = sb_read_file(path, SB_DRAFT_FILE_MAX_BYTES, &bytes, &count, err);
    if (!status)
        status = sb_draft_file_parse((const char *)bytes, count, path, out, err);
    free(bytes);
    return status;
}

void sb_draft_file_free(sb_draft_file *f)
{
    if (!f)
        return;
    for (size_t i = 0; i < f->count; i++)
        free_drafts(&f->entries[i]);
    free(f->entries);
    free(f->rounds);
    free(f->name);
    free(f);
}

static sb_status check_id(const sb_draft_file *f, const sb_drafts *d, size_t i, uint32_t id,
                          uint32_t vocabulary, const char *what, sb_error *err)
{
    char place[PLACE];
    if (id < vocabulary)
        return SB_OK;
    return sb_fail(err, SB_ERR_INPUT,
                   "%s: draft %zu %s token %u; expected an id below %u, the size of the vocabulary",
                   place_of(f, d, place), i, what, (unsigned)id, (unsigned)vocabulary);
}

sb_status sb_draft_file_check(const sb_draft_file *f, uint32_t vocabulary, size_t sequences,
                              sb_error *err)
{
    char place[PLACE];
    sb_status status = SB_OK;
    for (size_t i = 0; i < f->count && !status; i++) {
        const sb_drafts *d = &f->entries[i];
        if (d->sequence >= sequences)
            return sb_fail(err, SB_ERR_INPUT, "%s; expected a sequence below %zu",
                           place_of(f, d, place), sequences);
        for (size_t k = 0; k < d->count && !status; k++) {
            status = check_id(f, d, k, d->ids[k], vocabulary, "is", err);
            if (!status && d->odds) /* the last id is the largest */
                status = check_id(f, d, k, d->odds[k].ids[d->odds[k].count - 1], vocabulary,
                                  "has a probability for", err);
        }
    }
    return status;
}

/* --- lookup -------------------------------------------------------------------------------------- */

/* The entry of a sequence with this round or position; NULL: there is none. */
static const sb_drafts *look_up(const sb_draft_file *f, uint64_t sequence, uint64_t round,
                                uint64_t position)
{
    size_t low = 0, high = f->count;
    const sb_drafts wanted = {.sequence = sequence, .round = round, .position = position};
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const sb_drafts *d = &f->entries[middle];
        if (d->sequence == sequence && d->round == round &&
            (f->form == SB_DRAFTS_rounds || d->position == position))
            return d;
        if (by_place(d, &wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

sb_status sb_draft_file_find(const sb_draft_file *f, uint64_t sequence, uint64_t round,
                             uint64_t position, const sb_drafts **out, sb_error *err)
{
    const int at = f->form == SB_DRAFTS_positions;
    char place[PLACE];
    if (f->form == SB_DRAFTS_lists) { /* E-17: "begins anew after its last list" */
        *out = &f->entries[round % f->count];
        return SB_OK;
    }
    const sb_drafts *d = look_up(f, sequence, at ? 0 : round, at ? position : 0);
    *out = d;
    if (!d && at)
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: sequence %" PRIu64 ", round %" PRIu64 ": found no entry for position "
                       "%" PRIu64 ", at which this round begins",
                       SB_SHOW(f->name), sequence, round, position);
    const uint64_t rounds = sequence < f->sequences ? f->rounds[sequence] : 0;
    if (!d)
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: sequence %" PRIu64 ": found %" PRIu64
                       " round%s; expected round %" PRIu64 ", which begins at position %" PRIu64,
                       SB_SHOW(f->name), sequence, rounds, sb_s(rounds), round, position);
    if (d->has_position && d->position != position)
        return sb_fail(err, SB_ERR_INPUT,
                       "%s begins at position %" PRIu64 " in the file; expected %" PRIu64
                       ": the tokens before it are not those of this run",
                       place_of(f, d, place), d->position, position);
    return SB_OK;
}
