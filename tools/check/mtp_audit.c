#include "tools/check/mtp.h"

const char *sb_mtp_verdict_name(sb_mtp_verdict verdict)
{
    static const char *const names[] = {"NONE-DECLARED", "FILE-BAD", "FILE-OK", "HEAD-WEAK"};
    return names[verdict];
}

const char *sb_mtp_state_name(sb_mtp_state state)
{
    static const char *const names[] = {"ok", "note", "bad", "unknown"};
    return names[state];
}

sb_status sb_mtp_audit_make(const sb_check *check, sb_mtp_audit *out, sb_error *err)
{
    (void)err;
    *out = (sb_mtp_audit){.has_config = check->self.has_config};
    return SB_OK;
}
