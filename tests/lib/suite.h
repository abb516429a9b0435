/* suite.h - cases that register themselves; those of all files of a folder are one program, a
 * suite.
 *
 *     TEST(test_sums)
 *     {
 *         assert_int_equal(1 + 1, 2);
 *     }
 *
 * is a case of its file, which nothing else has to name. Cases run in the order of their lines, and
 * each file is a group of cmocka. docs/testing.md says how a suite is asked for one of them. */
#ifndef SB_TESTS_LIB_SUITE_H
#define SB_TESTS_LIB_SUITE_H

#include "tests/lib/cmocka.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where a case stands. */
typedef struct suite_place {
    const char *file;
    int line;
} suite_place;

/* More than one of a place run in the order in which they came. What is passed stays where it is.
 */
void suite_add(suite_place place, struct CMUnitTest test);
/* The fixture of a whole file: one of a file. */
void suite_add_group(suite_place place, CMFixtureFunction before, CMFixtureFunction after);
/* What a file does with arguments of its own in place of running its cases: `SUITE FILE
 * ARGUMENT...`, of which argv has FILE first. It returns an exit status, or SUITE_RUNS for the
 * cases. */
typedef int suite_args(int argc, char **argv);
enum { SUITE_RUNS = -1 };
void suite_add_args(suite_place place, suite_args *args);

/* The program: runs the cases that were named, or all; its exit status. */
int suite_main(int argc, char **argv);

#ifdef __cplusplus
}
#endif

/* A body before main, so that no list of files or cases is kept anywhere; __BASE_FILE__ is the file
 * that is compiled, whatever it includes. */
#define SUITE_REGISTERS(name)                                                                      \
    static void name##_registers(suite_place place);                                               \
    __attribute__((constructor)) static void name##_constructor(void)                              \
    {                                                                                              \
        const suite_place place = {__BASE_FILE__, __LINE__};                                       \
        name##_registers(place);                                                                   \
    }                                                                                              \
    static void name##_registers(suite_place place)

/* A case of a function that is declared, with a fixture: NULL, or a CMFixtureFunction. */
#define TEST_OF(name, before, after)                                                               \
    SUITE_REGISTERS(name)                                                                          \
    {                                                                                              \
        const struct CMUnitTest one = {#name, name, before, after, NULL};                          \
        suite_add(place, one);                                                                     \
    }

/* A case, with a fixture; `suite_state` is its argument, as cmocka says. */
#define TEST_WITH(name, before, after)                                                             \
    static void name(void **state);                                                                \
    TEST_OF(name, before, after)                                                                   \
    static void name(void **suite_state __attribute__((unused)))

#define TEST(name) TEST_WITH(name, NULL, NULL)

/* What stands before or after cases; it returns 0 if it worked. */
#define TEST_FIXTURE(name) static int name(void **suite_state __attribute__((unused)))

/* The fixture of all cases of the file. */
#define TEST_GROUP(before, after)                                                                  \
    SUITE_REGISTERS(suite_group)                                                                   \
    {                                                                                              \
        suite_add_group(place, before, after);                                                     \
    }

/* A body that adds cases by suite_add(place, ...): the rows of a table. */
#define TEST_ROWS(name) SUITE_REGISTERS(name)

/* A suite_args of the file. */
#define TEST_ARGS(function)                                                                        \
    SUITE_REGISTERS(function)                                                                      \
    {                                                                                              \
        suite_add_args(place, function);                                                           \
    }

#endif
