/* prop_prompt.c - S-2 at the length of a prompt: 512 tokens in one call, which multiplies in tiles,
 * leave the same bits as 512 steps, which read the weights row by row: hidden vectors of every
 * position, logits of the last positions, and every value of the state.
 *
 * CHECK_ALL=1 adds more formats, and prompts that end inside a tile. */
#include "tests/lib/suite.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/fast/dot/kernels.h"
#include "tests/lib/check_all.h"
#include "tests/lib/checkpoint.h"
#include "tests/lib/record.h"
#include "tests/lib/states.h"

enum { N = 512, TAILS = 8 };

typedef struct sample {
    const char *preset, *format, *profile;
    int mtp;
} sample;

/* The results of one way of feeding. */
typedef struct outcome {
    float *hidden, *logits; /* (n, H); (TAILS, V) of the last positions */
    sb_session *session;
} outcome;

/* --- a hook that looks at prompts ------------------------------------------------------------- */

/* calls: calls of linear layers with all rows of a prompt; widest: the largest number of columns
 * among them; spoil: the call in which a bit is changed, 0 for none. Experts get only some of the
 * rows and are not counted. */
static struct {
    size_t rows, calls, widest, spoil;
} seen;

static sb_status look(void *ctx, const sb_op_call *call)
{
    const sb_status status = sb_op_run(call);
    (void)ctx;
    if (status || call->op != SB_OP_linear)
        return status;
    const sb_linear_args *args = call->args;
    if (args->rows != seen.rows)
        return SB_OK;
    seen.calls++;
    seen.widest = args->weight->cols > seen.widest ? args->weight->cols : seen.widest;
    if (seen.calls == seen.spoil) { /* the last bit of one output of the last row */
        float *at = &args->out[(args->rows - 1) * args->weight->rows + args->weight->rows / 3];
        *at = sb_f32_from_bits(sb_bits_f32(*at) ^ 1u);
    }
    return SB_OK;
}

static sb_session *new_session(const sb_model *model, const sb_knobs *knobs, int mtp)
{
    const sb_session_options options = {
        .knobs = knobs, .hook = look, .hook_skips_experts = 1, .mtp = mtp};
    sb_session *session = NULL;
    sb_error err;
    if (sb_session_new(model, &options, &session, &err))
        fail_msg("%s", err.text);
    return session;
}

/* --- prompts and steps ------------------------------------------------------------------------ */

static outcome feed(const sb_model *model, const sb_knobs *knobs, int mtp, const uint32_t *ids,
                    size_t n, size_t at_once)
{
    const size_t H = model->config.hidden_size, V = model->config.vocab_size;
    outcome out = {malloc(n * H * sizeof(float)), malloc(TAILS * V * sizeof(float)),
                   new_session(model, knobs, mtp)};
    sb_error err;
    assert_non_null(out.hidden);
    assert_non_null(out.logits);
    for (size_t t = 0; t < n; t += at_once) {
        test_feed(out.session, ids + t, at_once);
        memcpy(out.hidden + t * H, sb_session_hidden(out.session), at_once * H * sizeof(float));
        for (size_t i = 0; i < at_once; i++)
            if (t + i + TAILS >= n &&
                sb_session_logits(out.session, i, out.logits + (t + i + TAILS - n) * V, &err))
                fail_msg("%s", err.text);
    }
    return out;
}

static void free_outcome(outcome *o)
{
    free(o->hidden);
    free(o->logits);
    sb_session_free(o->session);
}

/* The first position whose hidden vector differs, or the first position with logits if those
 * differ; n if nothing differs. */
static size_t first_apart(const sb_model *model, const outcome *a, const outcome *b, size_t n)
{
    const size_t H = model->config.hidden_size, V = model->config.vocab_size;
    for (size_t t = 0; t < n; t++)
        if (memcmp(a->hidden + t * H, b->hidden + t * H, H * sizeof(float)) != 0)
            return t;
    return memcmp(a->logits, b->logits, TAILS * V * sizeof(float)) != 0 ? n - TAILS : n;
}

