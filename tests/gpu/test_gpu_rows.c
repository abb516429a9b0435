/* test_gpu_rows.c - a row of a whole model in the emulator has the same bits in a step and in every
 * position of a call of 1 to 9 rows or of a prompt, even if another sequence is computed in
 * between: all values of all ops, and the state. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/gpu.h"
#include "tests/lib/check_all.h"
#include "tests/mtp/play.h"

enum { ROWS = 18, WIDEST = 9 };

/* The values of one name, row by row, from any number of calls. */
typedef struct stream {
    char name[96];
    float *data;
    size_t rows, cols;
} stream;

typedef struct record {
    stream *streams;
    size_t count, room;
} record;

static stream *stream_of(record *r, const char *name, size_t cols)
{
    for (size_t i = 0; i < r->count; i++)
        if (strcmp(r->streams[i].name, name) == 0)
            return &r->streams[i];
    if (r->count == r->room) {
        r->room = 2 * r->room + 64;
        r->streams = realloc(r->streams, r->room * sizeof *r->streams);
        assert_non_null(r->streams);
    }
    stream *s = &r->streams[r->count++];
    *s = (stream){.cols = cols};
    assert_true(strlen(name) < sizeof s->name);
    strcpy(s->name, name);
    return s;
}

static sb_status keep(void *ctx, const char *name, float *data, size_t rows, size_t cols,
                      sb_error *err)
{
    stream *s = stream_of(ctx, name, cols);
    (void)err;
    assert_int_equal(s->cols, cols);
    s->data = realloc(s->data, (s->rows + rows) * cols * sizeof *data);
    assert_non_null(s->data);
    memcpy(s->data + s->rows * cols, data, rows * cols * sizeof *data);
    s->rows += rows;
    return SB_OK;
}

static void free_record(record *r)
{
    for (size_t i = 0; i < r->count; i++)
        free(r->streams[i].data);
    free(r->streams);
    *r = (record){.count = 0};
}

/* The first difference, as text; NULL: none. */
static const char *differs(const record *got, const record *want)
{
    static char text[200];
    size_t values = 0;
    assert_int_equal(got->count, want->count);
    for (size_t i = 0; i < want->count; i++) {
        const stream *w = &want->streams[i];
        const stream *g = stream_of((record *)(uintptr_t)got, w->name, w->cols);
        assert_int_equal(g->rows, w->rows);
        for (size_t j = 0; j < w->rows * w->cols; j++, values++) {
            if (memcmp(&g->data[j], &w->data[j], sizeof *w->data) == 0)
                continue;
            snprintf(text, sizeof text, "%s, row %zu, column %zu: %.9g, expected %.9g", w->name,
                     j / w->cols, j % w->cols, (double)g->data[j], (double)w->data[j]);
            return text;
        }
    }
    assert_true(values > 10000);
    return NULL;
}

/* A sequence of 18 tokens and its recorded values. */
typedef struct sequence {
    sb_session *session;
    record seen;
    uint32_t ids[ROWS];
    size_t fed;
    float *logits;
} sequence;

static void begin(sequence *q, const sb_model *model, const char *name)
{
    sb_knobs knobs;
    assert_int_equal(sb_knobs_profile(&knobs, "sm121", NULL), SB_OK);
    *q = (sequence){.logits = calloc(model->config.vocab_size, sizeof(float))};
    assert_non_null(q->logits);
    q->session = play_session(
        model, &(sb_session_options){
                   .backend = sb_backend_emu(), .knobs = &knobs, .tap = keep, .tap_ctx = &q->seen});
    test_draw_ids(name, model->config.vocab_size, q->ids, ROWS);
}

/* Feeds the next rows in one call and gets all logits. */
static void feed(sequence *q, size_t rows)
{
    sb_error err = {""};
    rows = rows < ROWS - q->fed ? rows : ROWS - q->fed;
    if (!rows)
        return;
    test_feed(q->session, q->ids + q->fed, rows);
    for (size_t row = 0; row < rows; row++)
        assert_int_equal(sb_session_logits(q->session, row, q->logits, &err), SB_OK);
    q->fed += rows;
}

