#include "ref/base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

sb_status sb_fail(sb_error *err, sb_status code, const char *format, ...)
{
    if (err) {
        va_list args;
        va_start(args, format);
        vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);
    }
    return code;
}

sb_status sb_fail_in(sb_error *err, sb_status code, const char *prefix)
{
    if (err) {
        char old[sizeof err->text];
        memcpy(old, err->text, sizeof old);
        snprintf(err->text, sizeof err->text, "%s: %.*s", prefix, (int)(sizeof old - 256), old);
    }
    return code;
}

int sb_exit_status(sb_status code)
{
    switch (code) {
    case SB_OK:
        return 0;
    case SB_ERR_DIFF:
        return 1;
    case SB_ERR_USAGE:
        return 2;
    case SB_ERR_SKIPPED:
        return 4;
    default:
        return 3;
    }
}