static int other_state(const outcome *a, const outcome *b)
{
    sb_state_difference d;
    assert_int_equal(
        sb_state_compare(sb_session_state(a->session), sb_session_state(b->session), &d, NULL),
        SB_OK);
    return d.differs;
}

/* A changed bit in one output of call number `spoil` changes later hidden vectors, or the state. */
static void check_spoiled(const sb_model *model, const sb_knobs *knobs, const sample *s,
                          const uint32_t *ids, size_t n, const outcome *steps, size_t spoil)
{
    seen.calls = 0;
    seen.spoil = spoil;
    outcome spoiled = feed(model, knobs, s->mtp, ids, n, n);
    seen.spoil = 0;
    if (first_apart(model, &spoiled, steps, n) == n && !other_state(&spoiled, steps))
        fail_msg("%s %s %s: nobody saw a wrong bit in call %zu of a prompt", s->preset, s->format,
                 s->profile, spoil);
    free_outcome(&spoiled);
}

static void check_sample(const sample *s, size_t n, int spoil)
{
    uint32_t ids[N];
    sb_knobs knobs;
    sb_model *model =
        test_model_open(test_checkpoint("prop_prompt", s->preset, NULL, s->format, "text"));
    assert_int_equal(sb_knobs_profile(&knobs, s->profile, NULL), SB_OK);
    test_draw_ids(s->preset, model->config.vocab_size, ids, n);
    seen.rows = n;
    seen.calls = seen.widest = 0;
    outcome whole = feed(model, &knobs, s->mtp, ids, n, n);
    const size_t calls = seen.calls;
    print_message("%s %s %s: %zu layers met %zu rows at once, up to %zu columns\n", s->preset,
                  s->format, s->profile, calls, n, seen.widest);
    assert_non_null(sb_dot_kernels_now()->tile);
    assert_true(calls > 4 * (size_t)model->config.layers && seen.widest >= 256);
    outcome steps = feed(model, &knobs, s->mtp, ids, n, 1);
    const size_t apart = first_apart(model, &whole, &steps, n);
    if (apart < n)
        fail_msg("%s %s %s: position %zu of a prompt differs from a step", s->preset, s->format,
                 s->profile, apart);
    test_same_state(s->format, sb_session_state(whole.session), sb_session_state(steps.session));
    if (spoil)
        check_spoiled(model, &knobs, s, ids, n, &steps, calls);
    free_outcome(&whole);
    free_outcome(&steps);
    sb_model_close(model);
}

TEST(test_prompts)
{
    static const sample samples[] = {
        {"T2", "nvfp4-ct", "exact", 1},
        {"T2", "nvfp4-ct", "w4a4", 0},
        {"T6", "fp8-block", "exact", 0},
        /* the rows from here on only with CHECK_ALL=1 */
        {"T2", "bf16", "exact", 1},
        {"T2", "nvidia-mix", "exact", 0},
        {"T2", "nvfp4-modelopt", "exact", 0},
        {"T2", "mxfp4", "exact", 0},
        {"T2", "fp8-channel", "w8a8", 0},
        {"T6", "fp8-block", "w8a8", 0},
        {"T2", "int4-gptq", "exact", 0},
        {"T2", "int4-awq", "exact", 0},
        {"T6", "mxfp8", "exact", 0},
        {"T6", "f16", "exact", 0},
    };
    static const size_t lengths[] = {97, 193, 385, 511};
    for (size_t i = 0; i < (check_all() ? sizeof samples / sizeof *samples : 3); i++)
        check_sample(&samples[i], N, i == 0);
    for (size_t i = 0; i < (check_all() ? sizeof lengths / sizeof *lengths : 0); i++)
        check_sample(&samples[4], lengths[i], 0);
}
