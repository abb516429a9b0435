#include "tools/judge/trace/head.h"

#include <string.h>

static const char *const rollbacks[] = {"", "replay", "snapshots", "slots"};
static const char *const drafters[] = {"",        "own",    "external",
                                       "sampled", "eagle3", "eagle3-sampled"};
static const char *const prefixes[] = {"", "full", "block", "checkpoint"};

const char *sb_trace_rollback_name(sb_trace_rollback rollback)
{
    return rollbacks[rollback];
}

const char *sb_trace_drafter_name(sb_trace_drafter drafter)
{
    return drafters[drafter];
}

const char *sb_trace_prefix_name(sb_trace_prefix prefix)
{
    return prefixes[prefix];
}

int sb_trace_replays(sb_trace_rollback rollback)
{
    return rollback == SB_TRACE_ROLLBACK_replay || rollback == SB_TRACE_ROLLBACK_unknown;
}

/* The number of a word, from 1 on; 0: unknown word. */
static size_t number_of(const char *text, const char *const *words, size_t count)
{
    size_t i = count - 1;
    while (i > 0 && strcmp(text, words[i]) != 0)
        i--;
    return i;
}

int sb_trace_rollback_of(const char *text, sb_trace_rollback *out)
{
    *out = (sb_trace_rollback)number_of(text, rollbacks, sizeof rollbacks / sizeof *rollbacks);
    return *out != SB_TRACE_ROLLBACK_unknown;
}

int sb_trace_drafter_of(const char *text, sb_trace_drafter *out)
{
    *out = (sb_trace_drafter)number_of(text, drafters, sizeof drafters / sizeof *drafters);
    return *out != SB_TRACE_DRAFTER_unknown;
}

int sb_trace_prefix_of(const char *text, sb_trace_prefix *out)
{
    *out = (sb_trace_prefix)number_of(text, prefixes, sizeof prefixes / sizeof *prefixes);
    return *out != SB_TRACE_PREFIX_unknown;
}
