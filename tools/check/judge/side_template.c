/* side_template.c - check 51: can a chat template be parsed? */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/check/judge/side_template.h"

enum { DEPTH = 64, WORD = 24 };

typedef struct reader {
    const char *at, *start;
    char open[DEPTH][WORD]; /* the open blocks, outermost first */
    size_t depth;
    char *why;
    size_t room;
} reader;

/* The line number of a position, counted from 1. */
static size_t line_of(const reader *r, const char *at)
{
    size_t line = 1;
    for (const char *c = r->start; c < at; c++)
        line += *c == '\n';
    return line;
}

static int refuse(reader *r, const char *at, const char *what, const char *word)
{
    snprintf(r->why, r->room, "line %zu: %s%s", line_of(r, at), what, word);
    return 0;
}

/* The position after the tag that opens at `at` and ends with `end`; NULL: it never ends. Strings
 * are skipped, because they may contain anything. As in Jinja, the end counts only outside of
 * braces. */
static const char *behind_tag(const char *at, const char *end)
{
    char quote = '\0';
    size_t braces = 0;
    for (; *at; at++) {
        if (quote) {
            if (*at == '\\' && at[1])
                at++;
            else if (*at == quote)
                quote = '\0';
        } else if (*at == '\'' || *at == '"') {
            quote = *at;
        } else if (*at == '{') {
            braces++;
        } else if (*at == '}' && braces) {
            braces--;
        } else if (strncmp(at, end, 2) == 0) {
            return at + 2;
        }
    }
    return NULL;
}

/* The first word of a block: "for" in "{%- for x in y %}". */
static void word_of(const char *at, char word[WORD])
{
    size_t n = 0;
    at += strspn(at, "-+ \t\r\n");
    while (n + 1 < WORD && ((at[n] >= 'a' && at[n] <= 'z') || at[n] == '_'))
        n++;
    memcpy(word, at, n);
    word[n] = '\0';
}

static int is_one_of(const char *word, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(word, *list) == 0)
            return 1;
    return 0;
}

/* 1 for "{% set x = 1 %}", which is complete; 0 for "{% set x %}", which needs an end. */
static int is_assignment(const char *at, const char *end)
{
    for (; at < end; at++)
        if (*at == '=')
            return 1;
    return 0;
}

static int take_block(reader *r, const char *at, const char *end)
{
    static const char *const opens[] = {"for",        "if",    "macro", "call",
                                        "filter",     "block", "with",  "autoescape",
                                        "generation", "trans", NULL};
    char word[WORD];
    word_of(at, word);
    if (strcmp(word, "raw") == 0)
        return -1; /* its content may be anything: the rest of the text is not judged */
    if (strncmp(word, "end", 3) == 0) {
        if (r->depth == 0)
            return refuse(r, at, "no block is open at the tag ", word);
        if (strcmp(r->open[r->depth - 1], word + 3) != 0)
            return refuse(r, at, "a block of another kind is open at the tag ", word);
        r->depth--;
    } else if (strcmp(word, "else") == 0 || strcmp(word, "elif") == 0) {
        if (r->depth == 0)
            return refuse(r, at, "no block is open at the tag ", word);
    } else if (is_one_of(word, opens) || (strcmp(word, "set") == 0 && !is_assignment(at, end))) {
        if (r->depth == DEPTH)
            return -1; /* deeper than real templates: not judged */
        memcpy(r->open[r->depth++], word, WORD);
    }
    return 1;
}

/* 1: go on; 0: refused; -1: not judged. */
static int take_tag(reader *r)
{
    const char *at = r->at;
    const char *end = at[1] == '#' ? strstr(at + 2, "#}") : NULL;
    if (at[1] == '#') {
        r->at = end ? end + 2 : at;
        return end ? 1 : refuse(r, at, "a comment does not end", "");
    }
    end = behind_tag(at + 2, at[1] == '%' ? "%}" : "}}");
    if (!end)
        return refuse(
            r, at, at[1] == '%' ? "a block {% does not end" : "an expression {{ does not end", "");
    r->at = end;
    return at[1] == '%' ? take_block(r, at + 2, end) : 1;
}

int sb_template_is_whole(const char *text, char *why, size_t room)
{
    reader r = {.at = text, .start = text, .why = why, .room = room};
    while ((r.at = strchr(r.at, '{'))) {
        int go = 1;
        if (r.at[1] == '%' || r.at[1] == '{' || r.at[1] == '#')
            go = take_tag(&r);
        else
            r.at++;
        if (go <= 0)
            return go < 0;
    }
    if (r.depth) {
        snprintf(why, room, "the template ends before the block %s is closed", r.open[r.depth - 1]);
        return 0;
    }
    return 1;
}
