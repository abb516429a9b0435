/* score.c - counts the planted faults that `samebit check` refuses, alone and with the original.
 *
 *   score            the tables of docs/check/score.md, on stdout
 *   score --rows     a line per fault: group, format, FAIL or not alone and with the original
 *   score --only N   the line of row N alone, with every finding
 *
 * SAMEBIT_WEIGHTS=CKPT plants the faults in the weights of CKPT, which has the shape of T3
 * (folder.h).
 *
 * A fault is seen if the run ends in FAIL: a FATAL or ERROR, or a folder that is refused. The rows
 * of score.def were planted by people who had not read the checks. If a fault is missed with the
 * original, `samebit run` runs the damaged and the sound folder: equal digests of logits, states
 * and drafts show a fault that changes no answer. `run` takes ids and writes ids, so that faults in
 * side files are never excused in this way. */
#include "tests/lib/cmocka.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check/folder.h"
#include "tests/check/plant.h"

typedef enum score_group {
#define SB_SCORE_GROUP(id, title) GROUP_##id,
#include "tests/check/score_groups.def"
#undef SB_SCORE_GROUP
    GROUPS
} score_group;

typedef struct score_row {
    score_group group;
    const char *vehicle, *plant, *what;
    const char *reason; /* why files alone cannot show it; "" if they can */
    int alone, against; /* true if the verdict is FAIL */
    int same;           /* missed with the original, and the answers are the same */
} score_row;

static const char *const titles[] = {
#define SB_SCORE_GROUP(id, title) title,
#include "tests/check/score_groups.def"
#undef SB_SCORE_GROUP
};

