/* version.c - what this program is. The Makefile says which commit (SB_COMMIT). */
#include <stdio.h>

#include "ref/base/spec.h"
#include "ref/fast/dot/dot.h"
#include "ref/math/start.h"
#include "ref/samebit.h"
#include "tools/cli/commands.h"

#ifndef SB_COMMIT
#define SB_COMMIT "" /* built without git */
#endif

#ifdef __clang__
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

#if defined(__x86_64__)
#define ARCHITECTURE "x86_64"
#elif defined(__aarch64__)
#define ARCHITECTURE "aarch64"
#elif defined(__s390x__)
#define ARCHITECTURE "s390x"
#else
#define ARCHITECTURE "another architecture"
#endif

sb_status sb_print_version(sb_error *err)
{
    static const char commit[] = SB_COMMIT;
    sb_status status = sb_math_start(NULL, err);
    if (status)
        return status;
    printf("samebit %s%s%s, specification %d\n%s, %s, instructions %s\n", SAMEBIT_VERSION,
           commit[0] ? ", commit " : "", commit, (int)SB_SPEC_VERSION, COMPILER, ARCHITECTURE,
           sb_dot_selected());
    return SB_OK;
}
