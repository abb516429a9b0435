/* cmd_check.c - samebit check: corruption found from the files. */
#include <stdio.h>
#include <string.h>

#include "tools/check/check.h"
#include "tools/cli/cli.h"
#include "tools/cli/opts.h"

sb_status sb_cmd_check(int argc, char **argv, sb_error *err)
{
    const char *against = NULL;
    uint64_t threads = 0;
    int headers = 0;
    const sb_opt opts[] = {
        {"against", 0, SB_OPT_STRING, &against, "ORIGINAL",
         "the checkpoint it claims to come from"},
        {"headers", 0, SB_OPT_FLAG, &headers, NULL, "names, shapes and configuration only"},
        {"threads", 0, SB_OPT_NUMBER, &threads, "T", "number of threads; never changes a finding"},
    };
    sb_command_line line = {.usage = "check CKPT [--against ORIGINAL]",
                            .about = "Tells whether a checkpoint is intact.",
                            .opts = opts,
                            .opt_count = sizeof opts / sizeof *opts,
                            .min_operands = 1,
                            .max_operands = 1};
    sb_status status = sb_parse(&line, argc, argv, err);
    if (status || line.helped)
        return status;
    sb_set_threads((unsigned)threads);
    sb_check_options options = {.path = line.operand[0],
                                .against = against,
                                .headers_only = headers,
                                .progress = sb_progress};
    sb_check check;
    status = sb_check_run(&options, &check, err);
    int bad = 0;
    for (size_t i = 0; i < check.findings.count; i++) {
        const sb_finding *f = &check.findings.rows[i];
        printf("%-5s %2u %s: %s\n", sb_level_name(f->level), f->check, f->tensor, f->message);
        bad |= f->level >= SB_LEVEL_error;
    }
    sb_check_free(&check);
    return status || !bad ? status : sb_fail(err, SB_ERR_DIFF, "%s: has errors", line.operand[0]);
}
