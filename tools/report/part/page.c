#include "tools/report/part/page.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/spec.h"
#include "ref/samebit.h"
#include "tools/report/part/print.h"
#include "tools/report/part/xml.h"

const char *sb_page_tone_name(sb_page_tone tone)
{
    static const char *const names[] = {"open", "good", "tie", "bad"};
    return names[tone];
}

/* --- text ------------------------------------------------------------------------------------- */

void sb_page_text(FILE *out, const char *text)
{
    sb_xml_escape(out, text);
}

void sb_page_code(FILE *out, const char *text)
{
    fputs("<code>", out);
    sb_page_text(out, text);
    fputs("</code>", out);
}

/* A name like vLLM stays as it is. */
void sb_page_sentence(FILE *out, const char *text)
{
    size_t n = strlen(text);
    int lower = n && *text >= 'a' && *text <= 'z' && !(text[1] >= 'A' && text[1] <= 'Z');
    if (lower)
        fputc(*text - 'a' + 'A', out);
    sb_page_text(out, text + lower);
    if (n && text[n - 1] != '.')
        fputc('.', out);
}

/* Prints line by line, because escaping loses line breaks. */
void sb_page_lines(FILE *out, const char *class, const char *text)
{
    fprintf(out, "<pre class=\"%s\">", class);
    while (*text) {
        char one[1024];
        size_t n = strcspn(text, "\n");
        snprintf(one, sizeof one, "%.*s", (int)(n < sizeof one ? n : sizeof one - 1), text);
        sb_page_text(out, one);
        fputc('\n', out);
        text += n + (text[n] == '\n');
    }
    fputs("</pre>\n", out);
}

void sb_page_chip(FILE *out, sb_page_tone tone, const char *word)
{
    fprintf(out, "<span class=\"verdict %s\">", sb_page_tone_name(tone));
    sb_page_text(out, word);
    fputs("</span>", out);
}

sb_page_number sb_page_ratio(double ratio)
{
    sb_page_number out;
    if (ratio > 0x1.fffffffffffffp1023)
        snprintf(out.text, sizeof out.text, "no bound");
    else
        snprintf(out.text, sizeof out.text,
                 ratio >= 1e5   ? "%.1e"
                 : ratio >= 100 ? "%.0f"
                                : "%.3g",
                 ratio);
    return out;
}

void sb_page_count(FILE *out, uint64_t count, const char *noun)
{
    fprintf(out, "%" PRIu64 " %s%s", count, noun, count == 1 ? "" : "s");
}

/* --- the frame -------------------------------------------------------------------------------- */

/* O-1: "loads nothing and runs nothing". The page also tells the browser so. */
void sb_page_open(FILE *out, const char *word, const char *title)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
          "style-src 'unsafe-inline'\"/>\n<title>",
          out);
    fprintf(out, "%s: ", word);
    sb_page_text(out, title);
    fputs("</title>\n<style>\n", out);
    for (size_t i = 0; sb_page_style[i]; i++)
        fputs(sb_page_style[i], out);
    fputs("</style>\n</head>\n<body>\n<main>\n<p class=\"program\">samebit " SAMEBIT_VERSION
          "</p>\n",
          out);
}

void sb_page_close(FILE *out)
{
    fputs("</main>\n</body>\n</html>\n", out);
}

void sb_page_head(FILE *out, sb_page_tone tone, const char *word, const char *subject,
                  const char *what, const char *meaning)
{
    const char *class = sb_page_tone_name(tone);
    fprintf(out, "<header class=\"%s\" data-verdict=\"%s\">\n<p class=\"badge %s\">%s</p>\n<h1>",
            class, word, class, word);
    sb_page_text(out, subject);
    fprintf(out, "%s</h1>\n<p class=\"meaning\">", what);
    sb_page_sentence(out, meaning);
    fputs("</p>\n", out);
}

void sb_page_head_end(FILE *out)
{
    fputs("</header>\n", out);
}

void sb_page_section(FILE *out, const char *id, const char *title, const char *hint)
{
    fprintf(out, "<section data-section=\"%s\">\n<h2>%s</h2>\n<p class=\"hint\">%s</p>\n", id,
            title, hint);
}

void sb_page_section_end(FILE *out)
{
    fputs("</section>\n", out);
}

/* Prints an argument, in quotes if a shell needs them. */
static void print_argument(FILE *out, const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "-_=+./:,%@";
    int quoted = !*text || strspn(text, plain) != strlen(text);
    fputs(quoted ? " '" : " ", out);
    for (const char *c = text; *c; c++)
        if (*c == '\'')
            fputs("'\\''", out);
        else
            fputc(*c, out);
    fputs(quoted ? "'" : "", out);
}

void sb_page_command(FILE *out, const char *const *arguments, size_t count)
{
    fputs("samebit", out);
    for (size_t i = 0; i < count; i++)
        print_argument(out, arguments[i]);
    fputc('\n', out);
}

typedef struct command_line {
    const char *const *arguments;
    size_t count;
} command_line;

static int print_command(FILE *out, const void *ctx)
{
    const command_line *line = ctx;
    sb_page_command(out, line->arguments, line->count);
    return 1;
}

