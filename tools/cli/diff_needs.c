#include "tools/cli/diff_needs.h"

#include <string.h>

#include "ref/container/file.h"

enum {
    LIVE = 1 << SB_SIDE_live,
    TRACE = 1 << SB_SIDE_trace,
    DUMP = 1 << SB_SIDE_dump,
    IDS = 1 << SB_SIDE_ids
};

static const struct {
    const char *option;
    unsigned kinds; /* at least one side must be of these kinds */
    const char *needs;
} needs[] = {
    {"engine-set", LIVE, "an engine of this program, --engine sim:NAME or ref"},
    {"rows", LIVE,
     "an engine of this program, --engine sim:NAME or ref, because it sets how that engine is fed"},
    {"taps", LIVE,
     "an engine of this program, --engine sim:NAME or ref, because a recording has a fixed set of "
     "taps"},
    {"given", IDS, "a file of token ids, because it gives the length of the prompts"},
    {"as", DUMP, "a file of another program (samebit trace --kinds)"},
    {"map", DUMP, "a file of another program (samebit trace --kinds) whose arrays have names"},
    {"sampled", TRACE | DUMP,
     "a trace or a file of another program: engines of this program do not sample, and for token "
     "ids --given selects the judged tokens"},
    {"drafter", TRACE,
     "a trace, or the folder of a drafter: else an engine of this program drafts with its own "
     "head; other inputs have no rounds"},
    {"forced", LIVE | TRACE | DUMP, "values, but a file of token ids has none"},
    {"free", LIVE | TRACE | DUMP, "values, but a file of token ids has none"},
    {"explain", LIVE | TRACE | DUMP, "values, but a file of token ids has none"},
    {"arithmetic", LIVE | TRACE | DUMP, "values, but a file of token ids has none"},
    {"functions", LIVE | TRACE | DUMP, "values, but a file of token ids has none"},
    {"delta-chunk", LIVE | TRACE | DUMP, "values, but a file of token ids has none"},
    {"need-ops", LIVE | TRACE | DUMP, "values, but a file of token ids has none"},
};

static int was_given(const sb_command_line *line, const char *name)
{
    for (size_t i = 0; i < line->opt_count; i++)
        if (strcmp(line->opts[i].name, name) == 0)
            return (line->given >> i & 1) != 0;
    return 0;
}

/* True for --drafter DIR, with which an engine of this program drafts. */
static int is_folder(const sb_command_line *line, const char *name)
{
    for (size_t i = 0; i < line->opt_count; i++)
        if (strcmp(name, "drafter") == 0 && strcmp(line->opts[i].name, name) == 0)
            return sb_is_folder(*(const char *const *)line->opts[i].value);
    return 0;
}

sb_status sb_diff_needs(const sb_command_line *line, const sb_side *sides, size_t count,
                        sb_error *err)
{
    unsigned kinds = 0;
    for (size_t i = 0; i < count; i++)
        kinds |= 1U << sides[i].kind;
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++)
        if (was_given(line, needs[i].option) &&
            !(kinds & (needs[i].kinds | (is_folder(line, needs[i].option) ? LIVE : 0))))
            return sb_fail(err, SB_ERR_USAGE, "--%s has no effect here: it needs %s",
                           needs[i].option, needs[i].needs);
    return SB_OK;
}
