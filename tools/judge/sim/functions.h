/* functions.h - the errors of a library's functions: the table of functions.def. */
#ifndef SB_SIM_FUNCTIONS_H
#define SB_SIM_FUNCTIONS_H

#include "ref/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A row. The columns are those of functions.def, in units of u = 2^-24. */
typedef struct sb_functions {
    const char *name, *help;
    double exp, exp_slope, log, log_near, log1p, rsqrt, sqrt, turn, power, power_slope, divide;
} sb_functions;

enum {
#define SB_FUNCTIONS(name, ...) SB_FUNCTIONS_##name,
#include "tools/judge/sim/functions.def"
#undef SB_FUNCTIONS
    SB_FUNCTIONS_COUNT
};

extern const sb_functions sb_functions_table[SB_FUNCTIONS_COUNT];

/* By name; SB_ERR_USAGE lists the names. */
sb_status sb_functions_find(const char *name, const sb_functions **out, sb_error *err);

#ifdef __cplusplus
}
#endif

#endif