void sb_page_again(FILE *out, const char *const *arguments, size_t count)
{
    const command_line line = {arguments, count};
    char *text;
    size_t size;
    sb_page_section(out, "again", "To repeat it", "The command and its inputs.");
    if (sb_print_memory(print_command, &line, "command line", &text, &size, NULL) == SB_OK) {
        text[size - 1] = '\0'; /* removes the newline */
        fputs("<pre class=\"command\">", out);
        sb_page_text(out, text);
        fputs("</pre>\n", out);
        free(text);
    } /* else the page is marked as incomplete, and is not written */
    sb_page_list(out);
}

void sb_page_again_end(FILE *out)
{
    fprintf(out, "<dt>specification</dt><dd>version %d</dd>\n", SB_SPEC_VERSION);
    sb_page_list_end(out);
    sb_page_section_end(out);
}

/* --- facts, lists, tables --------------------------------------------------------------------- */

void sb_page_facts(FILE *out)
{
    fputs("<dl class=\"facts\">\n", out);
}

void sb_page_fact(FILE *out, const char *name)
{
    fprintf(out, "<div><dt>%s</dt><dd>", name);
}

void sb_page_fact_end(FILE *out)
{
    fputs("</dd></div>\n", out);
}

void sb_page_fact_text(FILE *out, const char *name, const char *value)
{
    sb_page_fact(out, name);
    sb_page_text(out, value);
    sb_page_fact_end(out);
}

void sb_page_fact_count(FILE *out, const char *name, uint64_t value)
{
    sb_page_fact(out, name);
    fprintf(out, "%" PRIu64, value);
    sb_page_fact_end(out);
}

void sb_page_facts_end(FILE *out)
{
    fputs("</dl>\n", out);
}

void sb_page_list(FILE *out)
{
    fputs("<dl class=\"list\">\n", out);
}

void sb_page_item(FILE *out, const char *name, const char *value)
{
    fprintf(out, "<dt>%s</dt><dd>", name);
    sb_page_code(out, value);
    fputs("</dd>\n", out);
}

void sb_page_list_end(FILE *out)
{
    fputs("</dl>\n", out);
}

void sb_page_table(FILE *out, const char *class, const char *columns)
{
    fprintf(out, "<div class=\"scroll\"><table class=\"%s\">\n<tr>", class);
    for (const char *at = columns;; at++) {
        size_t n = strcspn(at, "|");
        int left = *at == '<';
        fprintf(out, "<th%s>%.*s</th>", left ? " class=\"left\"" : "", (int)n - left, at + left);
        at += n;
        if (!*at)
            break;
    }
    fputs("</tr>\n", out);
}

void sb_page_table_end(FILE *out)
{
    fputs("</table></div>\n", out);
}

/* --- bars ------------------------------------------------------------------------------------- */

void sb_page_bar(FILE *out, double share)
{
    int over = !(share <= 1.0);
    fprintf(out, "<span class=\"bar%s\"><i style=\"width:%.0f%%\"></i></span>", over ? " over" : "",
            over ? 100.0 : 100.0 * share);
}

void sb_page_ratio_bar(FILE *out, double ratio)
{
    const double most = 10; /* octaves on both sides of 1 */
    double octaves = ratio > 0 ? sb_page_octaves(ratio) : -most;
    double share = (octaves + most) / (2 * most);
    fprintf(out, "<span class=\"bar ratio%s\"><i style=\"width:%.0f%%\"></i></span>",
            ratio <= 1.0 ? "" : " over",
            !(share < 1.0) ? 100.0
            : share > 0    ? 100.0 * share
                           : 0.0);
}

double sb_page_octaves(double x)
{
    uint64_t bits = sb_bits_f64(x), ones = 0x3ffULL << 52;
    double part = sb_f64_from_bits((bits & 0xfffffffffffffULL) | ones) - 1.0;
    return (double)(bits >> 52 & 0x7ff) - 1023.0 + part;
}

void sb_page_log_bar(FILE *out, double value, double low, double high)
{
    double share = value > low && high > low ? (sb_page_octaves(value) - sb_page_octaves(low)) /
                                                   (sb_page_octaves(high) - sb_page_octaves(low))
                                             : 0.0;
    sb_page_bar(out, share < 1.0 ? share : 1.0);
}

static void print_span(FILE *out, const sb_page_span *s, double y, const char *class)
{
    fprintf(out,
            "<path class=\"%s\" d=\"M%.2f %.1fH%.2f\"/><path class=\"%s at\" "
            "d=\"M%.2f %.1fv8\"/>",
            class, 100.0 * s->low, y, 100.0 * s->high, class, 100.0 * s->rate, y - 4.0);
}

void sb_page_interval(FILE *out, const sb_page_span *of, const sb_page_span *second)
{
    int high = second ? 24 : 12;
    fprintf(out,
            "<svg class=\"chart interval\" viewBox=\"0 0 100 %d\" preserveAspectRatio=\"none\" "
            "style=\"height:%dpx\" aria-hidden=\"true\">",
            high, high);
    print_span(out, of, 6.0, "ref");
    if (second)
        print_span(out, second, 18.0, "eng");
    fputs("</svg>", out);
}
