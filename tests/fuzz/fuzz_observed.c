/* fuzz_observed.c - any bytes as the counters of an engine, and the verdict about them. */
#include "tests/fuzz/fuzz.h"

#include "tools/judge/accept/verdict.h"

const char fuzz_name[] = "observed";
unsigned long fuzz_accepted;

static void check_line(const sb_accept_line *l)
{
    FUZZ_CHECK(l->engine.of > 0 && l->engine.accepted <= l->engine.of);
    FUZZ_CHECK(l->difference.low <= l->difference.rate && l->difference.rate <= l->difference.high);
    FUZZ_CHECK(l->difference.low >= -1.0001 && l->difference.high <= 1.0001);
    FUZZ_CHECK(l->verdict != SB_ACCEPT_UNKNOWN && l->depth <= 4);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sb_accept reference = {.drafts = 4, .count = 100, .accepted = 160};
    sb_observed o;
    sb_accept_comparison c;
    sb_error err = {{0}};
    sb_status status = sb_observed_parse((const char *)data, size, "input", &o, &err);
    if (status != SB_OK) {
        fuzz_check_refusal(status, &err);
        return 0;
    }
    fuzz_accepted++;
    FUZZ_CHECK(o.parts <= SB_OBSERVED_PARTS && o.depths <= SB_OBSERVED_DEPTHS);
    FUZZ_CHECK(o.rounds <= SB_OBSERVED_MAX_COUNT && o.drafted <= SB_OBSERVED_MAX_COUNT);
    FUZZ_CHECK(o.accepted <= SB_OBSERVED_MAX_COUNT && o.emitted <= SB_OBSERVED_MAX_COUNT);
    for (size_t j = 1; j < o.depths; j++)
        FUZZ_CHECK(o.by_depth[j] <= o.by_depth[j - 1]);
    for (size_t j = 0; j < 4; j++)
        reference.depth[j].rate = (sb_rate){70 - 20 * j, 100, 1.5};
    sb_accept_compare(&reference, &o, &c);
    FUZZ_CHECK(*c.why && (c.verdict == SB_ACCEPT_UNKNOWN) == (c.count == 0));
    for (size_t i = 0; i < c.count; i++)
        check_line(&c.lines[i]);
    sb_accept_definitions d = sb_observed_definitions(&o);
    FUZZ_CHECK(!d.has_rate || (d.rate >= 0 && d.rate <= 1));
    FUZZ_CHECK(!d.has_length || d.bonus_length >= 1);
    return 0;
}
