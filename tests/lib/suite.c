/* suite.c - the cases of a program: `SUITE [FILE[/CASE]...]`, `SUITE --list`, `SUITE FILE
 * ARGUMENT...`.
 */
#include "tests/lib/suite.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ref/base/text.h"
#include "ref/fast/dot/dot.h"

typedef struct entry {
    suite_place place;
    size_t row;
    struct CMUnitTest test;
} entry;

typedef struct group {
    const char *file;
    CMFixtureFunction before, after;
    suite_args *args;
} group;

/* The entries and groups stay until the program ends. */
static entry *entries;
static size_t entry_count;
static group *groups;
static size_t group_count;

/* Makes room for one more item: the array doubles at powers of two. */
static void *grown(void *items, size_t count, size_t size)
{
    if ((count & (count - 1)) == 0)
        items = realloc(items, (count ? 2 * count : 1) * size);
    if (!items)
        abort();
    return items;
}

static group *group_of(const char *file)
{
    for (size_t i = 0; i < group_count; i++)
        if (strcmp(groups[i].file, file) == 0)
            return &groups[i];
    groups = grown(groups, group_count, sizeof *groups);
    groups[group_count] = (group){.file = file};
    return &groups[group_count++];
}

void suite_add(suite_place place, struct CMUnitTest test)
{
    group_of(place.file);
    entries = grown(entries, entry_count, sizeof *entries);
    entries[entry_count] = (entry){place, entry_count, test};
    entry_count++;
}

void suite_add_group(suite_place place, CMFixtureFunction before, CMFixtureFunction after)
{
    group_of(place.file)->before = before;
    group_of(place.file)->after = after;
}

void suite_add_args(suite_place place, suite_args *args)
{
    group_of(place.file)->args = args;
}

static int by_file(const void *a, const void *b)
{
    return strcmp(((const group *)a)->file, ((const group *)b)->file);
}

/* Constructors of different files run in any order, and those of one line in the order of the
 * compiler. */
static int by_place(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    const int files = strcmp(x->place.file, y->place.file);
    if (files || x->place.line != y->place.line)
        return files ? files : x->place.line < y->place.line ? -1 : 1;
    return x->row < y->row ? -1 : 1;
}

/* tests/unit/test_pool.c is test_pool. */
static void stem(const group *g, char *name, size_t size)
{
    snprintf(name, size, "%s", sb_path_last(g->file));
    name[strcspn(name, ".")] = 0;
}

/* Whether a case was named: `FILE`, or `FILE/CASE`, which may have the patterns of a shell. */
static int is_named(const char *file, const char *name, int argc, char **argv)
{
    char whole[1024];
    snprintf(whole, sizeof whole, "%s/%s", file, name);
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], file) == 0 || fnmatch(argv[i], whole, 0) == 0)
            return 1;
    return argc < 2;
}

/* Collects the named cases of a file in `tests`; returns their number. */
static size_t named_of(const group *g, const char *file, int argc, char **argv,
                       struct CMUnitTest *tests)
{
    size_t count = 0;
    for (size_t i = 0; i < entry_count; i++)
        if (strcmp(entries[i].place.file, g->file) == 0 &&
            is_named(file, entries[i].test.name, argc, argv))
            tests[count++] = entries[i].test;
    return count;
}

/* Runs one file of several in a process of its own, so that its threads and other remains do not
 * affect the next one. */
static int run_apart(const group *g, const char *file, const struct CMUnitTest *tests, size_t count)
{
    int status = 0;
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0)
        exit(_cmocka_run_group_tests(file, tests, count, g->before, g->after) != 0);
    if (child < 0 || waitpid(child, &status, 0) != child)
        return 1;
    if (!WIFEXITED(status))
        printf("FAILED %s died of signal %d\n", file, WTERMSIG(status));
    return status != 0;
}

static int list(void)
{
    char file[256];
    for (size_t i = 0; i < entry_count; i++) {
        stem(group_of(entries[i].place.file), file, sizeof file);
        printf("%s/%s\n", file, entries[i].test.name);
    }
    return 0;
}

/* Runs all named cases. */
static int run(int argc, char **argv)
{
    struct CMUnitTest *tests = malloc((entry_count + 1) * sizeof *tests);
    char file[256];
    size_t files = 0, counts = 0;
    int failed = 0;
    if (!tests)
        return 2;
    for (size_t i = 0; i < group_count; i++) {
        stem(&groups[i], file, sizeof file);
        files += named_of(&groups[i], file, argc, argv, tests) > 0;
    }
    for (size_t i = 0; i < group_count; i++) {
        stem(&groups[i], file, sizeof file);
        const size_t count = named_of(&groups[i], file, argc, argv, tests);
        counts += count;
        if (count && files > 1)
            failed |= run_apart(&groups[i], file, tests, count);
        else if (count)
            failed = _cmocka_run_group_tests(file, tests, count, groups[i].before, groups[i].after);
    }
    free(tests);
    if (counts == 0)
        fprintf(stderr, "%s: no such case; --list names them\n", argv[0]);
    return counts == 0 ? 2 : failed != 0;
}

/* Every program of tests computes as the commands do: with the fastest instructions of this
 * machine, or with those of SAMEBIT_ISA. */
int suite_main(int argc, char **argv)
{
    char file[256];
    sb_error err = {""};
    if (sb_math_start(NULL, &err)) {
        fprintf(stderr, "%s: %s\n", argv[0], err.text);
        return 2;
    }
    if (groups)
        qsort(groups, group_count, sizeof *groups, by_file);
    if (entries)
        qsort(entries, entry_count, sizeof *entries, by_place);
    if (argc == 2 && strcmp(argv[1], "--list") == 0)
        return list();
    for (size_t i = 0; argc > 2 && i < group_count; i++) {
        stem(&groups[i], file, sizeof file);
        if (groups[i].args && strcmp(argv[1], file) == 0) {
            const int status = groups[i].args(argc - 1, argv + 1);
            if (status != SUITE_RUNS)
                return status;
            argc = 2; /* the other arguments were for the file */
        }
    }
    return run(argc, argv);
}
