/* test_structure.c - the checks that need headers only: what faults.def does not plant.
 *
 *   test_structure               the tests
 *   test_structure --sparse DIR  writes DIR/FORMAT, headers of a 35B model for each of some formats
 */
#include "tests/lib/cmocka.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/check/folder.h"
#include "tests/lib/checkpoint.h"
#include "tests/lib/sparse.h"

static const char *const big[] = {"nvfp4-ct", "nvidia-mix", "fp8-block", "int4-autoround", "bf16"};

static void make_big(const char *format, const char *dir)
{
    test_sparse_make(&(sb_make_options){
        .dir = dir, .preset = "35b-a3b", .format = format, .layout = "vl", .replace = 1});
}

static int make_all(const char *dir)
{
    for (size_t i = 0; i < sizeof big / sizeof *big; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", dir, big[i]);
        make_big(big[i], path);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "--sparse") == 0)
        return make_all(argv[2]);
    return 0;
}
