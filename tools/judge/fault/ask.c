#include "tools/judge/fault/ask.h"

#include "ref/container/show.h"
#include "tools/check/read/check.h"

sb_status sb_ask_check(const char *folder, void (*found)(void *ctx, const char *check), void *ctx,
                       sb_error *err)
{
    sb_check check;
    sb_status status = sb_check_run(&(sb_check_options){.path = folder}, &check, err);
    if (!status && check.unread)
        status = sb_fail(err, SB_ERR_IO, "%s: some of its files cannot be read", SB_SHOW(folder));
    for (size_t i = 0; i < check.findings.count && !status; i++)
        if (check.findings.rows[i].level != SB_LEVEL_info)
            found(ctx, sb_check_row_of(check.findings.rows[i].check)->id);
    sb_check_free(&check);
    return status;
}
