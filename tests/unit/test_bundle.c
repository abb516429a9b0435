/* test_bundle.c - replay bundles: a recorded failure fails again when it is run alone, and a
 * damaged file is refused. */
#include "tests/lib/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/container/writer.h"
#include "tests/lib/checkpoint.h"
#include "tests/lib/forced_run.h"
#include "tests/lib/plain.h"
#include "tools/judge/compare/bundle.h"
#include "tools/judge/fault/mistakes.h"

/* Reads and runs the bundle of the first failing op. The reference gives the same output again. The
 * recorded output is out of bounds at the element that the verdict names. */
static void check_bundle(const char *path, const sb_planted *m, const sb_place *at)
{
    sb_error err = {{0}};
    sb_bundle *b = NULL;
    if (sb_bundle_open(path, &b, &err))
        fail_msg("%s: %s", m->name, err.text);
    assert_int_equal(sb_bundle_run(b, &sb_backend_ref()->ops, NULL, NULL), SB_OK);
    assert_string_equal(b->op_name, at->op);
    assert_string_equal(b->words, at->words);
    size_t count = b->rows * b->cols, outside = 0, named = 0;
    for (size_t i = 0; i < count; i++) {
        double error = fabs((double)b->recorded[i] - (double)b->out[i]);
        if (b->out[i] != b->expected[i])
            fail_msg("%s: element %zu of %s is %.9g, expected %.9g", m->name, i, b->name,
                     (double)b->out[i], (double)b->expected[i]);
        outside += !(error <= b->bound[i]);
        named += (double)b->recorded[i] == at->found && (double)b->out[i] == at->expected &&
                 b->bound[i] == at->bound;
    }
    assert_true(outside > 0 && named > 0);
    sb_bundle_free(b);
}

/* Replaces every second digit of the header. The result is an error or a bundle that runs, never a
 * crash (the sanitizers watch). Returns the number of refusals. */
