/* prop_threads.c - A-2: the number of threads changes nothing. */
#include "ref/base/pool.h"
#include "tests/lib/suite.h"

#include <string.h>

#include "tests/lib/checkpoint.h"
#include "tests/lib/plain.h"
#include "tests/lib/record.h"

enum { CALL = 69, STEPS = 2 };

static test_record taps_of(const sb_model *model, const sb_knobs *knobs, int threads,
                           sb_digest *state_digest)
{
    test_record taps = {NULL, 0, 0};
    uint32_t ids[CALL + STEPS];
    test_draw_ids("threads", model->config.vocab_size, ids, CALL + STEPS);
    sb_threads_set((size_t)threads);
    sb_session *session = test_session(model, knobs, &taps);
    test_feed(session, ids, CALL);
    for (size_t i = 0; i < STEPS; i++)
        test_feed(session, ids + CALL + i, 1);
    *state_digest = test_state_digest(session);
    sb_session_free(session);
    return taps;
}

/* Every tap of a call and of steps, with 1, 2, 3 threads, and with more threads than heads. */
static void check_preset(const char *preset, const char *settings)
{
    static const int threads[] = {2, 3, 11};
    sb_model *model =
        test_model_open(test_checkpoint("prop_threads", preset, NULL, "bf16", "text"));
    sb_knobs knobs = test_knobs(settings);
    sb_digest one, many;
    test_record alone = taps_of(model, &knobs, 1, &one);
    assert_true(alone.count > 100);
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
        test_record taps = taps_of(model, &knobs, threads[i], &many);
        assert_int_equal(taps.count, alone.count);
        for (size_t t = 0; t < taps.count; t++)
            if (strcmp(taps.taps[t].digest.hex, alone.taps[t].digest.hex) != 0)
                fail_msg("%s: %s differs between 1 and %d threads", preset, taps.taps[t].name,
                         threads[i]);
        assert_string_equal(many.hex, one.hex);
        test_record_free(&taps);
    }
    test_record_free(&alone);
    sb_model_close(model);
}

TEST(test_threads_exact)
{
    check_preset("T3", "");
}

TEST(test_threads_chunks)
{
    check_preset("T4", "act=bf16 params=act delta_rule=chunk64 scores=act l2norm=act");
}
