/* color.c - a filter on stdout, so that no command has to know of colors. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* fopencookie */
#endif
#include "tools/cli/color.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef __linux__

#define RED "\033[1;31m"
#define YELLOW "\033[1;33m"
#define GREEN "\033[1;32m"
#define PLAIN "\033[0m"

static const struct {
    const char *word, *color;
} verdicts[] = {{"PASS", GREEN},      {"IDENTICAL", GREEN},   {"WITHIN", GREEN},
                {"NEAR_TIE", YELLOW}, {"MISTRUSTED", YELLOW}, {"SKIPPED", YELLOW},
                {"WARN", YELLOW},     {"FAIL", RED},          {"ERROR", RED},
                {"FATAL", RED}};
enum { VERDICTS = sizeof verdicts / sizeof *verdicts, LONGEST = 10 };

/* The characters since the beginning of the line that may still become a verdict. */
static struct {
    char held[LONGEST];
    size_t count;
    int inside; /* the beginning of the line is over */
} line;

static int put(const char *bytes, size_t count)
{
    while (count) {
        ssize_t done = write(STDOUT_FILENO, bytes, count);
        if (done <= 0)
            return 0;
        bytes += done;
        count -= (size_t)done;
    }
    return 1;
}

static int put_held(const char *color)
{
    size_t count = line.count;
    line.count = 0;
    if (!color)
        return put(line.held, count);
    return put(color, strlen(color)) && put(line.held, count) && put(PLAIN, strlen(PLAIN));
}

/* The color of what is held, if it is a verdict and `next` ends the word. */
static const char *color_before(char next)
{
    if (next != ' ' && next != ':' && next != '\n')
        return NULL;
    for (size_t i = 0; i < VERDICTS; i++)
        if (strlen(verdicts[i].word) == line.count &&
            memcmp(verdicts[i].word, line.held, line.count) == 0)
            return verdicts[i].color;
    return NULL;
}

static int is_letter(char ch)
{
    return (ch >= 'A' && ch <= 'Z') || ch == '_';
}

static int put_char(char ch)
{
    if (!line.inside && is_letter(ch) && line.count < LONGEST) {
        line.held[line.count++] = ch;
        return 1;
    }
    if (!line.inside && line.count && !put_held(color_before(ch)))
        return 0;
    line.inside = ch != '\n';
    return put(&ch, 1);
}

static ssize_t filter(void *ctx, const char *bytes, size_t count)
{
    (void)ctx;
    for (size_t i = 0; i < count; i++) {
        if (line.inside) { /* the rest of the line goes at once */
            const char *end = memchr(bytes + i, '\n', count - i);
            size_t rest = end ? (size_t)(end - bytes) - i : count - i;
            if (!put(bytes + i, rest))
                return 0;
            i += rest;
            if (!end)
                break;
        }
        if (!put_char(bytes[i]))
            return 0;
    }
    return (ssize_t)count;
}

void sb_color_start(void)
{
    const char *off = getenv("NO_COLOR"), *terminal = getenv("TERM");
    if (!isatty(STDOUT_FILENO) || (off && *off) || !terminal || strcmp(terminal, "dumb") == 0)
        return;
    FILE *colored = fopencookie(NULL, "w", (cookie_io_functions_t){.write = filter});
    if (!colored)
        return;
    setvbuf(colored, NULL, _IOLBF, BUFSIZ);
    stdout = colored;
}

void sb_color_end(void)
{
    put_held(NULL);
}

#else

void sb_color_start(void)
{
}

void sb_color_end(void)
{
}

#endif
