#include "tests/lib/record.h"

#include "tests/lib/cmocka.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/rng.h"

sb_status test_record_tap(void *ctx, const char *name, float *data, size_t rows, size_t cols,
                          sb_error *err)
{
    test_record *record = ctx;
    (void)err;
    if (record->count == record->room) {
        record->room = 2 * record->room + 64;
        record->taps = realloc(record->taps, record->room * sizeof *record->taps);
        assert_non_null(record->taps);
    }
    test_tap *tap = &record->taps[record->count++];
    *tap = (test_tap){.rows = rows, .cols = cols, .digest = sb_digest_f32(data, rows * cols)};
    assert_true(strlen(name) < sizeof tap->name);
    strcpy(tap->name, name);
    return SB_OK;
}

void test_record_free(test_record *record)
{
    free(record->taps);
    *record = (test_record){NULL, 0, 0};
}

sb_session *test_session(const sb_model *model, const sb_knobs *knobs, test_record *record)
{
    sb_session_options options = {
        .knobs = knobs, .tap = record ? test_record_tap : NULL, .tap_ctx = record};
    sb_session *session = NULL;
    sb_error err;
    if (sb_session_new(model, &options, &session, &err))
        fail_msg("%s", err.text);
    return session;
}

void test_feed(sb_session *session, const uint32_t *ids, size_t n)
{
    sb_error err;
    if (sb_session_feed(session, ids, n, &err))
        fail_msg("%s", err.text);
}

void test_draw_ids(const char *name, uint32_t vocabulary, uint32_t *ids, size_t n)
{
    uint64_t key = sb_rng_key(9, name);
    for (size_t i = 0; i < n; i++)
        ids[i] = sb_rng_below(key, i, vocabulary);
}

sb_digest test_state_digest(const sb_session *session)
{
    sb_digest digest;
    assert_int_equal(sb_state_digest(sb_session_state(session), &digest, NULL), SB_OK);
    return digest;
}
