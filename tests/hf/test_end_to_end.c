/* test_end_to_end.c - the whole model against transformers.
 *
 * In binary32, a worst-case bound through all layers would be useless. Therefore the yardstick is
 * no bound, but the change of the model's own results if every intermediate value is randomly
 * rounded anew. In bfloat16, profile hf is compared bit by bit. */
#include "tests/lib/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/hf/whole.h"

/* T-15: "16 envelopes" */
#define ENVELOPES 16.0

enum { SEEDS = 3 };

/* The calls that are compared together, under one name. */
typedef struct part {
    const char *name;
    double error[2], envelope[2]; /* of hidden vectors, of logits */
    size_t compared, nonzero;
} part;

typedef struct report {
    part parts[WHOLE_PARTS];
    size_t count;
    double router[WHOLE_LAYERS]; /* envelope of the router logits of a layer */
} report;

static double distance(const float *a, const float *b, size_t n)
{
    double most = 0.0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]);
        most = d <= most ? most : d; /* a NaN stays the maximum */
    }
    return most;
}

static part *part_of(report *r, const char *name)
{
    for (size_t i = 0; i < r->count; i++)
        if (strcmp(r->parts[i].name, name) == 0)
            return &r->parts[i];
    if (r->count == WHOLE_PARTS)
        fail_msg("more than %d parts", WHOLE_PARTS);
    r->parts[r->count] = (part){.name = name};
    return &r->parts[r->count++];
}

/* The errors of the run compared with the recording. */
static void add_errors(report *r, whole *base)
{
    const sb_config *c = &base->fixture->model->config;
    for (size_t i = 0; i < whole_call_count(); i++) {
        const whole_call *call = whole_call_at(i);
        size_t size[2] = {call->compared * c->hidden_size, call->compared * c->vocab_size};
        const float *got[2] = {base->hidden[i], base->logits[i]};
        if (call->compared == 0)
            continue;
        part *p = part_of(r, call->name);
        for (size_t j = 0; j < 2; j++) {
            const float *want = whole_recorded(base, i, j ? "logits" : "hidden");
            if (!want)
                fail_msg("%s has no %s", base->fixture->name, call->name);
            p->error[j] = fmax(p->error[j], distance(got[j], want, size[j]));
            p->compared += size[j];
            for (size_t k = 0; k < size[j]; k++)
                p->nonzero += want[k] != 0.0f;
        }
    }
}

/* The distance between the run and a run with other roundings. */
static void add_envelope(report *r, const whole *base, const whole *other)
{
    const sb_config *c = &base->fixture->model->config;
    for (size_t i = 0; i < whole_call_count(); i++) {
        const whole_call *call = whole_call_at(i);
        for (size_t layer = 0; layer < WHOLE_LAYERS; layer++)
            if (base->router[i][layer] && other->router[i][layer])
                r->router[layer] =
                    fmax(r->router[layer], distance(base->router[i][layer], other->router[i][layer],
                                                    call->rows * c->experts));
        if (call->compared == 0)
            continue;
        part *p = part_of(r, call->name);
        p->envelope[0] = fmax(p->envelope[0], distance(base->hidden[i], other->hidden[i],
                                                       call->compared * c->hidden_size));
        p->envelope[1] = fmax(p->envelope[1], distance(base->logits[i], other->logits[i],
                                                       call->compared * c->vocab_size));
    }
}

