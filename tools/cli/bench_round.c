#include "tools/cli/bench_round.h"
#include "tools/report/part/document.h"

#include <stdio.h>

/* The cost of a round in plain steps; round 0: no time is known. */
typedef struct cost {
    unsigned drafts;
    double verify, drafting, round;
    double keeping;    /* 0 for the ledger, which does not count it */
    double break_even; /* B-8; above 1: there is none */
} cost;

static cost measured(const sb_device_report *r, unsigned drafts)
{
    const sb_device_round *round = &r->round[drafts - 1];
    const double plain = r->plain.median;
    cost c = {.drafts = drafts};
    if (plain <= 0)
        return c;
    c.verify = round->verify.median / plain;
    c.drafting = round->drafts.median / plain;
    c.keeping = round->accept.median / plain;
    c.round = round->whole.median / plain;
    c.break_even = sb_floor_break_even(drafts, c.round);
    return c;
}

static cost of_ledger(const sb_bench_measured *m, double rate, double latency, unsigned drafts)
{
    sb_floor_options options = *m->options;
    sb_moves_round round;
    options.bandwidth = rate;
    sb_moves_round_of(m->model, &options, drafts, latency, &round);
    return (cost){.drafts = drafts,
                  .verify = round.verify,
                  .drafting = round.drafts,
                  .round = round.verify + round.drafts,
                  .break_even = round.break_even};
}

/* Compares the tokens of a round at the requested acceptance with its cost. */
static const char *outcome(const sb_bench_measured *m, const cost *c)
{
    return sb_floor_emitted(c->drafts, m->options->accept) < c->round ? "LOSES" : "PAYS";
}

/* --- text ------------------------------------------------------------------------------------- */

static void print_cost(const sb_bench_measured *m, const char *whose, const cost *c)
{
    printf("  %6u %-8s", c->drafts, whose);
    if (c->round <= 0) {
        printf(" %9s %9s %9s %9s %10s  -\n", "-", "-", "-", "-", "-");
        return;
    }
    printf(" %9.3f %9.3f ", c->verify, c->drafting);
    if (c->keeping > 0)
        printf("%9.3f", c->keeping);
    else
        printf("%9s", "-");
    printf(" %9.3f ", c->round);
    if (c->break_even <= 1)
        printf("%10.3f", c->break_even);
    else
        printf("%10s", "never");
    printf("  %s\n", outcome(m, c));
}

void sb_bench_print_rounds(const sb_bench_measured *m, double rate, double latency)
{
    const sb_device_report *r = m->report;
    if (!r->rounds)
        return;
    printf("rounds as they were run, in plain steps of one token");
    if (r->plain.median > 0)
        printf(" (%.4f ms, %.4f to %.4f)", 1e3 * r->plain.median, 1e3 * r->plain.least,
               1e3 * r->plain.most);
    printf("; the ledger's at %.0f GB/s and %.2f us from a phase to the next\n", rate / 1e9,
           1e6 * latency);
    printf("  %6s %-8s %9s %9s %9s %9s %10s  at %g\n", "drafts", "", "verify", "drafting",
           "keeping", "round", "break-even", m->options->accept);
    for (unsigned k = 1; k <= r->rounds; k++) {
        const cost run = measured(r, k), ledger = of_ledger(m, rate, latency, k);
        print_cost(m, "measured", &run);
        print_cost(m, "ledger", &ledger);
    }
}

/* --- JSON ------------------------------------------------------------------------------------- */

static json_t *seconds_json(const sb_meter_time *t)
{
    return t->median > 0
               ? json_pack("{s:f,s:f,s:f}", "median", t->median, "least", t->least, "most", t->most)
               : json_null();
}

/* Times in plain steps. */
static json_t *cost_json(const sb_bench_measured *m, const cost *c)
{
    if (c->round <= 0)
        return json_null();
    json_t *out = json_object();
    SB_PUT(out, "verify", c->verify);
    SB_PUT(out, "drafts", c->drafting);
    SB_PUT(out, "accept", SB_KNOWN(c->keeping > 0, c->keeping));
    SB_PUT(out, "round", c->round);
    SB_PUT(out, "break_even_accept", SB_KNOWN(c->break_even <= 1, c->break_even));
    SB_PUT(out, "outcome", outcome(m, c));
    return out;
}

json_t *sb_bench_json_rounds(const sb_bench_measured *m, double rate, double latency)
{
    json_t *out = json_array();
    for (unsigned k = 1; k <= m->report->rounds; k++) {
        const sb_device_round *round = &m->report->round[k - 1];
        const cost run = measured(m->report, k), ledger = of_ledger(m, rate, latency, k);
        json_t *row = json_object();
        SB_PUT(row, "draft", k);
        SB_PUT(row, "verify_s", seconds_json(&round->verify));
        SB_PUT(row, "drafts_s", seconds_json(&round->drafts));
        SB_PUT(row, "accept_s", seconds_json(&round->accept));
        SB_PUT(row, "round_s", seconds_json(&round->whole));
        SB_PUT(row, "measured", cost_json(m, &run));
        SB_PUT(row, "ledger", cost_json(m, &ledger));
        SB_ADD(out, row);
    }
    return out;
}
