/* test_gpu_step_graph.c - decode steps and verifies of 2 to 9 rows as graphs have the bits of their
 * launches (Y-19), in the emulator. Changes that would require another graph are detected. */
#include "tests/lib/suite.h"

#include <string.h>

#include "tests/gpu/step_graphs.h"
#include "tests/gpu/step_ways.h"
#include "tests/lib/check_all.h"
#include "tests/lib/checkpoint.h"

typedef struct subject {
    const char *preset, *format, *profile;
    unsigned layers;
} subject;

static sb_status compare(const subject *s, step_graphs *found, sb_error *err)
{
    const sb_make_options make = {.dir = "model",
                                  .preset = s->preset,
                                  .format = s->format,
                                  .layers = s->layers,
                                  .replace = 1};
    sb_model *model = test_model_open(test_checkpoint_with("test_gpu_step_graph", &make));
    sb_knobs knobs;
    assert_int_equal(sb_knobs_profile(&knobs, s->profile, err), SB_OK);
    const sb_status status = step_graphs_compare(sb_backend_emu(), model, &knobs, 0, found, err);
    sb_gpu_forget(sb_backend_emu());
    sb_model_close(model);
    return status;
}

TEST(test_bits)
{
    /* a layer of linear attention, with full attention in the head; or a whole period of layers */
    const subject subjects[] = {{"T4", "bf16", "sm121", 0},
                                {"T1", "nvfp4-ct", "sm121-w4a4", check_all() ? 4 : 1}};
    sb_backend_emu_history(0);
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++) {
        step_graphs found;
        sb_error err = {""};
        if (compare(&subjects[i], &found, &err))
            fail_msg("%s %s: %s", subjects[i].format, subjects[i].profile, err.text);
        if (*found.first)
            fail_msg("%s %s: %s", subjects[i].format, subjects[i].profile, found.first);
        assert_true(found.calls >= 30 && found.values > 10000);
    }
}

/* A fault of a fused kernel alone: the fused ways differ from the others, and every sequence of
 * replays from the launched one. The five ways without fused kernels agree.
 * tests/gpu/device_check.sh shows that without a fault all do. */
TEST(test_ways_and_replays_see_a_fault)
{
    const sb_make_options make = {.dir = "model", .preset = "T4", .replace = 1};
    sb_model *model = test_model_open(test_checkpoint_with("test_gpu_step_graph", &make));
    FILE *digests = tmpfile();
    sb_knobs knobs;
    sb_error err = {""};
    step_ways ways;
    step_replays replays;
    sb_backend_emu_history(0);
    assert_non_null(digests);
    assert_int_equal(sb_knobs_profile(&knobs, "sm121", &err), SB_OK);
    assert_true(sb_gpu_plant("fused_stage_row"));
    if (step_ways_compare(sb_backend_emu(), model, &knobs, digests, &ways, &err) ||
        step_replays_compare(sb_backend_emu(), model, &knobs, 2, &replays, &err))
        fail_msg("%s", err.text);
    sb_gpu_plant(NULL);
    assert_int_equal(ways.ways, 9);
    assert_int_equal(ways.differ, 4);
    assert_string_equal(
        ways.first,
        "\"fused, launched, independent\" differs from \"op by op\" first in the prompt");
    assert_true(replays.sequences == 1 && replays.differ == 1);
    fclose(digests);
    sb_gpu_forget(sb_backend_emu());
    sb_model_close(model);
}
