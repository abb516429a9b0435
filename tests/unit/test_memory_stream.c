/* test_memory_stream.c - a checkpoint under a memory limit: the same bits, and no more resident
 * pages than the limit and two layers. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ref/base/machine.h"
#include "ref/fast/fast.h"
#include "ref/run/session.h"
#include "tests/lib/checkpoint.h"
#include "tests/lib/record.h"

enum { V = 384, N = 6, LAYERS = 12, MEGA = 1 << 20 };

static const char *folder;

TEST_FIXTURE(make_folder)
{
    const sb_make_options options = {.dir = "stream",
                                     .preset = "T1",
                                     .recipe = "plain",
                                     .format = "f32",
                                     .layers = LAYERS,
                                     .no_mtp = 1};
    folder = test_checkpoint_with("test_memory_stream", &options);
    return 0;
}

/* The resident bytes of the checkpoint's mappings; 0 if the system does not report them. */
static uint64_t resident(void)
{
    FILE *file = fopen("/proc/self/smaps", "r");
    char line[4096];
    uint64_t bytes = 0;
    unsigned long long from, to, kib;
    int ours = 0;
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%llx-%llx ", &from, &to) == 2) /* the first line of a mapping */
            ours = strstr(line, "test_memory_stream-") != NULL;
        else if (ours && sscanf(line, "Rss: %llu kB", &kib) == 1)
            bytes += kib * 1024;
    }
    if (file)
        fclose(file);
    return bytes;
}

/* The number of mappings of the checkpoint that may have large pages; -1 if the system does not
 * report it. */
static int large(void)
{
    FILE *file = fopen("/proc/self/smaps", "r");
    char line[4096];
    unsigned long long from, to;
    int ours = 0, said = 0, count = 0;
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%llx-%llx ", &from, &to) == 2)
            ours = strstr(line, "test_memory_stream-") != NULL;
        else if (ours && strncmp(line, "VmFlags:", 8) == 0) {
            said = 1;
            count += strstr(line, " hg") != NULL;
        }
    }
    if (file)
        fclose(file);
    return said ? count : -1;
}

typedef struct seen {
    uint64_t most, last;
    unsigned layers;
} seen;

static sb_status look(void *ctx, const char *name, float *data, size_t rows, size_t cols,
                      sb_error *err)
{
    seen *s = ctx;
    (void)data;
    (void)rows;
    (void)cols;
    (void)err;
    if (!strstr(name, ".output"))
        return SB_OK;
    s->last = resident();
    s->most = s->last > s->most ? s->last : s->most;
    s->layers++;
    return SB_OK;
}

static unsigned watched;
static uint64_t read_so_far;

static void watch(void *ctx, uint64_t bytes)
{
    (void)ctx;
    assert_true(bytes >= read_so_far);
    read_so_far = bytes;
    watched++;
}

/* Two calls, a prompt and a step. */
static seen fed(const sb_model *model, sb_digest *digest)
{
    seen s = {0};
    uint32_t ids[N];
    float logits[V];
    sb_session *session = NULL;
    sb_error err;
    const sb_session_options options = {.tap = look, .tap_ctx = &s};
    test_draw_ids("stream", V, ids, N);
    assert_int_equal(sb_session_new(model, &options, &session, &err), SB_OK);
    test_feed(session, ids, N - 1);
    test_feed(session, ids + N - 1, 1);
    assert_int_equal(sb_session_logits(session, 0, logits, &err), SB_OK);
    *digest = test_state_digest(session);
    sb_session_free(session);
    assert_int_equal(s.layers, 2 * LAYERS);
    return s;
}

TEST(test_limits)
{
    static const uint64_t limits[] = {1, 8 * MEGA, 1 << 30};
    sb_digest free_of_it, digest;
    sb_model *model = test_model_open(folder);
    const uint64_t all = sb_pager_bytes(model->pager), margin = sb_pager_margin(model->pager);
    assert_true(all > 40 * MEGA && margin < all / 4);
    seen whole = fed(model, &free_of_it);
    sb_model_close(model);
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        model = test_model_open(folder);
        watched = 0;
        read_so_far = 0;
        sb_pager_limit(model->pager, limits[i]);
        sb_pager_watch(model->pager, watch, NULL);
        seen s = fed(model, &digest);
        assert_string_equal(digest.hex, free_of_it.hex);
        assert_int_equal(watched, limits[i] < all ? 2 * LAYERS + 1 : 0);
        /* neighbouring pages become resident, too, and the embedding rows of the tokens */
        if (limits[i] < all && s.most > limits[i] + margin + MEGA)
            fail_msg("%llu bytes in memory, limit %llu, margin %llu", (unsigned long long)s.most,
                     (unsigned long long)limits[i], (unsigned long long)margin);
        if (limits[i] > all)
            assert_true(s.most == whole.most || s.most > all / 2);
        sb_model_close(model);
    }
    /* without a limit far more is resident; else the bound above would show nothing */
    if (!whole.most) {
        print_message("the system does not say what is in memory\n");
        skip();
    }
    assert_true(whole.most > 8 * MEGA + margin + MEGA);
}

/* Large pages are requested while all weights may stay resident, and no longer with a limit. */
TEST(test_large_pages)
{
    sb_model *model = test_model_open(folder);
    const int before = large();
    sb_pager_limit(model->pager, 8 * MEGA);
    const int after = large();
    sb_model_close(model);
    if (before < 0 || access("/sys/kernel/mm/transparent_hugepage", F_OK) != 0) {
        print_message("the system does not say which pages may be large, or has none\n");
        skip();
    }
    assert_true(before > 0);
    assert_int_equal(after, 0);
}

/* A backend that does not read weights in place does not use the pager. */
static sb_status other_linear(const sb_knobs *knobs, const sb_linear_args *args)
{
    return sb_linear_fast(knobs, args);
}

TEST(test_other_backend)
{
    sb_backend other = *sb_backend_ref();
    sb_session *session = NULL;
    sb_error err;
    other.ops.linear = other_linear;
    const sb_session_options options = {.backend = &other};
    sb_model *model = test_model_open(folder);
    watched = 0;
    sb_pager_limit(model->pager, 1);
    sb_pager_watch(model->pager, watch, NULL);
    assert_int_equal(sb_session_new(model, &options, &session, &err), SB_OK);
    test_feed(session, (const uint32_t[]){1, 2}, 2);
    assert_int_equal(watched, 0);
    sb_session_free(session);
    sb_model_close(model);
}

TEST(test_nothing)
{
    sb_pager_limit(NULL, 1);
    sb_pager_watch(NULL, watch, NULL);
    sb_pager_enter(NULL, 0);
    sb_pager_experts(NULL, 0, NULL, 0);
    sb_pager_leave(NULL, 0);
    sb_pager_free(NULL);
    assert_int_equal(sb_pager_bytes(NULL), 0);
    assert_int_equal(sb_pager_margin(NULL), 0);
    assert_true(sb_peak_resident() > 1 << 20);
    assert_true(sb_machine_memory() == 0 || sb_machine_memory() >= sb_peak_resident());
}

TEST_GROUP(make_folder, NULL)
