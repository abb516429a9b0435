#include "tools/judge/accept/verdict.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *sb_accept_verdict_name(sb_accept_verdict verdict)
{
    static const char *const names[] = {"CONSISTENT", "BELOW", "ABOVE",
                                        "UNKNOWN",    "EQUAL", "DIFFERS"};
    return names[verdict];
}

/* E-5: "a length with the bonus token is one more than a length without it" */
sb_accept_definitions sb_observed_definitions(const sb_observed *o)
{
    sb_accept_definitions d = {0};
    double rounds = (double)o->rounds, accepted = (double)o->accepted;
    if (o->has_rounds && o->has_accepted && o->rounds) {
        d.has_length = 1;
        d.length = accepted / rounds;
        d.bonus_length = 1 + d.length;
    }
    if (o->has_drafted && o->has_accepted && o->drafted) {
        d.has_rate = 1;
        d.rate = accepted / (double)o->drafted;
    } else if (o->has_rate && o->has_rounds && o->rounds) {
        d.has_rate = 1;
        d.rate = o->accepted_share / rounds;
    }
    if (o->has_drafted && o->has_rounds && o->rounds) {
        d.has_drafts = 1;
        d.drafts = (double)o->drafted / rounds;
    }
    return d;
}

static void explain(sb_accept_comparison *c, const char *format, ...) SB_PRINTF(2, 3);
static void explain(sb_accept_comparison *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(c->why, sizeof c->why, format, args);
    va_end(args);
}

/* E-7: "0 lies outside of Newcombe's interval": then the rates differ. */
static void add_line(sb_accept_comparison *c, size_t depth, const sb_rate *engine,
                     const sb_rate *reference)
{
    sb_accept_line *line = &c->lines[c->count++];
    *line = (sb_accept_line){.depth = depth, .engine = *engine, .reference = *reference};
    line->difference = sb_rate_difference(engine, reference, SB_Z_DECIDES);
    line->verdict = line->difference.high < 0  ? SB_ACCEPT_BELOW
                    : line->difference.low > 0 ? SB_ACCEPT_ABOVE
                                               : SB_ACCEPT_CONSISTENT;
}

/* --- comparable counts ------------------------------------------------------------------------ */

/* E-8: "at depth 1 always, and at deeper ones only where every round had that many drafts, or an
 * n-gram drafts". Returns that number; 0: rounds differ, or it is not known. */
static uint64_t drafts_of(const sb_observed *o)
{
    int even = o->has_drafted && o->rounds && o->drafted % o->rounds == 0;
    return even && o->drafted / o->rounds >= o->depths ? o->drafted / o->rounds : 0;
}

static void compare_depths(const sb_accept *a, const sb_observed *o, sb_accept_comparison *c)
{
    uint64_t deepest = a->uneven ? o->depths : drafts_of(o) ? drafts_of(o) : 1;
    for (size_t j = 0; j < deepest && j < a->drafts && j < SB_OBSERVED_DEPTHS; j++) {
        const sb_rate *own = &a->depth[j].rate;
        sb_rate engine = {o->by_depth[j], o->rounds, own->effect};
        add_line(c, j + 1, &engine, own);
    }
}

/* E-8: "The number of trials is then the number of rounds". A round's share is a
 * number from 0 to 1, whose variance is at most that of a coin with the same mean. */
static void compare_total(const sb_accept *a, uint64_t rounds, uint64_t accepted,
                          sb_accept_comparison *c)
{
    double effect = 1;
    uint64_t K = a->drafts;
    for (size_t j = 0; j < a->drafts; j++)
        if (a->depth[j].rate.effect > effect)
            effect = a->depth[j].rate.effect;
    /* as rates of K times as many trials, where K trials count as one */
    sb_rate engine = {accepted, rounds * K, effect * (double)K};
    sb_rate own = {a->accepted, a->drafting * K, effect * (double)K};
    add_line(c, 0, &engine, &own);
}

/* E-12: "accepted = rate times rounds times K must be whole" */
static int accepted_from_rate(const sb_observed *o, size_t K, uint64_t *accepted)
{
    double product = o->accepted_share * (double)K;
    *accepted = (uint64_t)(product + 0.5);
    double off = product - (double)*accepted;
    return off < 1e-3 && off > -1e-3;
}

static void compare_counts(const sb_accept *a, const sb_observed *o, sb_accept_comparison *c)
{
    uint64_t accepted = o->accepted, K = a->drafts;
    if (o->has_drafted && o->drafted != o->rounds * K)
        explain(c,
                "%s drafted %llu tokens in %llu rounds, expected %zu per round: repeat with the K "
                "of the engine",
                sb_engine_name(o->engine), (unsigned long long)o->drafted,
                (unsigned long long)o->rounds, a->drafts);
    else if (!o->has_accepted && !o->has_rate)
        explain(c, "both the number of accepted drafts and the acceptance rate are missing: a mean "
                   "length alone also counts other tokens");
    else if (!o->has_accepted && !accepted_from_rate(o, a->drafts, &accepted))
        explain(c, "the rate does not fit %zu drafts per round: repeat with the K of the engine",
                a->drafts);
    else if (!o->has_drafted && o->has_accepted)
        explain(c, "the number of drafted tokens is missing");
    else if (accepted > o->rounds * K)
        explain(c, "more than %zu drafts per round are accepted: repeat with the K of the engine",
                a->drafts);
    else
        compare_total(a, o->rounds, accepted, c);
}

