#include "tools/check/scan/block_votes.h"

#include <string.h>

/* The length of "layers.3." in "layers.3.mlp.up_proj", of "mtp.layers.0." in
 * "mtp.layers.0.mlp.up_proj"; else 0. */
static size_t block_length(const char *plain)
{
    const char *at = strstr(plain, "layers.");
    if (!at)
        return 0;
    at += strlen("layers.");
    at += strspn(at, "0123456789");
    return *at == '.' ? (size_t)(at + 1 - plain) : 0;
}

static int same_block(const sb_member *a, const sb_member *b)
{
    size_t n = block_length(a->plain);
    return block_length(b->plain) == n && strncmp(a->plain, b->plain, n) == 0;
}

static int count(const sb_block_votes *block, sb_vote vote)
{
    uint64_t votes = 0, yes = 0;
    for (const sb_member *m = block->first; m < block->end; m++) {
        int said = vote(m);
        votes += said >= 0;
        yes += said > 0;
    }
    return 2 * yes >= votes;
}

int sb_block_agrees(sb_block_votes *last, const sb_units *units, const sb_member *member,
                    sb_vote vote)
{
    const sb_member *begin = units->members, *end = begin + units->member_count;
    if (last->first && member >= last->first && member < last->end)
        return last->agrees;
    last->first = member;
    last->end = member + 1;
    while (last->first > begin && same_block(member, last->first - 1))
        last->first--;
    while (last->end < end && same_block(member, last->end))
        last->end++;
    last->agrees = count(last, vote);
    return last->agrees;
}
