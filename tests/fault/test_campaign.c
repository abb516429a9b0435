/* test_campaign.c - tests the judge of faults: the verdicts caught, survived, misplaced and
 * alarm. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/gpu.h"
#include "tests/lib/checkpoint.h"
#include "tests/fault/own_campaign.h"
#include "tools/judge/fault/ask.h"

static sb_finding_of_fault last;

static void keep(void *ctx, const sb_finding_of_fault *finding)
{
    (void)ctx;
    last = *finding;
}

TEST_FIXTURE(begin)
{
    return campaign_begin((sb_campaign_options){.seed = 1, .found = keep});
}

TEST_FIXTURE(end)
{
    return campaign_end();
}

static void judged(sb_fault fault, sb_fault_result expected)
{
    sb_error err = {""};
    fault.origin = "";
    fault.words = "";
    fault.vehicle = fault.vehicle ? fault.vehicle : "T4 bf16 mistakes";
    fault.setting = fault.setting ? fault.setting : "";
    fault.script = fault.script ? fault.script : "plain";
    if (sb_campaign_fault(campaign, &fault, &err))
        fail_msg("%s", err.text);
    if (last.result != expected)
        fail_msg("%s %s is %s, expected %s: %s", fault.arg, fault.fires,
                 sb_fault_result_name(last.result), sb_fault_result_name(expected), last.place);
}

TEST(test_results)
{
    sb_fault f = {.plant = SB_PLANT_op, .arg = "swiglu.sign", .fires = "op:swiglu", .quiet = "ops"};
    judged(f, SB_FAULT_CAUGHT);
    f.fires = "op:embed";
    f.quiet = "";
    judged(f, SB_FAULT_SURVIVED);
    f.fires = "logits";
    f.quiet = "ops";
    judged(f, SB_FAULT_MISPLACED);
    f.benign = 1;
    judged(f, SB_FAULT_ALARM);
    f = (sb_fault){.plant = SB_PLANT_knob, .arg = "act=f32", .fires = "", .quiet = "", .benign = 1};
    judged(f, SB_FAULT_PASSED);
    f = (sb_fault){.plant = SB_PLANT_none, .arg = "", .fires = "", .quiet = ""};
    judged(f, SB_FAULT_SKIPPED);
    const sb_score *s = sb_campaign_score(campaign);
    assert_int_equal(s->planted, 3);
    assert_int_equal(s->caught, 2);
    assert_int_equal(s->survived, 1);
    assert_int_equal(s->misplaced, 1);
    assert_int_equal(s->false_alarms, 1);
    assert_int_equal(s->skipped, 1);
}

/* A site that no call reaches is an error in the list of faults, and not a fault that was
 * caught. */
TEST(test_a_site_is_met)
{
    sb_fault f = {.plant = SB_PLANT_op,
                  .arg = "swiglu.sign",
                  .site = "layer=3",
                  .fires = "op:swiglu",
                  .quiet = "ops"};
    sb_error err = {""};
    judged(f, SB_FAULT_CAUGHT);
    f.site = "layer=77";
    f.origin = f.words = f.setting = "";
    f.vehicle = "T4 bf16 mistakes";
    f.script = "plain";
    assert_int_equal(sb_campaign_fault(campaign, &f, &err), SB_ERR_USAGE);
    assert_non_null(strstr(err.text, "its site is never reached"));
}

/* The fault of a kernel is removed after its run. A check that does not see the expected sign has
 * not caught the fault. */
TEST(test_kernels)
{
    sb_fault f = {.plant = SB_PLANT_kernel,
                  .arg = "swiglu_rounded",
                  .vehicle = "odd bf16 mistakes",
                  .setting = "sm121",
                  .script = "pair",
                  .fires = "op:swiglu",
                  .quiet = "ops"};
    sb_fault sound = f;
    if (!sb_backend_emu()) {
        judged(f, SB_FAULT_SKIPPED);
        skip();
    }
    sound.arg = "emu:3";
    sound.fires = sound.quiet = "";
    sound.benign = 1;
    judged(f, SB_FAULT_CAUGHT);
    judged(sound, SB_FAULT_PASSED);
    f.fires = "op:rmsnorm";
    judged(f, SB_FAULT_SURVIVED);
    f.arg = "reduce_barrier";
    judged(f, SB_FAULT_SURVIVED);
    f.fires = "stop:rmsnorm";
    judged(f, SB_FAULT_CAUGHT);
    judged(sound, SB_FAULT_PASSED);
}

/* The words allowed in `seen` of plants.def. */
static int is_known(const char *word)
{
    static const char *const words[] = {
        "stops",
        "nan",
#define SB_SCENE(word, vehicle, setting, script, op, from, sound) word,
#define SB_NO_SCENE(word, why) word,
#include "tools/judge/fault/lists/scenes.def"
#undef SB_SCENE
#undef SB_NO_SCENE
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i], word) == 0)
            return 1;
    return strncmp(word, "op:", 3) == 0;
}