/* E-13: "at most n, the tokens of the responses less the accepted drafts, and at least n less the
 * number of requests" */
static void compare_llama(const sb_accept *a, const sb_observed *o, sb_accept_comparison *c)
{
    uint64_t K = a->drafts;
    uint64_t most = o->emitted > o->accepted ? o->emitted - o->accepted : 0;
    uint64_t least = most > o->parts ? most - o->parts : 0;
    /* one round of each request may have up to K drafts fewer, or be missing */
    uint64_t short_of = K * o->parts;
    if (!o->has_emitted) {
        explain(c, "predicted_n is missing, so the number of rounds is unknown");
        return;
    }
    if (o->drafted > K * most || o->drafted + short_of < K * least) {
        explain(c,
                "%llu drafts in %llu to %llu rounds are not %zu per round: rounds were cut short "
                "(by a probability limit?), or the engine has another K",
                (unsigned long long)o->drafted, (unsigned long long)least, (unsigned long long)most,
                a->drafts);
        return;
    }
    uint64_t rounds = o->drafted / K;
    if (rounds == 0 || o->accepted > rounds * K) {
        explain(c, "too few drafts for a verdict");
        return;
    }
    compare_total(a, rounds, o->accepted, c);
}

/* --- the verdict ------------------------------------------------------------------------------ */

/* The worst line decides; among equally bad lines, the one with the smallest depth. */
static void decide(const sb_observed *o, sb_accept_comparison *c)
{
    static const char *const words[] = {
        "accepts as often as the reference, within the resolution of this number of rounds",
        "accepts less often than the reference", "accepts more often than the reference"};
    char which[40] = "";
    c->verdict = SB_ACCEPT_CONSISTENT;
    for (size_t i = 0; i < c->count && c->verdict == SB_ACCEPT_CONSISTENT; i++) {
        c->verdict = c->lines[i].verdict;
        if (c->verdict != SB_ACCEPT_CONSISTENT && c->lines[i].depth)
            snprintf(which, sizeof which, " at depth %zu", c->lines[i].depth);
    }
    explain(c, "%s %s%s%s", sb_engine_name(o->engine), words[c->verdict], which,
            o->engine == SB_ENGINE_llama && o->accepted == o->drafted
                ? "; all drafts are accepted: some builds count only fully accepted rounds"
                : "");
}

void sb_accept_compare(const sb_accept *accept, const sb_observed *observed,
                       sb_accept_comparison *out)
{
    const sb_observed *o = observed;
    *out = (sb_accept_comparison){.verdict = SB_ACCEPT_UNKNOWN};
    int llama = o->engine == SB_ENGINE_llama;
    if (!llama && !o->has_rounds)
        explain(out, "the number of rounds is missing");
    else if (llama ? !o->drafted : !o->rounds)
        explain(out, "%s counted no drafts at all: it did not speculate",
                sb_engine_name(o->engine));
    else if (accept->uneven && !o->depths)
        explain(out, "rounds of an n-gram have different numbers of drafts, so only counters by "
                     "depth can be compared");
    else if (llama && !(o->has_drafted && o->has_accepted))
        explain(out, "draft_n or draft_n_accepted is missing in a response");
    else if (llama)
        compare_llama(accept, o, out);
    else if (o->depths)
        compare_depths(accept, o, out);
    else
        compare_counts(accept, o, out);
    if (out->count)
        decide(o, out);
}

/* --- counters of the answers themselves ------------------------------------------------------- */

/* The first counter that differs decides. */
static void compare_counter(sb_accept_comparison *c, const char *what, uint64_t engine,
                            uint64_t reference)
{
    if (c->verdict == SB_ACCEPT_DIFFERS || engine == reference)
        return;
    c->verdict = SB_ACCEPT_DIFFERS;
    explain(c, "%s: the engine counted %llu, the reference %llu", what, (unsigned long long)engine,
            (unsigned long long)reference);
}

void sb_accept_compare_counters(const sb_accept *accept, const sb_observed *observed,
                                sb_accept_comparison *out)
{
    const sb_observed *o = observed;
    const sb_accept_chain *own = &accept->chain;
    *out = (sb_accept_comparison){.verdict = SB_ACCEPT_UNKNOWN};
    if (!o->has_rounds || !o->has_drafted || !o->has_accepted) {
        explain(out, "the number of %s is missing",
                !o->has_rounds    ? "rounds"
                : !o->has_drafted ? "drafted tokens"
                                  : "accepted drafts");
        return;
    }
    out->verdict = SB_ACCEPT_EQUAL;
    compare_counter(out, "rounds", o->rounds, own->rounds);
    compare_counter(out, "drafted tokens", o->drafted, own->drafted);
    compare_counter(out, "accepted drafts", o->accepted, own->accepted);
    for (size_t j = 0; j < o->depths; j++) {
        char what[40];
        snprintf(what, sizeof what, "accepted at depth %zu", j + 1);
        compare_counter(out, what, o->by_depth[j], j < accept->drafts ? own->by_depth[j] : 0);
    }
    if (out->verdict == SB_ACCEPT_EQUAL)
        explain(out, "every counter of %s is that of the reference", sb_engine_name(o->engine));
}
