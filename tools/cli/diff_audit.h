/* diff_audit.h - a trace that contradicts itself is no run of a correct engine: what `samebit
 * trace` finds in it, as audit.h has it, fails in a comparison, too. */
#ifndef SB_CLI_DIFF_AUDIT_H
#define SB_CLI_DIFF_AUDIT_H

#include "tools/compare/verdict.h"
#include "tools/trace/audit.h"

typedef struct sb_diff_audit {
    sb_audit *audit; /* NULL: nothing is looked at */
    size_t found;
    sb_place first;
} sb_diff_audit;

sb_status sb_diff_audit_step(sb_diff_audit *a, const sb_step *step, sb_error *err);

/* The first finding is the failure where nothing else failed. Whether there was another. */
int sb_diff_audit_join(const sb_diff_audit *a, sb_verdicts *verdicts);

#endif
