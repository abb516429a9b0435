/* test_whole.c - whole models of the real quantizers, from tokens to logits.
 *
 * No bound is derived here: over many layers a bound would allow anything. The test measures the
 * distance of the logits from the library's. With a wrongly wired layer, or a wrong scale, the
 * distance is larger by orders of magnitude; the last test shows that. test_fixtures.c holds the
 * layers themselves to derived bounds. */
#include "tests/lib/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/ops/knob.h"
#include "tests/lib/record.h"
#include "tests/quant/fixture.h"

/* Relative distances |ours - theirs| / |theirs| of all logits: 8 times the values measured on these
 * recordings. If inputs are quantized, a difference in the last bit of a value sometimes becomes a
 * whole step, and a router may then choose another expert. */
#define NEAR_WEIGHTS 0x1p-18
#define NEAR_INPUTS 0x1p-3

static uint32_t *tokens_of(const quant_fixture *f, size_t *count)
{
    const sb_tensor *t = sb_checkpoint_find(f->expect, "tokens");
    assert_non_null(t);
    assert_int_equal(t->dtype, SB_DTYPE_I32);
    *count = (size_t)t->bytes / 4;
    uint32_t *ids = malloc(t->bytes);
    assert_non_null(ids);
    for (size_t i = 0; i < *count; i++)
        ids[i] = sb_load_u32(t->data + 4 * i);
    return ids;
}

/* |ours - theirs| / |theirs|, as vectors. */
static double distance(const quant_fixture *f, const sb_knobs *knobs)
{
    size_t rows, count = 0, vocabulary = f->model->config.vocab_size;
    uint32_t *ids = tokens_of(f, &rows);
    float *want = quant_values(f, "logits", &count), *got = malloc(vocabulary * sizeof *got);
    double apart = 0, size = 0;
    assert_true(want && got && count == rows * vocabulary);
    sb_session *session = test_session(f->model, knobs, NULL);
    test_feed(session, ids, rows);
    for (size_t t = 0; t < rows; t++) {
        sb_error err = {""};
        if (sb_session_logits(session, t, got, &err))
            fail_msg("%s", err.text);
        for (size_t i = 0; i < vocabulary; i++) {
            double wanted = (double)want[t * vocabulary + i], error = (double)got[i] - wanted;
            apart += error * error;
            size += wanted * wanted;
        }
    }
    sb_session_free(session);
    free(ids);
    free(want);
    free(got);
    return sqrt(apart / size);
}

/* Profile hf in binary32: the forms of transformers without its bfloat16. */
static sb_knobs library_knobs(const quant_fixture *f)
{
    sb_knobs knobs;
    assert_int_equal(sb_knobs_profile(&knobs, "hf", NULL), SB_OK);
    assert_int_equal(sb_knobs_set(&knobs, "act=f32", NULL), SB_OK);
    for (int k = SB_KNOB_dequant; k < SB_KNOB_COUNT; k++)
        knobs.value[k] = f->theirs.value[k];
    return knobs;
}

TEST(test_logits_are_near_the_library)
{
    for (size_t i = 0; quant_row_at(i); i++) {
        quant_fixture f;
        quant_fixture_open(quant_row_at(i), &f);
        if (sb_checkpoint_find(f.expect, "logits")) {
            sb_knobs knobs = library_knobs(&f);
            double limit = f.row->settings[0] ? NEAR_INPUTS : NEAR_WEIGHTS;
            double law = distance(&f, &knobs), exact = distance(&f, &f.exact);
            printf("%-16s logits apart by %.2e under the library's law, by %.2e in profile exact\n",
                   f.row->name, law, exact);
            assert_true(law < limit && exact < limit);
        }
        quant_fixture_close(&f);
    }
}

/* Reverses the order of the first layer's experts; a second call restores it. */
static void turn_experts(sb_model *model)
{
    sb_expert *experts = model->weights->layers[0].experts;
    for (uint32_t e = 0; e < model->config.experts / 2; e++) {
        sb_expert kept = experts[e];
        experts[e] = experts[model->config.experts - 1 - e];
        experts[model->config.experts - 1 - e] = kept;
    }
}

/* Experts exchanged, or factors taken in the wrong direction. */
TEST(test_wrong_wiring_is_far_away)
{
    quant_fixture f;
    quant_fixture_open(quant_row_at(0), &f);
    turn_experts(f.model);
    double exchanged = distance(&f, &f.exact);
    turn_experts(f.model);
    for (uint32_t e = 0; e < f.model->config.experts; e++)
        f.model->weights->layers[0].experts[e].down.quant.factor.kind = SB_MULTIPLIER;
    double inverted = distance(&f, &f.exact);
    printf("experts exchanged: %.2e, factors inverted: %.2e\n", exchanged, inverted);
    assert_true(exchanged > 100 * NEAR_WEIGHTS && inverted > 100 * NEAR_WEIGHTS);
    quant_fixture_close(&f);
}
