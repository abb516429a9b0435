#include "tools/judge/sim/functions.h"

#include <stdio.h>
#include <string.h>

const sb_functions sb_functions_table[SB_FUNCTIONS_COUNT] = {
#define SB_FUNCTIONS(name, ...) {#name, __VA_ARGS__},
#include "tools/judge/sim/functions.def"
#undef SB_FUNCTIONS
};

sb_status sb_functions_find(const char *name, const sb_functions **out, sb_error *err)
{
    char names[400] = "";
    for (size_t i = 0; i < SB_FUNCTIONS_COUNT; i++) {
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "",
                 sb_functions_table[i].name);
        if (strcmp(sb_functions_table[i].name, name) == 0) {
            *out = &sb_functions_table[i];
            return SB_OK;
        }
    }
    return sb_fail(err, SB_ERR_USAGE, "there is no library of functions '%s'; expected one of: %s",
                   name, names);
}