static void end(sequence *q)
{
    sb_session_free(q->session);
    free_record(&q->seen);
    free(q->logits);
}

static const char *other_than(const sequence *got, const sequence *want)
{
    const char *what = differs(&got->seen, &want->seen);
    return what ? what
                : play_difference(sb_session_state(got->session), sb_session_state(want->session));
}

/* Feeds two sequences in turn, in calls of `width` rows and of 11 - `width`. Returns the difference
 * from rows fed one by one. */
static const char *in_calls_of(const sb_model *model, size_t width, const sequence single[2])
{
    sequence both[2];
    begin(&both[0], model, "one");
    begin(&both[1], model, "other");
    while (both[0].fed < ROWS || both[1].fed < ROWS) {
        sb_backend_emu_seed(both[0].fed + 7);
        feed(&both[0], width);
        feed(&both[1], WIDEST + 2 - width);
    }
    const char *what = other_than(&both[0], &single[0]);
    if (!what)
        what = other_than(&both[1], &single[1]);
    end(&both[0]);
    end(&both[1]);
    return what;
}

static sb_model *open_model(const char *preset, const char *format)
{
    char name[64];
    snprintf(name, sizeof name, "%s-%s", preset, format);
    return test_model_open(test_checkpoint_with(
        "test_gpu_rows",
        &(sb_make_options){.preset = preset, .format = format, .layers = 1, .dir = name}));
}

static void begin_single(const sb_model *model, sequence single[2])
{
    begin(&single[0], model, "one");
    begin(&single[1], model, "other");
    for (size_t i = 0; i < 2; i++)
        while (single[i].fed < ROWS)
            feed(&single[i], 1);
}

/* Widths from 2 to 9 in four pairs, and all rows in one call. */
static void check_widths(const char *preset, const char *format)
{
    sb_model *model = open_model(preset, format);
    sequence single[2];
    begin_single(model, single);
    for (size_t width = 2; width <= 5; width++) {
        const char *what = in_calls_of(model, width, single);
        if (what)
            fail_msg("%s %s, calls of %zu and %d rows: %s", preset, format, width,
                     WIDEST + 2 - (int)width, what);
    }
    sequence whole;
    begin(&whole, model, "one");
    feed(&whole, ROWS);
    const char *what = other_than(&whole, &single[0]);
    if (what)
        fail_msg("%s %s, a prompt of %d rows: %s", preset, format, ROWS, what);
    end(&whole);
    end(&single[0]);
    end(&single[1]);
    sb_gpu_forget(sb_backend_emu());
    sb_model_close(model);
}

TEST(test_widths)
{
    check_widths("T4", "bf16");
    check_widths("T3", "nvidia-mix");
    if (!check_all())
        return;
    check_widths("T1", "int4-fp8-hybrid");
    check_widths("T2", "fp8-block");
    check_widths("T5", "nvfp4a16-ct");
    check_widths("T6", "fp8-channel");
}

/* Kernels whose rows depend on the rest of the call. */
TEST(test_faults)
{
    static const char *const faults[] = {"conv_state", "attention_mask", "conv_stretch"};
    sb_model *model = open_model("T4", "bf16");
    sequence single[2], whole;
    begin_single(model, single);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        assert_true(sb_gpu_plant(faults[i]));
        begin(&whole, model, "one");
        feed(&whole, ROWS - 1);
        feed(&whole, 1);
        sb_gpu_plant(NULL);
        const char *what = other_than(&whole, &single[0]);
        if (!what)
            fail_msg("%s: not caught", faults[i]);
        printf("%s: %s\n", faults[i], what);
        end(&whole);
    }
    end(&single[0]);
    end(&single[1]);
    sb_gpu_forget(sb_backend_emu());
    sb_model_close(model);
}
