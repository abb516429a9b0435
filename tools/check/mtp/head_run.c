#include "tools/check/mtp/head_run.h"

#include "tools/check/read/word.h"

const char *sb_head_verdict_name(sb_head_verdict verdict)
{
    static const char *const names[] = {"HEAD-OK", "HEAD-WEAK", "UNKNOWN"};
    return names[verdict];
}

void sb_mtp_audit_join(sb_mtp_audit *audit, const sb_head_run *run, const char *path,
                       const char *original)
{
    if (audit->verdict != SB_MTP_FILE_OK || run->verdict != SB_HEAD_WEAK)
        return;
    audit->verdict = SB_MTP_HEAD_WEAK;
    audit->fault_count = 0; /* no loader is involved */
    audit->settle[0][0] = audit->settle[1][0] = '\0';
    snprintf(audit->why, sizeof audit->why, "%.300s", run->why);
    snprintf(audit->next, sizeof audit->next, "samebit graft %s --take 'mtp.*' --from %s -o OUT",
             SB_WORD(path), SB_WORD(original ? original : "ORIGINAL"));
}
