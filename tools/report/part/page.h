/* page.h - the parts of a page that shows a result: its frame and style, the head with the verdict,
 * sections, facts, tables, bars, maps and curves. Every page of this program is made of them.
 *
 * A page is one file without network and script (O-1). All text that is not a literal of this
 * program goes through sb_page_text. */
#ifndef SB_REPORT_PAGE_H
#define SB_REPORT_PAGE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The colour of a verdict. */
typedef enum sb_page_tone { SB_TONE_open, SB_TONE_good, SB_TONE_tie, SB_TONE_bad } sb_page_tone;
const char *sb_page_tone_name(sb_page_tone tone); /* "good": a class of the style */

/* --- the frame -------------------------------------------------------------------------------- */

/* title: what was judged; word: the verdict. */
void sb_page_open(FILE *out, const char *word, const char *title);
void sb_page_close(FILE *out);

/* Opens the head: the verdict, the subject (untrusted) with a few words after it, and the meaning
 * of the verdict as a sentence. Facts and lists follow; then close it. */
void sb_page_head(FILE *out, sb_page_tone tone, const char *word, const char *subject,
                  const char *what, const char *meaning);
void sb_page_head_end(FILE *out);

/* Opens a section; screen readers and tests find it by its id. hint: HTML. */
void sb_page_section(FILE *out, const char *id, const char *title, const char *hint);
void sb_page_section_end(FILE *out);

/* Opens the last section with the command line. Between the two calls, the caller prints an item
 * for each thing that the command read. */
void sb_page_again(FILE *out, const char *const *arguments, size_t count);
void sb_page_again_end(FILE *out);

/* Prints a command line with its newline; an argument is quoted if a shell needs it. */
void sb_page_command(FILE *out, const char *const *arguments, size_t count);

/* --- text ------------------------------------------------------------------------------------- */

void sb_page_text(FILE *out, const char *text);     /* untrusted text, escaped */
void sb_page_code(FILE *out, const char *text);     /* the same, as code */
void sb_page_sentence(FILE *out, const char *text); /* with a capital letter and a full stop */
void sb_page_lines(FILE *out, const char *class, const char *text); /* keeps line breaks */
void sb_page_chip(FILE *out, sb_page_tone tone, const char *word);

/* "0.31", "2.0e+05"; "no bound" for infinity. */
typedef struct sb_page_number {
    char text[32];
} sb_page_number;
sb_page_number sb_page_ratio(double ratio);

/* --- facts, lists, tables --------------------------------------------------------------------- */

/* Facts stand side by side. The caller prints the value of a fact between sb_page_fact and its
 * end. */
void sb_page_facts(FILE *out);
void sb_page_fact(FILE *out, const char *name);
void sb_page_fact_end(FILE *out);
void sb_page_fact_text(FILE *out, const char *name, const char *value);
void sb_page_fact_count(FILE *out, const char *name, uint64_t value);
void sb_page_facts_end(FILE *out);

/* Items stand one below the other. */
void sb_page_list(FILE *out);
void sb_page_item(FILE *out, const char *name, const char *value);
void sb_page_list_end(FILE *out);

/* columns: titles separated by '|', with '<' before a title for text on the left. */
void sb_page_table(FILE *out, const char *class, const char *columns);
void sb_page_table_end(FILE *out);

/* "1 token", "3 tokens": a count with the plural of a regular noun. */
void sb_page_count(FILE *out, uint64_t count, const char *noun);

/* --- bars ------------------------------------------------------------------------------------- */

/* A bar for a share of 1. A share above 1 fills the bar in the colour of a failure. */
void sb_page_bar(FILE *out, double share);

/* A bar for an error / bound on a logarithmic scale from 1/1024 to 1024. 1, the bound, is its
 * middle; a ratio above 1 has the colour of a failure. */
void sb_page_ratio_bar(FILE *out, double ratio);

/* A bar for a value on a logarithmic scale from `low` to `high`; nothing at or below low. */
void sb_page_log_bar(FILE *out, double value, double low, double high);

/* A rate between 0 and 1 with its interval, and a second one below it (or NULL). */
typedef struct sb_page_span {
    double low, rate, high;
} sb_page_span;
void sb_page_interval(FILE *out, const sb_page_span *of, const sb_page_span *second);

/* The binary logarithm, linear between powers of two; for drawing only. */
double sb_page_octaves(double x);

/* --- maps and curves -------------------------------------------------------------------------- */

/* O-2: "at most 12,000 fields"; rows and columns are binned to fit. */
enum { SB_PAGE_FIELDS = 12000, SB_PAGE_COLUMNS = 240, SB_PAGE_ROWS = 160, SB_PAGE_POINTS = 360 };

/* An entry of the map's key: the class of a field (n, h0 to h6 or ht), and its meaning in words. */
typedef struct sb_page_key {
    const char *class, *words;
} sb_page_key;

/* A map of rows and columns. The functions print; row and column count from 0. */
typedef struct sb_page_map {
    const void *ctx;
    const char *label;    /* for screen readers */
    size_t rows, columns; /* at most SB_PAGE_ROWS and SB_PAGE_COLUMNS */
    unsigned wide;        /* the width of a field in pixels, where there is room */
    void (*field)(FILE *out, const void *ctx, size_t row, size_t column); /* sb_page_field */
    void (*row)(FILE *out, const void *ctx, size_t row);
    void (*column)(FILE *out, const void *ctx, size_t column);
    void (*marks)(FILE *out, const void *ctx); /* prints marks over the fields; or NULL */
    const sb_page_key *keys;                   /* NULL at the end */
} sb_page_map;
void sb_page_map_print(FILE *out, const sb_page_map *map);

/* Opens a field; its words are printed before it is closed. */
void sb_page_field(FILE *out, size_t row, size_t column, const char *class);
void sb_page_field_end(FILE *out);

/* Values along a text, on a logarithmic scale that is the same in every page. */
typedef struct sb_page_curve {
    const void *ctx;
    const char *label; /* for screen readers */
    size_t count;
    int (*value)(const void *ctx, size_t i, double *value); /* 0: it has none */
    int (*flag)(const void *ctx, size_t i);                 /* 1: a red stroke */
    const char *unit;                                       /* "position": of both ends */
    uint64_t first, last;
} sb_page_curve;

/* Returns the number of flags. */
size_t sb_page_curve_print(FILE *out, const sb_page_curve *curve);

/* Points of a curve or bars: `count` bins of `size` items each. */
typedef struct sb_page_bins {
    size_t count, size;
} sb_page_bins;
sb_page_bins sb_page_bins_of(size_t things);

/* The names of both ends below a chart. */
void sb_page_ends(FILE *out, const char *unit, uint64_t first, uint64_t last);

/* The style in parts, none longer than C11 allows for a string; NULL at the end. */
extern const char *const sb_page_style[];

#endif
