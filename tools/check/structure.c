#include "tools/check/check.h"

void sb_check_names(sb_check *check)
{
    (void)check;
}

void sb_check_siblings(sb_check *check)
{
    (void)check;
}

void sb_check_coverage(sb_check *check)
{
    (void)check;
}

void sb_check_uniformity(sb_check *check)
{
    (void)check;
}

void sb_check_shapes(sb_check *check)
{
    (void)check;
}

void sb_check_declaration(sb_check *check)
{
    (void)check;
}

void sb_check_forbidden(sb_check *check)
{
    (void)check;
}

void sb_check_problem(void *ctx, int problem, const char *file, const char *tensor,
                      const char *message)
{
    sb_check_find(ctx, problem == 0 ? 1 : 2, SB_LEVEL_fatal, tensor ? tensor : "", "%s: %s", file,
                  message);
}