static size_t damage(const char *path)
{
    const char *other = test_path("test_bundle", "damaged.safetensors");
    static unsigned char bytes[1 << 22];
    size_t refused = 0, digits = 0;
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    assert_true(size > 1000 && size < sizeof bytes);
    size_t header = 8 + bytes[0] + 256u * bytes[1] + 65536u * bytes[2];
    for (size_t at = 8; at < header; at++) {
        unsigned char old = bytes[at];
        if (old < '0' || old > '9' || digits++ % 2)
            continue;
        bytes[at] = old == '9' ? '1' : '9';
        file = fopen(other, "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(bytes, 1, size, file), size);
        fclose(file);
        bytes[at] = old;
        sb_bundle *b = NULL;
        sb_error err = {{0}};
        if (sb_bundle_open(other, &b, &err)) {
            assert_true(err.text[0] != '\0');
            refused++;
            continue;
        }
        sb_bundle_run(b, &sb_backend_ref()->ops, NULL, NULL);
        sb_bundle_free(b);
    }
    return refused;
}

/* Replaces the first "act=f32 " of a bundle by another text of the same length; *err is the
 * refusal. */
static void with_knob(const char *path, const char *by, sb_error *err)
{
    static char bytes[1 << 22];
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    char *at = memchr(bytes + 8, '{', size - 8);
    while (strncmp(at, "act=f32 ", 8) != 0)
        at++;
    memcpy(at, by, 8);
    sb_bundle *b = NULL;
    assert_int_equal(sb_bundle_parse((unsigned char *)bytes, size, path, &b, err), SB_ERR_INPUT);
}

/* A refusal quotes the word on one line, even if it contains a line break. */
static void check_knobs(const char *path)
{
    sb_error err = {{0}};
    with_knob(path, "acx=f32 ", &err);
    assert_non_null(strstr(err.text, "there is no knob 'acx'"));
    with_knob(path, "a\\n=f32 ", &err);
    assert_non_null(strstr(err.text, "there is no knob 'a?'"));
    assert_null(strpbrk(err.text, "\n\r\033"));
}

/* A larger tensor repeats the bytes of the original. */
static sb_status fill_repeated(void *ctx, const sb_tensor *tensor, uint64_t first,
                               unsigned char *bytes, size_t count, sb_error *err)
{
    const sb_safetensors *from = ctx;
    size_t i = 0;
    (void)err;
    while (strcmp(from->tensors[i].name, tensor->name) != 0)
        i++;
    for (size_t k = 0; k < count; k++)
        bytes[k] = from->tensors[i].data[(first + k) % from->tensors[i].bytes];
    return SB_OK;
}

/* Opens a bundle with one number of its args replaced, also in all tensors with such an axis, so
 * that its sizes remain consistent. */
static sb_status with_size(const char *path, const char *key, uint64_t by, sb_error *err)
{
    const char *other = test_path("test_bundle", "resized.safetensors");
    sb_safetensors from;
    sb_writer *w = NULL;
    sb_bundle *b = NULL;
    char text[512], *end;
    assert_int_equal(sb_safetensors_open(path, &from, NULL), SB_OK);
    const char *args = sb_metadata_get(&from.metadata, "samebit.bundle.args");
    const char *at = strstr(args, key) + strlen(key);
    uint64_t old = strtoull(at, &end, 10);
    snprintf(text, sizeof text, "%.*s%llu%s", (int)(at - args), args, (unsigned long long)by, end);
    assert_int_equal(sb_writer_new(other, 0, SB_WRITER_FILE | SB_WRITER_REPLACE, &w, NULL), SB_OK);
    for (size_t i = 0; i < from.count; i++) {
        sb_tensor t = from.tensors[i];
        for (unsigned k = 0; k < t.rank; k++)
            t.shape[k] = t.shape[k] == old ? by : t.shape[k];
        assert_int_equal(sb_writer_add(w, t.name, t.dtype, t.rank, t.shape, NULL), SB_OK);
    }
    for (size_t i = 0; i < from.metadata.count; i++) {
        const sb_metadata_pair *p = &from.metadata.pairs[i];
        const char *value = p->value == args ? text : p->value;
        if (strcmp(p->key, "format") != 0) /* the writer sets it itself */
            assert_int_equal(sb_writer_metadata(w, from.tensors[0].name, p->key, value, NULL),
                             SB_OK);
    }
    assert_int_equal(sb_writer_run(w, fill_repeated, &from, NULL), SB_OK);
    sb_writer_free(w);
    sb_safetensors_close(&from);
    sb_status status = sb_bundle_open(other, &b, err);
    if (!status)
        assert_int_equal(sb_bundle_run(b, &sb_backend_ref()->ops, NULL, NULL), SB_OK);
    sb_bundle_free(b);
    return status;
}

/* A router keeps at most as many experts as exist: here 4 of 16. */
static void check_router(const char *path)
{
    static const struct {
        const char *key;
        uint64_t by;
        sb_status status;
    } cases[] = {{"kept=", 5, SB_OK},           {"kept=", 16, SB_OK},   {"kept=", 17, SB_ERR_INPUT},
                 {"experts=", 3, SB_ERR_INPUT}, {"experts=", 5, SB_OK}, {"rows=", 5, SB_OK}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sb_error err = {{0}};
        sb_status status = with_size(path, cases[i].key, cases[i].by, &err);
        if (status != cases[i].status ||
            (status && !strstr(err.text, "has numbers that contradict each other")))
            fail_msg("%s%llu: status %d: %s", cases[i].key, (unsigned long long)cases[i].by,
                     (int)status, err.text);
    }
}

TEST(test_bundles)
{
    size_t refused = 0;
    static const char *const formats[] = {"bf16", "nvfp4-ct", "int4-gptq", "fp8-block"};
    sb_model *models[4];
    for (size_t i = 0; i < 4; i++)
        models[i] =
            test_model_open(test_checkpoint("test_bundle", "T1", "mistakes", formats[i], "text"));
    for (size_t i = 0; sb_mistakes[i].name; i++) {
        const sb_planted *m = &sb_mistakes[i];
        const char *path = test_path("test_bundle", "bundle.safetensors");
        if (m->benign)
            continue;
        sb_knobs by_call = test_knobs("delta_rule=by_call");
        sb_op_table ops = sb_backend_ref()->ops;
        m->plant(&ops);
        remove(path);
        forced_run run = {.model = models[strcmp(m->where, "linear") == 0 ? i % 4 : 0],
                          .ops = &ops,
                          .knobs = &by_call,
                          .states = SB_CAPTURE_ALL_STATES,
                          .prompt = 3,
                          .decoded = 2,
                          .rounds = 1,
                          .bundle = path};
        forced_run_all(&run);
        if (!run.verdicts.has_failure)
            fail_msg("%s is not seen", m->name);
        assert_string_equal(run.verdicts.bundled, run.verdicts.first_failure.words);
        assert_string_equal(run.verdicts.unbundled, "");
        check_bundle(path, m, &run.verdicts.first_failure);
        refused += damage(path);
        if (i == 0)
            check_knobs(path);
        if (strcmp(m->where, "router") == 0)
            check_router(path);
        sb_verdicts_free(&run.verdicts);
    }
    for (size_t i = 0; i < 4; i++)
        sb_model_close(models[i]);
    printf("%zu damaged bundles refused\n", refused);
    assert_true(refused > 500);
}

/* A change to a recorded run: to a tap in step 0, or to a state at a position. */
typedef struct spoiled {
    const char *name;
    uint64_t position; /* 0: a tap, not a state */
    void (*change)(float *x, size_t cols);
    const char *output;    /* the output of the bundle; NULL: no bundle */
    const char *unbundled; /* the reason for no bundle; "": nothing failed */
} spoiled;

static void other_expert(float *x, size_t cols)
{
    float id = 0.0f;
    for (size_t i = 0; i < cols; i++)
        if (x[i] == id) {
            id += 1.0f;
            i = SIZE_MAX; /* search again from the first slot */
        }
    x[0] = id;
}

/* Also moves the other experts to other slots; their order is the engine's choice. */
static void other_expert_and_order(float *x, size_t cols)
{
    other_expert(x, cols);
    float first = x[0];
    memmove(x, x + 1, (cols - 1) * sizeof *x);
    x[cols - 1] = first;
}

static void same_twice(float *x, size_t cols)
{
    assert_true(cols > 1);
    x[1] = x[0];
}

static void larger(float *x, size_t cols)
{
    (void)cols;
    x[7] += 1.0f;
}

static void unchanged(float *x, size_t cols)
{
    (void)x;
    (void)cols;
}

static void spoil(void *ctx, sb_step *step)
{
    const spoiled *s = ctx;
    const sb_step_value *v = step->number == 0 ? sb_step_find(&step->taps, s->name) : NULL;
    for (size_t i = 0; i < step->state_count; i++)
        if (s->position && step->states[i].position == s->position)
            v = sb_step_find(&step->states[i].pieces, s->name);
    if (v)
        s->change(v->data, v->cols);
}

/* The bundle runs alone, and only the changed element is out of bounds. */
static void check_spoiled(const spoiled *s, const char *path)
{
    sb_error err = {{0}};
    sb_bundle *b = NULL;
    if (sb_bundle_open(path, &b, &err))
        fail_msg("%s: %s", s->name, err.text);
    assert_string_equal(b->output, s->output);
    assert_int_equal(sb_bundle_run(b, &sb_backend_ref()->ops, NULL, NULL), SB_OK);
    size_t count = b->rows * b->cols, outside = 0;
    for (size_t i = 0; i < count; i++) {
        assert_true(b->out[i] == b->expected[i]);
        outside += fabs((double)b->recorded[i] - (double)b->out[i]) > b->bound[i];
    }
    assert_int_equal(outside, 1);
    sb_bundle_free(b);
}

/* A prompt of 3 tokens, two decoded tokens, a round that keeps one of its three rows. */
TEST(test_choices_and_states)
{
    static const spoiled all[] = {
        {"layers.1.mlp.router_ids", 0, other_expert, "ids", ""},
        {"layers.1.mlp.router_ids", 0, other_expert_and_order, "ids", ""},
        {"layers.1.mlp.router_ids", 0, same_twice, "ids", ""},
        {"layers.1.linear_attn.recurrent_state", 3, larger, "state", ""},
        {"layers.1.linear_attn.recurrent_state", 6, larger, "state", ""},
        {"layers.1.linear_attn.conv_state", 6, larger, "state", ""},
        {"layers.1.linear_attn.conv_state", 6, unchanged, NULL, ""},
        {"layers.3.self_attn.keys", 5, larger, NULL, "is not computed by an op"},
    };
    sb_model *model =
        test_model_open(test_checkpoint("test_bundle", "T1", "mistakes", "bf16", "text"));
    sb_knobs by_call = test_knobs("delta_rule=by_call");
    for (size_t i = 0; i < 2 * sizeof all / sizeof *all; i++) {
        const spoiled *s = &all[i / 2];
        if (i % 2 && s->position != 3)
            continue; /* only the state after the prompt comes from chunks */
        const char *path = test_path("test_bundle", "spoiled.safetensors");
        remove(path);
        forced_run run = {.model = model,
                          .knobs = i % 2 ? &by_call : NULL,
                          .states = SB_CAPTURE_ALL_STATES,
                          .prompt = 3,
                          .decoded = 2,
                          .rounds = 1,
                          .bundle = path,
                          .spoil = spoil,
                          .ctx = (void *)(uintptr_t)s};
        forced_run_all(&run);
        int failed = s->output || *s->unbundled;
        if (run.verdicts.has_failure != failed)
            fail_msg("%s: %s", s->name, run.verdicts.first_failure.words);
        assert_string_equal(run.verdicts.bundled,
                            s->output ? run.verdicts.first_failure.words : "");
        if (!strstr(run.verdicts.unbundled, s->unbundled) ||
            !*run.verdicts.unbundled != !*s->unbundled)
            fail_msg("%s: %s", s->name, run.verdicts.unbundled);
        FILE *file = fopen(path, "rb");
        assert_int_equal(file != NULL, s->output != NULL);
        if (file)
            fclose(file);
        if (s->output)
            check_spoiled(s, path);
        sb_verdicts_free(&run.verdicts);
    }
    sb_model_close(model);
}
