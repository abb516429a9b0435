/* dump_rows.h - turns arrays that were read into steps; for the fuzz targets of tools/dump. */
#ifndef SB_TESTS_FUZZ_DUMP_ROWS_H
#define SB_TESTS_FUZZ_DUMP_ROWS_H

#include "tests/fuzz/fuzz.h"

#include "tools/dump/rows.h"
#include "tools/judge/trace/names.h"

static inline sb_status fuzz_take_step(void *ctx, const sb_step *step, sb_error *err)
{
    float *sum = ctx;
    (void)err;
    FUZZ_CHECK(step->row_count > 0 && step->logits_count <= step->row_count);
    for (size_t i = 0; i < step->taps.count; i++) {
        const sb_step_value *v = &step->taps.items[i];
        sb_tap_name tap;
        FUZZ_CHECK(sb_tap_find(v->name, &tap) && v->rows > 0 && v->cols > 0);
        FUZZ_CHECK(v->rows <= step->row_count);
        for (size_t k = 0; k < v->rows * v->cols; k++)
            *sum += v->data[k]; /* reads all of the data */
    }
    return SB_OK;
}

/* Reads every array where it claims to be, and makes steps, which may be refused. */
static inline int fuzz_play_arrays(const sb_dump_arrays *arrays)
{
    static const uint32_t ids[3] = {1, 5, 3};
    static const uint32_t *const all[] = {ids};
    static const size_t count = 3;
    sb_dump_options o = {.ids = all, .id_count = &count, .sequence_count = 1, .vocab_size = 8};
    sb_dump_rows *rows = NULL;
    sb_trace_head head = {.level = 0};
    sb_error err = {{0}};
    float sum = 0;
    for (size_t i = 0; i < arrays->count; i++) {
        const sb_dump_array *a = &arrays->items[i];
        uint64_t n = sb_dump_array_elements(a);
        unsigned char bytes[16];
        FUZZ_CHECK(a->rank <= SB_MAX_RANK && a->name);
        if (n > 0)
            sb_dump_gather(a, n - 1, 1, bytes);
    }
    sb_status status = sb_dump_rows_new(arrays, "input", &o, &head, &rows, &err);
    if (!status)
        status = sb_dump_rows_play(rows, fuzz_take_step, &sum, &err);
    sb_dump_rows_free(rows);
    if (status)
        fuzz_check_refusal(status, &err);
    return status == SB_OK;
}

#endif
