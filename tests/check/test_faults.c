/* test_faults.c - every fault of faults.def is found at its place, and no benign variation is
 * reported.
 *
 *   test_faults            the tests
 *   test_faults --table    all faults, with what `samebit check` says (docs/check/incidents.md) */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check/folder.h"
#include "tests/check/plant.h"

typedef struct fault_row {
    unsigned check;
    int benign;
    const char *origin, *vehicle, *against, *plant;
    sb_level level;
    const char *where, *around, *what;
} fault_row;

static const fault_row rows[] = {
#define SB_FAULT(check, origin, vehicle, against, plant, level, where, around, what)               \
    {check, 0, origin, vehicle, against, plant, SB_LEVEL_##level, where, around, what},
#define SB_BENIGN(check, vehicle, against, plant, what)                                            \
    {check, 1, "", vehicle, against, plant, SB_LEVEL_info, "", "", what},
#include "tests/check/faults.def"
#undef SB_FAULT
#undef SB_BENIGN
};

enum { ROWS = sizeof rows / sizeof *rows };

/* The result for a vehicle without a plant. Results are kept. */
static folder_result *clean_of(const char *vehicle, const char *against)
{
    static struct {
        const char *vehicle, *against;
        folder_result *result;
    } kept[ROWS];
    static size_t count;
    for (size_t i = 0; i < count; i++)
        if (strcmp(kept[i].vehicle, vehicle) == 0 &&
            (!against || !kept[i].against ? against == kept[i].against
                                          : strcmp(kept[i].against, against) == 0))
            return kept[i].result;
    kept[count].vehicle = vehicle;
    kept[count].against = against;
    return kept[count++].result = folder_check_made(vehicle, against, NULL);
}

/* Checks the folder with the plant, or, without a plant, the vehicle itself. */
static folder_result *run(const fault_row *row)
{
    if (!*row->plant)
        return folder_check_made(row->vehicle, row->against, NULL);
    folder *f = folder_of(row->vehicle);
    plant(f, row->plant);
    folder_result *r = folder_check(f, row->against, NULL);
    folder_free(f);
    return r;
}

static int is_at(const sb_finding *f, const char *where)
{
    return strncmp(where, "file:", 5) == 0 ? strstr(f->message, where + 5) != NULL
                                           : strstr(f->tensor, where) != NULL;
}

/* The finding that a row demands; NULL if it is missing. */
static const sb_finding *demanded(const fault_row *row, const folder_result *r,
                                  const folder_result *clean)
{
    for (size_t i = 0; i < r->check.findings.count; i++) {
        const sb_finding *f = &r->check.findings.rows[i];
        if (f->check == row->check && f->level >= row->level && is_at(f, row->where) &&
            !(clean && folder_has(clean, f)))
            return f;
    }
    return NULL;
}

/* NULL if there is no plant: then the pair of vehicle and original is the fault. */
static const folder_result *clean_for(const fault_row *row)
{
    return *row->plant ? clean_of(row->vehicle, row->against) : NULL;
}

static void fault(const fault_row *row)
{
    const folder_result *clean = clean_for(row);
    folder_result *r = run(row);
    if (clean)
        expect_none_above(clean, SB_LEVEL_warn);
    if (!demanded(row, r, clean)) {
        folder_print(r);
        fail_msg("%s (%s): no %s of check %u at %s", row->what, row->plant,
                 sb_level_name(row->level), row->check, row->where);
    }
    if (clean)
        expect_nowhere_else(r, clean, row->around);
    folder_result_free(r);
}

static void benign(const fault_row *row)
{
    const folder_result *clean = clean_for(row);
    folder_result *r = run(row);
    expect_none_above(r, SB_LEVEL_warn);
    for (size_t i = 0; i < r->check.findings.count; i++) {
        const sb_finding *f = &r->check.findings.rows[i];
        if (f->check != row->check || f->level == SB_LEVEL_info || (clean && folder_has(clean, f)))
            continue;
        folder_print(r);
        fail_msg("%s (%s) is a fault to check %u", row->what, row->plant, row->check);
    }
    folder_result_free(r);
}

static void test_row(void **state)
{
    const fault_row *row = *state;
    if (row->benign)
        benign(row);
    else
        fault(row);
}

/* Every check has a fault that it must find and a variation that it must not report. Check 48
 * compares two decoders of samebit, and no file makes them differ: see test_decoding.c. */
static void test_every_check(void **state __attribute__((unused)))
{
    unsigned missing = 0;
    for (unsigned check = 1; check <= SB_CHECK_LAST; check++) {
        unsigned faults = 0, variations = 0;
        for (size_t i = 0; i < ROWS; i++)
            if (rows[i].check == check)
                *(rows[i].benign ? &variations : &faults) += 1;
        if (check != 48 && (!faults || !variations)) {
            printf("check %u: %u faults, %u benign variations\n", check, faults, variations);
            missing++;
        }
    }
    assert_int_equal(missing, 0);
}

/* Prints a span of code in a cell of a table. */
static void print_code(const char *text)
{
    printf("`");
    for (const char *c = text; *c; c++)
        printf(*c == '|' ? "\\%c" : "%c", *c == '`' ? '\'' : *c);
    printf("`");
}

static void print_row(const fault_row *row)
{
    folder_result *r = run(row);
    const sb_finding *f = demanded(row, r, clean_for(row));
    printf("| %s%s%s%s | %u %s | ", row->origin, *row->origin ? ": " : "", row->what,
           row->against ? " *" : "", row->check, sb_check_row_of(row->check)->id);
    if (f) {
        printf("%s ", sb_level_name(f->level));
        print_code(*f->tensor ? f->tensor : "(the folder)");
        printf(" ");
        print_code(f->message);
    }
    printf("%s |\n", f ? "" : "nothing");
    folder_result_free(r);
}

static void print_table(void)
{
    for (int incidents = 1; incidents >= 0; incidents--) {
        printf("\n## %s\n\n| what is wrong | check | what it says |\n|---|---|---|\n",
               incidents ? "Incidents" : "Other faults that are planted");
        for (size_t i = 0; i < ROWS; i++)
            if (!rows[i].benign && (*rows[i].origin != '\0') == incidents)
                print_row(&rows[i]);
    }
}

/* `check 'test_faults/12 *'` runs the rows of check 12. */
TEST_ROWS(faults)
{
    static char names[ROWS][320];
    suite_add(place,
              (struct CMUnitTest){"every check has both", test_every_check, NULL, NULL, NULL});
    for (size_t i = 0; i < ROWS; i++) {
        snprintf(names[i], sizeof names[i], "%u %s: %s", rows[i].check,
                 rows[i].benign ? "benign" : "fault", rows[i].what);
        suite_add(place,
                  (struct CMUnitTest){names[i], test_row, NULL, NULL, (void *)(uintptr_t)&rows[i]});
    }
}

static int table(int argc, char **argv)
{
    if (argc != 2 || strcmp(argv[1], "--table") != 0)
        return 2;
    print_table();
    return 0;
}
TEST_ARGS(table)
