/* html_map.c - the map of errors: a field per layer and token, coloured by error / bound. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "tools/report/diff/html_parts.h"

/* The map of one comparison. Its first row is for the tokens as a whole. */
typedef struct map {
    const sb_diff_report *r;
    size_t columns, per_column; /* tokens per column */
    size_t layers, per_row;     /* layers with values; layers per row */
    size_t rows;
    unsigned char *states; /* (rows, columns): 1 if a state is wrong there; NULL: memory is out */
} map;

/* True if a layer, a column of the cells, has any value. */
static int has_values(const sb_cells *c, size_t layer)
{
    for (size_t i = 0; i < c->rows; i++)
        if (c->worst[i * c->layers + layer] >= 0)
            return 1;
    return 0;
}

/* The number of layers up to the last one with values. */
static size_t used_layers(const sb_cells *c)
{
    size_t used = 0;
    for (size_t i = 0; i < c->layers && c->rows; i++)
        used = has_values(c, i) ? i + 1 : used;
    return used;
}

static size_t over(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

/* O-2: "neighbours share a field, which shows the worst of them" */
static map make_map(const sb_diff_report *r)
{
    map m = {.r = r, .layers = used_layers(&r->verdicts->cells)};
    size_t tokens = r->verdicts->token_count;
    m.per_row = over(m.layers, SB_PAGE_ROWS - 1);
    m.rows = 1 + (m.layers ? over(m.layers, m.per_row) : 0);
    size_t most = SB_PAGE_FIELDS / m.rows;
    most = most < SB_PAGE_COLUMNS ? most : SB_PAGE_COLUMNS;
    m.per_column = over(tokens, most);
    m.columns = over(tokens, m.per_column);
    return m;
}

static size_t column_end(const map *m, size_t column)
{
    size_t end = (column + 1) * m->per_column, tokens = m->r->verdicts->token_count;
    return end < tokens ? end : tokens;
}

/* --- fields ----------------------------------------------------------------------------------- */

/* "n": nothing was compared. */
static const char *colour(double ratio)
{
    return ratio < 0       ? "n"
           : ratio == 0    ? "h0"
           : ratio <= 0.06 ? "h1"
           : ratio <= 0.25 ? "h2"
           : ratio <= 0.5  ? "h3"
           : ratio <= 1    ? "h4"
           : ratio <= 16   ? "h5"
                           : "h6";
}

/* The verdict on the tokens of a column as a whole. */
static sb_verdict token_verdict(const map *m, size_t column, double *ratio)
{
    const sb_verdicts *v = m->r->verdicts;
    sb_verdict worst = SB_VERDICT_none;
    *ratio = 0;
    for (size_t i = column * m->per_column; i < column_end(m, column); i++) {
        worst = sb_verdict_worse(worst, v->tokens[i].verdict);
        *ratio = v->tokens[i].worst_ratio > *ratio ? v->tokens[i].worst_ratio : *ratio;
    }
    return worst;
}

/* The verdict sets the colour if there is no ratio, as for a token without values. */
static const char *token_colour(sb_verdict verdict, double ratio)
{
    switch (verdict) {
    case SB_VERDICT_FAIL:
        return ratio > 1 && ratio <= 16 ? "h5" : "h6";
    case SB_VERDICT_NEAR_TIE:
        return "ht";
    case SB_VERDICT_IDENTICAL:
        return "h0";
    case SB_VERDICT_WITHIN:
        return ratio == 0 ? "h1" : colour(ratio <= 1 ? ratio : 1);
    default:
        return "n";
    }
}

/* --- wrong states ----------------------------------------------------------------------------- */

/* True if the failure is in a state: no op or token of that place failed. */
static int is_state(const sb_place *p)
{
    return p->rank == SB_ELEMENT_RANK || strncmp(p->words, "state after", 11) == 0;
}

/* The last token of a sequence at the position after which the state was taken; SIZE_MAX: none. */
static size_t token_of(const sb_verdicts *v, const sb_place *p)
{
    size_t at = v->token_count;
    while (at > 0 &&
           (v->tokens[at - 1].sequence != p->sequence || v->tokens[at - 1].position != p->token))
        at--;
    /* a state that another sequence left, with which this one begins */
    for (size_t i = 0; !at && i < v->token_count; i++)
        if (v->tokens[i].sequence == p->sequence)
            return i;
    return at - 1;
}

/* The field of a wrong state; 0: it has none. */
static int field_of(const map *m, const sb_place *p, size_t *row, size_t *column)
{
    size_t token = token_of(m->r->verdicts, p);
    size_t layer = p->layer == SB_NO_LAYER ? m->layers : p->layer;
    *row = layer < m->layers ? 1 + layer / m->per_row : 0;
    *column = token / m->per_column;
    return token < m->r->verdicts->token_count;
}

static void mark_state(const map *m, const sb_place *p)
{
    size_t row, column;
    if (field_of(m, p, &row, &column))
        m->states[row * m->columns + column] = 1;
}

/* Notes the fields of all wrong states: behind rounds, before the first call of a sequence, and of
 * the first failure. */
static void mark_states(map *m)
{
    const sb_verdicts *v = m->r->verdicts;
    m->states = sb_alloc(m->rows * m->columns, 1);
    if (!m->states)
        return;
    for (size_t part = 0; part < SB_STATE_PARTS; part++) {
        for (size_t i = 0; i < v->round_count; i++)
            if (v->rounds[i].state[part].has_first)
                mark_state(m, &v->rounds[i].state[part].first);
        for (size_t i = 0; i < v->hit_count; i++)
            if (v->hits[i].state[part].has_first)
                mark_state(m, &v->hits[i].state[part].first);
    }
    if (v->has_failure && is_state(&v->first_failure))
        mark_state(m, &v->first_failure);
}

static double cell(const map *m, size_t column, size_t row)
{
    const sb_cells *c = &m->r->verdicts->cells;
    double worst = -1;
    for (size_t i = column * m->per_column; i < column_end(m, column) && i < c->rows; i++)
        for (size_t k = 0; k < m->per_row && row * m->per_row + k < m->layers; k++) {
            double x = (double)c->worst[i * c->layers + row * m->per_row + k];
            worst = x > worst ? x : worst;
        }
    return worst;
}

/* Prints "position 5" or "5 tokens from position 5"; with several sequences "sequence 1, " before
 * it. */
static void print_tokens(FILE *out, const map *m, size_t column)
{
    const sb_token_verdict *tokens = m->r->verdicts->tokens;
    size_t first = column * m->per_column, last = column_end(m, column) - 1;
    if (m->r->sequences > 1)
        fprintf(out, "sequence %u, ", (unsigned)tokens[first].sequence);
    if (first == last)
        fprintf(out, "position %" PRIu64, tokens[first].position);
    else
        fprintf(out, "%zu tokens from position %" PRIu64, last - first + 1, tokens[first].position);
}

static void print_layers(FILE *out, const map *m, size_t row)
{
    size_t first = row * m->per_row, last = first + m->per_row - 1;
    fputs(html_layer(m->r, first).text, out);
    if (last > first)
        fprintf(out, " to %s", html_layer(m->r, last < m->layers ? last : m->layers - 1).text);
}

static void print_field(FILE *out, const void *ctx, size_t row, size_t column)
{
    const map *m = ctx;
    double ratio;
    sb_verdict whole = SB_VERDICT_none;
    if (row == 0)
        whole = token_verdict(m, column, &ratio);
    else
        ratio = cell(m, column, row - 1);
    int state = m->states && m->states[row * m->columns + column];
    sb_page_field(out, row, column,
                  state && !(ratio > 1) ? "h6"
                  : row                 ? colour(ratio)
                                        : token_colour(whole, ratio));
    print_tokens(out, m, column);
    fputs(", ", out);
    if (row > 0)
        print_layers(out, m, row - 1);
    else
        fputs("the whole token", out);
    if (state)
        fputs(": the state behind it is wrong", out);
    else if (row ? ratio < 0 : whole == SB_VERDICT_none)
        fputs(": not compared", out);
    else if (row == 0 && ratio == 0)
        fprintf(out, ": %s", sb_verdict_name(whole));
    else
        fprintf(out, ": %s", sb_page_ratio(ratio).text);
    sb_page_field_end(out);
}

/* --- the first failure ------------------------------------------------------------------------ */

/* True if the first failure can be at this token: the token itself failed, or, with `draft`, the
 * layer failed in a draft after the token. */
static int is_failed(const sb_verdicts *v, size_t token, size_t layer, int draft)
{
    const sb_place *p = &v->first_failure;
    const sb_token_verdict *t = &v->tokens[token];
    if (t->sequence != p->sequence)
        return 0;
    return draft ? token < v->cells.rows && v->cells.worst[token * v->cells.layers + layer] > 1
                 : t->position == p->token && t->verdict == SB_VERDICT_FAIL;
}

static void print_frame(FILE *out, size_t row, size_t column)
{
    fprintf(out,
            "<rect x=\"%zu\" y=\"%zu\" width=\"1\" height=\"1\" class=\"first\"><title>the first "
            "failure</title></rect>\n",
            column, row);
}

static void print_mark(FILE *out, const void *ctx)
{
    const map *m = ctx;
    const sb_verdicts *v = m->r->verdicts;
    size_t row = 0, column = 0, layer = v->first_failure.layer, token = v->token_count;
    if (v->has_failure && is_state(&v->first_failure)) {
        if (field_of(m, &v->first_failure, &row, &column))
            print_frame(out, row, column);
        return;
    }
    if (v->cells.rows && html_is_op(v->first_failure.op)) {
        layer = layer < v->cells.layers - 1 ? layer : v->cells.layers - 1;
        row = layer < m->layers ? 1 + layer / m->per_row : 0;
    }
    for (int draft = 0; draft <= (row > 0) && token == v->token_count && v->has_failure; draft++)
        for (token = 0; token < v->token_count && !is_failed(v, token, layer, draft);)
            token++;
    if (token < v->token_count)
        print_frame(out, row, token / m->per_column);
}

/* --- around the fields ------------------------------------------------------------------------ */

static void print_name(FILE *out, const void *ctx, size_t row)
{
    if (row)
        print_layers(out, ctx, row - 1);
    else
        fputs("whole token", out);
}

static void print_position(FILE *out, const void *ctx, size_t column)
{
    const map *m = ctx;
    const sb_token_verdict *t = &m->r->verdicts->tokens[column * m->per_column];
    if (m->r->sequences > 1)
        fprintf(out, "%u:", (unsigned)t->sequence);
    fprintf(out, "%" PRIu64, t->position);
}

static const sb_page_key keys[] = {{"h0", "0, the same bits"},  {"h1", "up to 0.06"},
                                   {"h2", "up to 0.25"},        {"h3", "up to 0.5"},
                                   {"h4", "up to 1: inside"},   {"h5", "above 1: wrong"},
                                   {"h6", "above 16: wrong"},   {"ht", "near tie"},
                                   {"n", "grey: not compared"}, {NULL, NULL}};

static void print_binning(FILE *out, const map *m)
{
    if (m->per_column > 1)
        fprintf(
            out,
            "<p class=\"hint binned\">Up to %zu tokens share a column. The column shows the worst of them.</p>\n",
            m->per_column);
    if (m->per_row > 1)
        fprintf(
            out,
            "<p class=\"hint binned\">Up to %zu layers share a row. The row shows the worst of them.</p>\n",
            m->per_row);
}

void html_map(FILE *out, const sb_diff_report *r)
{
    if (!r->verdicts->token_count)
        return;
    map m = make_map(r);
    mark_states(&m);
    sb_page_section(
        out, "map", m.layers ? "Where: layer by token" : "Where: token by token",
        m.layers ? "Each field shows the largest error / bound of one layer in one token. Every op "
                   "got the inputs that the engine recorded. Blue is within the bound; orange and "
                   "red are wrong; grey was not compared. Tokens are shown from left to right in "
                   "the order in which they were fed. The frame marks the first failure."
                 : "No values of ops were recorded, so only whole tokens can be shown. Blue is "
                   "within the bound; orange and red are wrong; grey was not compared.");
    print_binning(out, &m);
    const sb_page_map shown = {.ctx = &m,
                               .label = "error by layer and token",
                               .rows = m.rows,
                               .columns = m.columns,
                               .wide = 24,
                               .field = print_field,
                               .row = print_name,
                               .column = print_position,
                               .marks = print_mark,
                               .keys = keys};
    sb_page_map_print(out, &shown);
    sb_page_section_end(out);
    free(m.states);
}
