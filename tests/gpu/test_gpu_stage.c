/* test_gpu_stage.c - weights uploaded before the first token: each matrix once and in the form that
 * ops use, the files read in order and released, and the messages on failure. */
#include "tests/lib/suite.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/gpu.h"
#include "ref/base/mem.h"
#include "ref/run/session.h"
#include "tests/lib/checkpoint.h"
#include "tools/cli/stage.h"

enum { PROMPT = 3 };

static sb_knobs knobs_of(const char *profile)
{
    sb_knobs knobs;
    assert_int_equal(sb_knobs_profile(&knobs, profile, NULL), SB_OK);
    return knobs;
}

static uint64_t packed(void)
{
    uint64_t bytes = 0;
    assert_int_equal(sb_gpu_staging(sb_backend_emu(), 0, &bytes, NULL), SB_OK);
    return bytes;
}

/* The digest of the last row's logits, and the bytes packed during the run. */
static sb_digest run(const sb_model *model, const sb_knobs *knobs, uint64_t *bytes)
{
    static const uint32_t tokens[PROMPT] = {1, 2, 3};
    const sb_session_options options = {
        .backend = sb_backend_emu(), .knobs = knobs, .mtp = sb_model_has_mtp(model)};
    const size_t n = model->config.vocab_size;
    const uint64_t before = packed();
    sb_session *session = NULL;
    float *logits = sb_alloc(n, sizeof *logits);
    sb_error err = {""};
    assert_non_null(logits);
    assert_int_equal(sb_session_new(model, &options, &session, &err), SB_OK);
    if (sb_session_feed(session, tokens, PROMPT, &err))
        fail_msg("%s", err.text);
    assert_int_equal(sb_session_logits(session, PROMPT - 1, logits, &err), SB_OK);
    if (options.mtp) /* only a draft uses the head's own weights */
        assert_int_equal(sb_session_draft(session, 4, logits, &err), SB_OK);
    const sb_digest digest = sb_digest_f32(logits, n);
    sb_session_free(session);
    free(logits);
    *bytes = packed() - before;
    return digest;
}

/* The bytes of the tensors that belong to no linear layer and no embedding: vectors and
 * convolutions. */
static uint64_t others(const sb_model *model)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < sb_checkpoint_count(model->checkpoint); i++) {
        const sb_tensor *t = sb_checkpoint_at(model->checkpoint, i);
        if (t->rank < 2 || strstr(t->name, "conv1d"))
            bytes += t->bytes;
    }
    return bytes;
}

static uint64_t seen, calls;
static void watch(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    (void)ctx;
    assert_string_equal(what, "weights");
    assert_true(done > seen && done <= total);
    seen = done;
    calls++;
}

/* For a model in bfloat16, every byte. */
TEST(test_once)
{
    sb_model *model =
        test_model_open(test_checkpoint("test_gpu_stage", "T5", NULL, "bf16", "text"));
    const sb_knobs knobs = knobs_of("sm121");
    sb_staged staged;
    uint64_t alone, behind;
    sb_error err = {""};
    const sb_digest want = run(model, &knobs, &alone);
    sb_gpu_forget(sb_backend_emu());
    seen = calls = 0;
    if (sb_stage(sb_backend_emu(), &knobs, model, watch, &staged, &err))
        fail_msg("%s", err.text);
    assert_true(staged.matrices > 20 && calls > 20);
    assert_int_equal(staged.bytes + others(model), sb_checkpoint_bytes(model->checkpoint));
    assert_int_equal(staged.shards, sb_checkpoint_shards(model->checkpoint));
    assert_int_equal(seen, staged.bytes);
    const sb_digest got = run(model, &knobs, &behind);
    assert_string_equal(got.hex, want.hex);
    /* otherwise the run packs only vectors; in total no more than without staging */
    assert_int_equal(staged.counted, staged.packed);
    assert_true(behind < staged.packed / 20);
    assert_int_equal(staged.packed + behind, alone);
    /* weights already there are not uploaded again */
    assert_int_equal(sb_stage(sb_backend_emu(), &knobs, model, NULL, &staged, &err), SB_OK);
    assert_int_equal(staged.packed, 0);
    sb_gpu_forget(sb_backend_emu());
    sb_model_close(model);
}

/* As the knobs demand: other profiles pack other codes. */
TEST(test_profiles)
{
    static const char *const profiles[] = {"sm121", "sm121-w4a4"};
    sb_model *model =
        test_model_open(test_checkpoint("test_gpu_stage", "T1", NULL, "nvfp4-ct", "text"));
    for (size_t i = 0; i < 2; i++) {
        const sb_knobs knobs = knobs_of(profiles[i]);
        sb_staged staged;
        uint64_t alone, behind;
        sb_error err = {""};
        const sb_digest want = run(model, &knobs, &alone);
        sb_gpu_forget(sb_backend_emu());
        if (sb_stage(sb_backend_emu(), &knobs, model, NULL, &staged, &err))
            fail_msg("%s", err.text);
        assert_string_equal(run(model, &knobs, &behind).hex, want.hex);
        /* experts that no row chose may be among the staged weights */
        assert_int_equal(staged.counted, staged.packed);
        assert_true(staged.packed + behind >= alone);
        assert_true(behind < staged.packed / 10);
        sb_gpu_forget(sb_backend_emu());
    }
    sb_model_close(model);
}

TEST(test_said)
{
    sb_model *model = test_model_open(test_checkpoint("test_gpu_stage", "T5", NULL, "f16", "text"));
    const sb_knobs knobs = knobs_of("sm121");
    sb_knobs exact;
    sb_staged staged;
    sb_error err = {""};
    uint64_t bytes;
    assert_int_equal(sb_stage(sb_backend_emu(), &knobs, model, NULL, &staged, &err),
                     SB_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "cannot copy the weights to the device: "));
    /* other backends have nothing to upload, and these knobs have no kernels */
    assert_int_equal(sb_stage(sb_backend_ref(), &knobs, model, NULL, &staged, &err), SB_OK);
    assert_int_equal(staged.matrices, 0);
    sb_knobs_exact(&exact);
    assert_int_equal(sb_stage(sb_backend_emu(), &exact, model, NULL, NULL, &err), SB_OK);
    assert_int_equal(sb_gpu_staging(sb_backend_ref(), 1, &bytes, &err), SB_ERR_UNSUPPORTED);
    assert_int_equal(sb_gpu_forget_file("/nowhere", &knobs, 0), 0);
    sb_gpu_forget(sb_backend_emu());
    sb_model_close(model);
}

/* At every failing allocation: a status, a message, no memory lost, and ops can compute again. */
TEST(test_memory)
{
    sb_model *model =
        test_model_open(test_checkpoint("test_gpu_stage", "T4", NULL, "bf16", "text"));
    const sb_knobs knobs = knobs_of("sm121");
    sb_status status = SB_ERR_MEMORY;
    unsigned long n = 1;
    uint64_t bytes;
    for (; status != SB_OK && n < 100000; n += 1 + n / 2) {
        sb_error err = {""};
        sb_gpu_forget(sb_backend_emu());
        sb_alloc_fail_at(n);
        status = sb_stage(sb_backend_emu(), &knobs, model, NULL, NULL, &err);
        sb_alloc_fail_at(0);
        assert_true(status == SB_OK || status == SB_ERR_MEMORY);
        assert_true(status == SB_OK || strstr(err.text, "out of memory"));
    }
    assert_true(n > 4 && n < 100000);
    run(model, &knobs, &bytes);
    sb_gpu_forget(sb_backend_emu());
    sb_model_close(model);
}
