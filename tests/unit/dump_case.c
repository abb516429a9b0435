#include "tests/unit/dump_case.h"

#include "ref/base/text.h"
#include "ref/container/file.h"
#include "tools/judge/trace/names.h"

float dump_value(const char *tap, size_t i)
{
    static const float router_ids[] = {0, 3, 2, 1, 3, 0};
    float factor = strcmp(tap, "layers.0.output") == 0 ? 2.0f : 1.0f;
    if (sb_tap_is_ids(tap))
        return router_ids[i % 6];
    return (strcmp(tap, "norm") == 0 ? -1.0f : factor) * (0.25f * (float)i - 1.0f);
}

/* Checks a tap with one value per row. `first` is the number of rows in earlier steps. */
static void check_value(const sb_step *step, const sb_step_value *v, size_t first)
{
    size_t at = 0;
    for (size_t row = 0; row < v->rows; row++, at++) {
        int listed = step->logits_rows && strcmp(v->name, "logits") == 0;
        if (listed)
            at = step->logits_rows[row];
        for (size_t col = 0; col < v->cols; col++) {
            float found = v->data[row * v->cols + col];
            float expected = dump_value(v->name, (first + at) * v->cols + col);
            if (found != expected)
                fail_msg("%s: row %zu, column %zu is %g, expected %g", v->name, row, col,
                         (double)found, (double)expected);
        }
    }
}

sb_status dump_take(void *ctx, const sb_step *step, sb_error *err)
{
    dump_seen *seen = ctx;
    (void)err;
    assert_int_equal(step->number, seen->steps);
    seen->steps++;
    seen->rows += step->row_count;
    seen->taps += step->taps.count;
    if (seen->unknown == 0)
        memcpy(seen->first_unknown, step->first_unknown, sizeof seen->first_unknown);
    seen->unknown += step->unknown;
    if (step->row_count > seen->most_rows)
        seen->most_rows = step->row_count;
    for (size_t i = 0; i < step->row_count; i++) {
        assert_true(i == 0 || step->rows[i].position == step->rows[i - 1].position + 1);
        assert_int_equal(step->rows[i].slot, SB_NO_SLOT);
        seen->decodes += step->rows[i].kind == SB_CALL_decode;
        seen->last_id = step->rows[i].token;
    }
    for (size_t i = 0; i < step->taps.count && seen->check; i++)
        check_value(step, &step->taps.items[i], seen->rows - step->row_count);
    return SB_OK;
}

sb_status dump_play(const char *path, const dump_given *given, dump_seen *seen, sb_error *err)
{
    const uint32_t *ids[16];
    size_t counts[16] = {0}, sequences = 0;
    for (size_t i = 0; given->ids[0] && given->ids[i] != NO_ID; i++) {
        ids[sequences] = &given->ids[i];
        for (; given->ids[i] != NO_ID; i++)
            counts[sequences]++;
        sequences++;
    }
    sb_dump_options o = {.ids = sequences ? ids : NULL,
                         .id_count = counts,
                         .sequence_count = sequences,
                         .map = given->map,
                         .as = given->as,
                         .vocab_size = given->vocab_size};
    sb_dump *dump = NULL;
    int check = seen->check;
    *seen = (dump_seen){.check = check};
    sb_status status = sb_dump_open(path, &o, &dump, err);
    if (status)
        return status;
    seen->vocab_size = sb_dump_info(dump)->vocab_size;
    status = sb_dump_play(dump, dump_take, seen, err);
    sb_dump_close(dump);
    return status;
}

void dump_expect(const char *path, const dump_given *given, dump_seen *seen)
{
    sb_error err = {{0}};
    check_status(path, dump_play(path, given, seen, &err), &err, SB_OK, "");
}

void dump_refuse(const char *path, const dump_given *given, sb_status status, const char *fragment)
{
    sb_error err = {{0}};
    dump_seen seen = {.check = 0};
    check_status(path, dump_play(path, given, &seen, &err), &err, status, fragment);
}

unsigned char *dump_bytes(const char *path, size_t *size)
{
    unsigned char *bytes = NULL;
    sb_error err = {{0}};
    check_status(path, sb_read_file(path, 1 << 26, &bytes, size, &err), &err, SB_OK, "");
    return bytes;
}