/* Every fault of kernels is in the list of faults, and its `seen` has known words only. */
TEST(test_plants)
{
    sb_faults faults;
    sb_error err = {""};
    size_t count;
    const sb_gpu_fault *plants = sb_gpu_faults(&count);
    assert_int_equal(sb_faults_list(&faults, &err), SB_OK);
    for (size_t i = 0; i < count; i++) {
        char words[200], name[80], *next = NULL;
        size_t at = 0;
        snprintf(words, sizeof words, "%s", plants[i].seen);
        for (char *w = strtok_r(words, " ", &next); w; w = strtok_r(NULL, " ", &next))
            if (!is_known(w))
                fail_msg("%s: nobody knows \"%s\"", plants[i].name, w);
        snprintf(name, sizeof name, "kernel.%s", plants[i].name);
        while (at < faults.count && strcmp(faults.items[at].name, name) != 0)
            at++;
        if (at == faults.count)
            fail_msg("the list lacks %s", name);
    }
    sb_faults_free(&faults);
}

TEST(test_signs)
{
    sb_signs signs = {.count = 0};
    sb_sign_add(&signs, "op:rope");
    sb_sign_add(&signs, "logits");
    sb_sign_add(&signs, "logits");
    assert_int_equal(signs.count, 2);
    assert_true(sb_signs_all(&signs, "op:rope logits"));
    assert_true(sb_signs_all(&signs, "kv|logits op:rope"));
    assert_false(sb_signs_all(&signs, "kv"));
    assert_false(sb_signs_all(&signs, "kv|conv op:rope"));
    assert_null(sb_signs_loud(&signs, "ops kv", "op:rope"));
    assert_string_equal(sb_signs_loud(&signs, "ops kv", "op:embed"), "op:rope");
    assert_string_equal(sb_signs_loud(&signs, "logits", "op:rope"), "logits");
}

/* Counts findings. */
static void count(void *ctx, const char *check)
{
    (void)check;
    ++*(unsigned *)ctx;
}

/* A file that cannot be read is a finding of `samebit check`, but no evidence for a planted
 * fault. */
TEST(test_unread)
{
    static const char *const files[] = {"config.json", "model-00001-of-00003.safetensors"};
    for (size_t i = 0; i <= sizeof files / sizeof *files; i++) {
        const sb_make_options made = {
            .dir = "unread", .preset = "T4", .layers = 1, .format = "bf16", .recipe = "plain"};
        const char *path = test_checkpoint_with("test_campaign", &made);
        sb_error err = {""};
        unsigned found = 0;
        if (i < sizeof files / sizeof *files) {
            scratch_path file = scratch_join(path, files[i]);
            assert_int_equal(unlink(file.text), 0);
            assert_int_equal(mkdir(file.text, 0777), 0);
        }
        sb_status status = sb_ask_check(path, count, &found, &err);
        scratch_remove(path);
        if (i == sizeof files / sizeof *files) {
            assert_int_equal(status, SB_OK);
            continue;
        }
        assert_int_equal(status, SB_ERR_IO);
        assert_non_null(strstr(err.text, "some of its files cannot be read"));
    }
}

/* Each row has all that it needs, and no name occurs twice. */
TEST(test_list)
{
    sb_faults faults;
    sb_error err = {""};
    assert_int_equal(sb_faults_list(&faults, &err), SB_OK);
    assert_true(faults.count > 150);
    size_t sited = 0, sound = 0;
    for (size_t i = 0; i < faults.count; i++) {
        const sb_fault *f = &faults.items[i];
        int here = f->plant != SB_PLANT_none && f->plant != SB_PLANT_covered;
        if (!*f->words || (here && (!*f->vehicle || (!f->benign && !*f->fires))))
            fail_msg("%s lacks something", f->name);
        sited += strncmp(f->name, "at.", 3) == 0 && !f->benign;
        sound += strncmp(f->name, "sound.", 6) == 0 && f->benign;
        for (size_t j = 0; j < i; j++)
            if (strcmp(faults.items[j].name, f->name) == 0)
                fail_msg("%s stands twice", f->name);
    }
    assert_true(sited >= 50);
    assert_true(sound >= 30);
    for (int n = 1; n <= 39; n++) { /* F01 to F35, N01 to N04 */
        char name[8];
        size_t i = 0;
        snprintf(name, sizeof name, n <= 35 ? "F%02d" : "N%02d", n <= 35 ? n : n - 35);
        while (i < faults.count && strcmp(faults.items[i].name, name) != 0)
            i++;
        if (i == faults.count)
            fail_msg("incidents.def lacks %s", name);
    }
    sb_faults_free(&faults);
}

TEST_GROUP(begin, end)
