#include "tools/report/diff/statistics.h"

#include <inttypes.h>

enum { FLIPS_SHOWN = 5 };

static void print_flips(const sb_statistics *s, FILE *out)
{
    for (size_t i = 0; i < s->flip_count && i < FLIPS_SHOWN; i++)
        fprintf(out, "%s %" PRIu64 " by %.3g", i ? "," : "; flips: position", s->flips[i].position,
                s->flips[i].margin);
    if (s->flip_count > FLIPS_SHOWN)
        fprintf(out, " and %zu more", s->flip_count - FLIPS_SHOWN);
}

static void print_claim(const sb_sequential *t, FILE *out)
{
    if (t->claim == SB_CLAIM_open)
        fprintf(
            out,
            "never another token: open; %" PRIu64
            " more tokens without a flip would show a rate below %g; shown so far: below %.2g\n",
            sb_sequential_more(t), t->p1, sb_sequential_rate(t));
    if (t->claim == SB_CLAIM_holds)
        fprintf(out,
                "never another token: holds, the rate is below %.2g (probability of error %g)\n",
                sb_sequential_rate(t), t->beta);
    if (t->claim == SB_CLAIM_broken)
        fprintf(out, "never another token: broken, %" PRIu64 " of %" PRIu64 "\n", t->hits, t->seen);
}

void sb_statistics_text(const sb_statistics *s, FILE *out)
{
    if (s->kl.count)
        fprintf(out, "kl%s: mean %.2e, median %.2e, 90 %% %.2e, 99 %% %.2e, largest %.2e\n",
                s->kl_lower ? " at least" : "", s->kl.mean, s->kl.median, s->kl.p90, s->kl.p99,
                s->kl.most);
    if (s->agreement.of) {
        fprintf(out, "the same token: %" PRIu64 " of %" PRIu64 " (%.4f to %.4f)",
                s->agreement.accepted, s->agreement.of, s->agreement_at.low, s->agreement_at.high);
        print_flips(s, out);
        fputc('\n', out);
        print_claim(&s->never, out);
    }
    if (s->accepted[1].count)
        fprintf(out,
                "acceptance length: reference %.4f (%.4f to %.4f), engine %.4f (%.4f to %.4f)\n",
                s->accepted[0].mean, s->accepted[0].low, s->accepted[0].high, s->accepted[1].mean,
                s->accepted[1].low, s->accepted[1].high);
}

static json_t *mean_json(const sb_mean *m)
{
    if (!m->count)
        return json_null();
    return json_pack("{s:I,s:f,s:f,s:f}", "rounds", (json_int_t)m->count, "mean", m->mean, "low",
                     m->low, "high", m->high);
}

static json_t *flips_json(const sb_statistics *s)
{
    json_t *list = json_array();
    for (size_t i = 0; i < s->flip_count; i++) {
        const sb_flip *f = &s->flips[i];
        json_t *one = json_pack("{s:I,s:I,s:{s:I,s:I},s:f,s:s}", "sequence",
                                (json_int_t)f->sequence, "position", (json_int_t)f->position, "top",
                                "ref", (json_int_t)f->top[0], "engine", (json_int_t)f->top[1],
                                "margin", f->margin, "verdict", sb_verdict_name(f->verdict));
        if (json_array_append_new(list, one) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

json_t *sb_statistics_json(const sb_statistics *s)
{
    json_t *kl = s->kl.count
                     ? json_pack("{s:I,s:f,s:f,s:f,s:f,s:f,s:b}", "tokens", (json_int_t)s->kl.count,
                                 "mean", s->kl.mean, "median", s->kl.median, "p90", s->kl.p90,
                                 "p99", s->kl.p99, "max", s->kl.most, "is_lower", s->kl_lower > 0)
                     : json_null();
    return json_pack(
        "{s:o,s:{s:I,s:I,s:f,s:f,s:f},s:o,s:{s:o,s:o},s:{s:s,s:f,s:f,s:f,s:f,s:I}}", "kl", kl,
        "top1", "count", (json_int_t)s->agreement.accepted, "of", (json_int_t)s->agreement.of,
        "rate", s->agreement_at.rate, "low", s->agreement_at.low, "high", s->agreement_at.high,
        "flips", flips_json(s), "acceptance_length", "ref", mean_json(&s->accepted[0]), "engine",
        mean_json(&s->accepted[1]), "never_differs", "claim", sb_claim_name(s->never.claim), "rate",
        s->never.p1, "alpha", s->never.alpha, "beta", s->never.beta, "rarer_than",
        sb_sequential_rate(&s->never), "more", (json_int_t)sb_sequential_more(&s->never));
}