static void print_report(const report *r, const whole *base)
{
    const char *name = base->fixture->name;
    printf(
        "%s: largest differences from the recording, end to end; the envelope is an ESTIMATE made\n"
        "by rounding every tap anew with %d seeds, and no bound\n",
        name, SEEDS);
    printf("  %-12s %11s %11s %7s   %11s %11s %7s\n", "", "hidden", "envelope", "ratio", "logits",
           "envelope", "ratio");
    for (size_t i = 0; i < r->count; i++) {
        const part *p = &r->parts[i];
        printf("  %-12s %11.3e %11.3e %7.2f   %11.3e %11.3e %7.2f\n", p->name, p->error[0],
               p->envelope[0], p->error[0] / p->envelope[0], p->error[1], p->envelope[1],
               p->error[1] / p->envelope[1]);
    }
    if (base->routed == 0)
        return;
    printf("  of %zu choices of experts %zu were adopted, %zu of them between equal logits\n",
           base->routed, base->adopted, base->tied);
    for (unsigned layer = 0; layer < base->fixture->model->config.layers; layer++)
        if (base->margin[layer] > 0.0 || base->tied_rows[layer] > 0)
            printf("  layer %u: %zu between equals, largest margin %.3e, envelope %.3e\n", layer,
                   base->tied_rows[layer], base->margin[layer], r->router[layer]);
}

static void check_report(const report *r, const whole *base)
{
    const sb_config *c = &base->fixture->model->config;
    for (size_t i = 0; i < r->count; i++) {
        const part *p = &r->parts[i];
        if (p->compared == 0 || p->nonzero == 0 || !(p->envelope[0] > 0.0 && p->envelope[1] > 0.0))
            fail_msg("%s %s: mistrusted", base->fixture->name, p->name);
        for (size_t j = 0; j < 2; j++)
            if (!(p->error[j] <= ENVELOPES * p->envelope[j]))
                fail_msg("%s %s: %s differ by %.3e, %.1f envelopes", base->fixture->name, p->name,
                         j ? "logits" : "hidden vectors", p->error[j],
                         p->error[j] / p->envelope[j]);
    }
    for (unsigned layer = 0; layer < c->layers; layer++)
        if (!(base->margin[layer] <= ENVELOPES * r->router[layer]))
            fail_msg("%s layer %u: an expert was adopted over a margin of %.3e, %.1f envelopes",
                     base->fixture->name, layer, base->margin[layer],
                     base->margin[layer] / r->router[layer]);
    /* recipe `mistakes` plants equal router rows in the last layer but one */
    if (c->experts && base->tied_rows[c->layers - 2] == 0)
        fail_msg("%s: mistrusted, no choice between equals in the layer that has equal router rows",
                 base->fixture->name);
}

static void run_f32(const char *preset)
{
    static whole base, other;
    hf_arena arena = {0};
    hf_fixture fixture;
    sb_knobs knobs;
    sb_error err = {{0}};
    static report r;
    memset(&r, 0, sizeof r);
    if (hf_fixture_open(preset, "f32", &fixture, &err))
        fail_msg("%s", err.text);
    sb_knobs_exact(&knobs);
    base = (whole){.fixture = &fixture, .knobs = &knobs, .arena = &arena};
    whole_run(&base);
    if (base.status)
        fail_msg("%s: %s", fixture.name, base.err.text);
    add_errors(&r, &base);
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        other = (whole){.fixture = &fixture, .knobs = &knobs, .arena = &arena, .seed = seed};
        whole_run(&other);
        if (other.status)
            fail_msg("%s, seed %u: %s", fixture.name, (unsigned)seed, other.err.text);
        add_envelope(&r, &base, &other);
    }
    print_report(&r, &base);
    check_report(&r, &base);
    hf_release(&arena);
    hf_fixture_close(&fixture);
}

/* The numbers of identical values when the recordings were made. If some differ, a value next to a
 * rounding tie fell to the other side, and every later value depends on it (docs/profiles.md). */
static const struct share {
    const char *recording, *part;
    size_t same[2], all[2]; /* hidden values, logits */
} shares[] = {
#define HF_SHARE(recording, op, identical, compared, wide_identical, wide_compared)
#define HF_WHOLE(recording, part, hidden, all_hidden, logits, all_logits)                          \
    {recording, part, {hidden, logits}, {all_hidden, all_logits}},
#include "tests/hf/shares.def"
#undef HF_SHARE
#undef HF_WHOLE
};

