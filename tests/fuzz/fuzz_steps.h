/* fuzz_steps.h - the laws that hold for every step of a reader. */
#ifndef SB_TESTS_FUZZ_STEPS_H
#define SB_TESTS_FUZZ_STEPS_H

#include "tests/fuzz/fuzz.h"
#include "tools/judge/trace/names.h"
#include "tools/judge/trace/step.h"

typedef struct fuzz_steps {
    uint32_t vocabulary;
    size_t count;
} fuzz_steps;

/* Rows are in order, arrays have the rows that the step claims, and all data is readable. */
static inline sb_status fuzz_take_step(void *ctx, const sb_step *step, sb_error *err)
{
    fuzz_steps *s = ctx;
    size_t rows = step->logits_rows ? step->logits_count : step->row_count;
    (void)err;
    FUZZ_CHECK(step->row_count > 0 && step->logits_count <= step->row_count);
    for (size_t i = 0; i < step->row_count; i++)
        FUZZ_CHECK(step->rows[i].position == step->rows[0].position + i &&
                   step->rows[i].token < s->vocabulary);
    for (size_t i = 0; i < step->taps.count; i++) {
        const sb_step_value *v = &step->taps.items[i];
        float sum = 0;
        FUZZ_CHECK(v->data && v->cols > 0);
        FUZZ_CHECK(v->rows == (sb_tap_is_of_logits(v->name) ? rows : step->row_count));
        for (size_t k = 0; k < v->rows * v->cols; k++)
            sum += v->data[k];
        (void)sum;
    }
    s->count++;
    return SB_OK;
}

#endif
