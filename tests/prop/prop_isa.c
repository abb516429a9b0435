/* prop_isa.c - A-2: neither the instruction set nor deciding every sum exactly changes anything. */
#include "tests/lib/suite.h"

#include <string.h>

#include "ref/fast/dot/dot.h"
#include "tests/lib/checkpoint.h"
#include "tests/lib/plain.h"
#include "tests/lib/record.h"

enum { CALL = 9 };

static test_record taps_of(const sb_model *model, const sb_knobs *knobs, sb_digest *state_digest)
{
    test_record taps = {NULL, 0, 0};
    uint32_t ids[CALL + 1];
    test_draw_ids("isa", model->config.vocab_size, ids, CALL + 1);
    sb_session *session = test_session(model, knobs, &taps);
    test_feed(session, ids, CALL);
    test_feed(session, ids + CALL, 1);
    *state_digest = test_state_digest(session);
    sb_session_free(session);
    return taps;
}

static void check(const char *preset, const char *format, const char *settings)
{
    static const char *const names[] = {"scalar", "avx2", "auto"};
    sb_model *model = test_model_open(test_checkpoint("prop_isa", preset, NULL, format, "text"));
    sb_knobs knobs = test_knobs(settings);
    sb_digest expected, got;
    size_t compared = 0;
    assert_int_equal(sb_dot_select("exact", NULL), SB_OK);
    assert_string_equal(sb_dot_selected(), "exact");
    test_record exact = taps_of(model, &knobs, &expected);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (sb_dot_select(names[i], NULL))
            continue; /* not on this machine */
        test_record taps = taps_of(model, &knobs, &got);
        assert_int_equal(taps.count, exact.count);
        for (size_t t = 0; t < taps.count; t++)
            if (strcmp(taps.taps[t].digest.hex, exact.taps[t].digest.hex) != 0)
                fail_msg("%s: %s differs between exact and %s", preset, taps.taps[t].name,
                         names[i]);
        assert_string_equal(got.hex, expected.hex);
        test_record_free(&taps);
        compared++;
    }
    assert_true(compared >= 2);
    test_record_free(&exact);
    sb_model_close(model);
}

TEST(test_isa_bf16)
{
    check("T5", "bf16", "");
}

TEST(test_isa_f16)
{
    check("T4", "f16", "act=f16 delta_rule=by_call");
}

TEST(test_isa_f32)
{
    check("T4", "f32", "");
}

TEST(test_unknown_isa)
{
    sb_error err = {""};
    assert_int_equal(sb_dot_select("mmx", &err), SB_ERR_USAGE);
    assert_non_null(strstr(err.text, "mmx"));
}