/* With SAMEBIT_SHARES=print, tests/hf/shares.sh writes shares.def from this output. With
 * SAMEBIT_SHARES=other, the recording was made on a processor with other instructions, whose sums
 * have other last bits: only the number of values is compared. */
static void check_shares(const char *recording, const char *name, const size_t same[2],
                         const size_t all[2])
{
    const char *print = getenv("SAMEBIT_SHARES");
    if (print && strcmp(print, "print") == 0) {
        printf("HF_WHOLE(\"%s\", \"%s\", %zu, %zu, %zu, %zu)\n", recording, name, same[0], all[0],
               same[1], all[1]);
        return;
    }
    const int other = print && strcmp(print, "other") == 0;
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        const struct share *s = &shares[i];
        if (strcmp(s->recording, recording) != 0 || strcmp(s->part, name) != 0)
            continue;
        for (size_t j = 0; j < 2; j++)
            if (all[j] != s->all[j] || (!other && same[j] < s->same[j]))
                fail_msg("%s %s: %zu of %zu %s identical, shares.def has %zu of %zu", recording,
                         name, same[j], all[j], j ? "logits" : "hidden values", s->same[j],
                         s->all[j]);
        return;
    }
    fail_msg("%s %s: not in shares.def (tests/hf/shares.sh writes it)", recording, name);
}

/* Counts the bit-identical elements of one call: [0] hidden vectors, [1] logits. */
static void count_same(whole *base, size_t call, size_t same[2], size_t all[2])
{
    const sb_config *c = &base->fixture->model->config;
    const float *got[2] = {base->hidden[call], base->logits[call]};
    size_t size[2] = {c->hidden_size, c->vocab_size};
    for (size_t j = 0; j < 2; j++) {
        const float *want = whole_recorded(base, call, j ? "logits" : "hidden");
        if (!want)
            fail_msg("%s has no %s", base->fixture->name, whole_call_at(call)->name);
        size_t n = whole_call_at(call)->compared * size[j];
        for (size_t i = 0; i < n; i++)
            same[j] += got[j][i] == want[i];
        all[j] += n;
    }
}

static void run_bf16(const char *preset)
{
    static whole base;
    hf_arena arena = {0};
    hf_fixture fixture;
    sb_knobs knobs;
    sb_error err = {{0}};
    if (hf_fixture_open(preset, "bf16", &fixture, &err) || sb_knobs_profile(&knobs, "hf", &err))
        fail_msg("%s", err.text);
    base = (whole){.fixture = &fixture, .knobs = &knobs, .arena = &arena};
    whole_run(&base);
    if (base.status)
        fail_msg("%s: %s", fixture.name, base.err.text);
    printf("%s: bit-identical end to end, profile hf; %zu of %zu choices of experts adopted\n",
           fixture.name, base.adopted, base.routed);
    for (size_t i = 0; i < whole_call_count(); i++) {
        size_t same[2] = {0}, all[2] = {0};
        const char *name = whole_call_at(i)->name;
        for (;; i++) { /* the calls of one name are consecutive */
            count_same(&base, i, same, all);
            if (i + 1 == whole_call_count() || strcmp(whole_call_at(i + 1)->name, name) != 0)
                break;
        }
        if (all[0] == 0)
            continue;
        printf("  %-12s hidden %7.3f %%   logits %7.3f %%\n", name,
               100.0 * (double)same[0] / (double)all[0], 100.0 * (double)same[1] / (double)all[1]);
        check_shares(fixture.name, name, same, all);
    }
    hf_release(&arena);
    hf_fixture_close(&fixture);
}

#define TEST_f32(preset) run_f32(#preset)
#define TEST_bf16(preset) run_bf16(#preset)
#define CASE(preset, type)                                                                         \
    TEST(test_##preset##_##type)                                                                   \
    {                                                                                              \
        TEST_##type(preset);                                                                       \
    }
HF_FIXTURES(CASE)