static score_row rows[] = {
#define SB_SCORE(group, vehicle, plant, what, reason)                                              \
    {GROUP_##group, vehicle, plant, what, reason, 0, 0, 0},
#include "tests/check/score.def"
#undef SB_SCORE
};

enum { ROWS = sizeof rows / sizeof *rows, TEXT = 128 };

/* "T3 nvfp4-ct recipe=plain" -> "nvfp4-ct" */
static const char *format_of(const score_row *row, char text[TEXT])
{
    const char *from = strchr(row->vehicle, ' ') + 1;
    snprintf(text, TEXT, "%.*s", (int)strcspn(from, " "), from);
    return text;
}

/* The vehicle of the same model in bf16, without scales of the cache. */
static const char *original_of(const score_row *row, char text[TEXT])
{
    const char *from = strchr(row->vehicle, ' ') + 1;
    const char *words = from + strcspn(from, " "), *kv = strstr(words, " kv");
    int before = kv ? (int)(kv - words) : (int)strlen(words);
    snprintf(text, TEXT, "%.*sbf16%.*s%s", (int)(from - row->vehicle), row->vehicle, before, words,
             kv ? kv + 3 : "");
    return text;
}

static int fails(const folder_result *r)
{
    for (size_t i = 0; i < r->check.findings.count; i++)
        if (r->check.findings.rows[i].level >= SB_LEVEL_error)
            return 1;
    return r->status != SB_OK;
}

static int run(const score_row *row, const char *against, int print)
{
    folder *f = folder_of(row->vehicle);
    plant(f, row->plant);
    folder_result *r = folder_try(f, against, NULL);
    int failed = fails(r);
    if (print)
        folder_print(r);
    folder_result_free(r);
    folder_free(f);
    return failed;
}

/* The output of `samebit run` for a folder: tokens, digests of logits and states, rounds with
 * drafts. */
static char *answers(const char *path)
{
    static const char tokens[] = "1,2,3,250,17,90,311,45,201,8,77,130,64,299,5,180,222,350,19,101,"
                                 "270,33,158,87,12,366,240,51,199,73,330,144";
    char command[2400], *text = NULL;
    size_t size = 0;
    snprintf(command, sizeof command, "%s run '%s' --tokens %s -n 6 --draft 2 2>&1",
             getenv("SAMEBIT") ? getenv("SAMEBIT") : "build/samebit", path, tokens);
    FILE *in = popen(command, "r"), *out = open_memstream(&text, &size);
    assert_non_null(in);
    assert_non_null(out);
    for (int c; (c = fgetc(in)) != EOF;)
        fputc(c, out);
    fclose(out);
    if (pclose(in) != 0)
        text[0] = '\0'; /* the run failed */
    return text;
}

static int answers_the_same(const score_row *row)
{
    folder *f = folder_of(row->vehicle);
    plant(f, row->plant);
    char *damaged = answers(folder_write(f)), *sound = answers(folder_path(row->vehicle));
    int same = *sound && strcmp(damaged, sound) == 0;
    free(damaged);
    free(sound);
    folder_free(f);
    return same;
}

static void run_row(score_row *row, int print)
{
    char original[TEXT];
    row->alone = run(row, NULL, print);
    row->against = run(row, original_of(row, original), print);
    row->same = !row->against && row->group != GROUP_side && answers_the_same(row);
}

/* --- the tables ------------------------------------------------------------------------------- */

static void print_share(size_t part, size_t all)
{
    printf(" %zu (%zu %%) |", part, all ? (100 * part + all / 2) / all : 0);
}

static void print_line(const char *title, int (*belongs)(const score_row *, const char *))
{
    size_t all = 0, alone = 0, against = 0;
    for (size_t i = 0; i < ROWS; i++)
        if (belongs(&rows[i], title)) {
            all++;
            alone += (size_t)rows[i].alone;
            against += (size_t)rows[i].against;
        }
    printf("| %s | %zu |", title, all);
    print_share(alone, all);
    print_share(against, all);
    printf("\n");
}

static int of_group(const score_row *row, const char *title)
{
    return strcmp(titles[row->group], title) == 0;
}

static int of_format(const score_row *row, const char *title)
{
    char text[TEXT];
    return strcmp(format_of(row, text), title) == 0;
}

static int any(const score_row *row, const char *title)
{
    (void)row, (void)title;
    return 1;
}

static int is_first_of_format(size_t row)
{
    char mine[TEXT];
    format_of(&rows[row], mine);
    for (size_t i = 0; i < row; i++)
        if (of_format(&rows[i], mine))
            return 0;
    return 1;
}

static void print_head(const char *what)
{
    printf("\n| %s | planted | FAIL alone | FAIL with the original |\n|---|---|---|---|\n", what);
}

/* Prints a cell of a table; a '|' in the text must not end the cell. */
static void print_cell(const char *text)
{
    for (const char *c = text; *c; c++)
        printf(*c == '|' ? "\\%c" : "%c", *c == '`' ? '\'' : *c);
}

static void print_missed(const char *title, int with_original)
{
    char text[TEXT];
    printf("\n## %s\n\n| format | what was planted | plant | why |\n|---|---|---|---|\n", title);
    for (size_t i = 0; i < ROWS; i++) {
        const score_row *row = &rows[i];
        if (with_original ? row->against : row->alone || !row->against)
            continue;
        printf("| %s | ", format_of(row, text));
        print_cell(row->what);
        printf(" | `");
        print_cell(row->plant);
        printf("` | %s |\n", with_original && row->same ? "every answer is the same"
                             : *row->reason             ? row->reason
                                                        : "not seen yet");
    }
}

static void print_tables(void)
{
    char text[TEXT];
    printf("\n## By group and by format\n");
    print_head("group");
    for (size_t g = 0; g < GROUPS; g++)
        print_line(titles[g], of_group);
    print_line("all", any);
    print_head("format");
    for (size_t i = 0; i < ROWS; i++)
        if (is_first_of_format(i))
            print_line(format_of(&rows[i], text), of_format);
    print_missed("Missed with the original", 1);
    print_missed("Seen only with the original", 0);
}

static void print_row(size_t i)
{
    char text[TEXT];
    const score_row *row = &rows[i];
    printf("%zu %s %s alone=%s against=%s: %s (%s)\n", i, titles[row->group], format_of(row, text),
           row->alone ? "FAIL" : "missed",
           row->against ? "FAIL"
           : row->same  ? "same"
                        : "missed",
           row->what, row->plant);
}

static int only = -1, list;

static void test_score(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROWS; i++) {
        if (only >= 0 && i != (size_t)only)
            continue;
        run_row(&rows[i], only >= 0);
        if (list)
            print_row(i);
    }
    if (!list)
        print_tables();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_score)};
    list = argc > 1;
    only = argc == 3 ? atoi(argv[2]) : -1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
