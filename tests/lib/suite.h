/* suite.h - test cases that register themselves. The cases of all files of a folder form one
 * program, a suite.
 *
 *     TEST(test_sums)
 *     {
 *         assert_int_equal(1 + 1, 2);
 *     }
 *
 * is a complete case; no list has to name it. Cases run in the order of their lines, and each file
 * is a group of cmocka. docs/testing.md explains how to run a single case. */
#ifndef SB_TESTS_LIB_SUITE_H
#define SB_TESTS_LIB_SUITE_H

#include "tests/lib/cmocka.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The source position of a case. */
typedef struct suite_place {
    const char *file;
    int line;
} suite_place;

/* Cases of the same place run in the order of registration. `test` is copied, but strings it points
 * to must stay valid. */
void suite_add(suite_place place, struct CMUnitTest test);
/* The fixture of a whole file; a file has one at most. */
void suite_add_group(suite_place place, CMFixtureFunction before, CMFixtureFunction after);
/* A function that runs instead of the cases of a file if the file gets arguments: `SUITE FILE
 * ARGUMENT...`; argv[0] is FILE. Returns an exit status, or SUITE_RUNS to run the cases. */
typedef int suite_args(int argc, char **argv);
enum { SUITE_RUNS = -1 };
void suite_add_args(suite_place place, suite_args *args);

/* The program: runs the named cases, or all; returns the exit status. */
int suite_main(int argc, char **argv);

#ifdef __cplusplus
}
#endif

/* A function that runs before main, so that no list of files or cases is needed. __BASE_FILE__ is
 * the file being compiled, even inside an included file. */
#define SUITE_REGISTERS(name)                                                                      \
    static void name##_registers(suite_place place);                                               \
    __attribute__((constructor)) static void name##_constructor(void)                              \
    {                                                                                              \
        const suite_place place = {__BASE_FILE__, __LINE__};                                       \
        name##_registers(place);                                                                   \
    }                                                                                              \
    static void name##_registers(suite_place place)

/* A case from a declared function, with fixtures, which may be NULL. */
#define TEST_OF(name, before, after)                                                               \
    SUITE_REGISTERS(name)                                                                          \
    {                                                                                              \
        const struct CMUnitTest one = {#name, name, before, after, NULL};                          \
        suite_add(place, one);                                                                     \
    }

/* A case with fixtures; `suite_state` is its argument, the state of cmocka. */
#define TEST_WITH(name, before, after)                                                             \
    static void name(void **state);                                                                \
    TEST_OF(name, before, after)                                                                   \
    static void name(void **suite_state __attribute__((unused)))

#define TEST(name) TEST_WITH(name, NULL, NULL)

/* A function that runs before or after cases; it returns 0 on success. */
#define TEST_FIXTURE(name) static int name(void **suite_state __attribute__((unused)))

/* The fixture of all cases of the file. */
#define TEST_GROUP(before, after)                                                                  \
    SUITE_REGISTERS(suite_group)                                                                   \
    {                                                                                              \
        suite_add_group(place, before, after);                                                     \
    }

/* A function that adds cases by suite_add(place, ...), such as the rows of a table. */
#define TEST_ROWS(name) SUITE_REGISTERS(name)

/* A suite_args of the file. */
#define TEST_ARGS(function)                                                                        \
    SUITE_REGISTERS(function)                                                                      \
    {                                                                                              \
        suite_add_args(place, function);                                                           \
    }

#endif
