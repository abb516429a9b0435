#include "tools/cli/acceptance.h"
#include "ref/base/text.h"
#include "tools/report/part/document.h"

#include <inttypes.h>
#include <stdio.h>

enum { DIGITS = 10000 };

void sb_acceptance_add(sb_acceptance_counts *counts, const sb_round *round)
{
    counts->rounds += round->drafted > 0;
    counts->drafted += round->drafted;
    counts->accepted += round->accepted;
    for (size_t j = 0; j < round->depth; j++) {
        counts->depth[j].drafted++;
        counts->depth[j].accepted += j < round->accepted;
    }
    if (round->depth > counts->depths)
        counts->depths = round->depth;
}

typedef struct ratio {
    char text[32];
} ratio;

/* part / whole with four decimals, rounded to nearest, halves up. Integer arithmetic gives the same
 * text everywhere. Counts of a run are far below 2^64 / DIGITS. */
static ratio print_ratio(uint64_t part, uint64_t whole)
{
    ratio out;
    uint64_t value = whole ? (2 * part * DIGITS + whole) / (2 * whole) : 0;
    snprintf(out.text, sizeof out.text, "%" PRIu64 ".%04" PRIu64, value / DIGITS, value % DIGITS);
    return out;
}

/* A round gives one token more than it accepts: the correction or the bonus token. The last round
 * may emit fewer because of -n. */
static ratio mean_with_bonus(const sb_acceptance_counts *c)
{
    return print_ratio(c->accepted + c->rounds, c->rounds);
}

json_t *sb_acceptance_json(const sb_acceptance_counts *c)
{
    json_t *depths = json_array();
    for (size_t j = 0; j < c->depths; j++) {
        json_t *row = json_object();
        SB_PUT(row, "drafted", c->depth[j].drafted);
        SB_PUT(row, "accepted", c->depth[j].accepted);
        SB_ADD(depths, row);
    }
    json_t *out = json_object();
    SB_PUT(out, "rounds", c->rounds);
    SB_PUT(out, "drafted", c->drafted);
    SB_PUT(out, "accepted", c->accepted);
    SB_PUT(out, "by_depth", depths);
    SB_PUT(out, "mean_accepted",
           c->rounds ? json_string(print_ratio(c->accepted, c->rounds).text) : json_null());
    SB_PUT(out, "mean_with_bonus", SB_KNOWN(c->rounds, mean_with_bonus(c).text));
    return out;
}

void sb_acceptance_print(const sb_acceptance_counts *c)
{
    if (!c->rounds) {
        printf("accepted: no round had a draft\n");
        return;
    }
    printf("accepted %" PRIu64 " of %" PRIu64 " draft%s, %s, in %" PRIu64 " round%s\n", c->accepted,
           c->drafted, sb_s(c->drafted), print_ratio(c->accepted, c->drafted).text, c->rounds,
           sb_s(c->rounds));
    for (size_t j = 0; j < c->depths; j++)
        printf("depth %zu: %" PRIu64 " of %" PRIu64 ", %s\n", j + 1, c->depth[j].accepted,
               c->depth[j].drafted, print_ratio(c->depth[j].accepted, c->depth[j].drafted).text);
    printf("mean acceptance length %s, with the bonus token %s\n",
           print_ratio(c->accepted, c->rounds).text, mean_with_bonus(c).text);
}
