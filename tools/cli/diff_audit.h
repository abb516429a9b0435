/* diff_audit.h - a trace that contradicts itself comes from no correct engine: findings of `samebit
 * trace` (audit.h) also fail a comparison. */
#ifndef SB_CLI_DIFF_AUDIT_H
#define SB_CLI_DIFF_AUDIT_H

#include "tools/judge/compare/verdict.h"
#include "tools/judge/trace/audit.h"

typedef struct sb_diff_audit {
    sb_audit *audit; /* NULL: no audit */
    size_t found;
    sb_place first;
} sb_diff_audit;

sb_status sb_diff_audit_step(sb_diff_audit *a, const sb_step *step, sb_error *err);

/* Makes the first finding the failure if nothing else failed. Returns 1 if there was another
 * failure. */
int sb_diff_audit_join(const sb_diff_audit *a, sb_verdicts *verdicts);

#endif
