/* record.h - the digests of all taps of a session, in order. */
#ifndef SB_TESTS_LIB_RECORD_H
#define SB_TESTS_LIB_RECORD_H

#include "ref/base/hash.h"
#include "ref/run/session.h"

typedef struct test_tap {
    char name[96];
    size_t rows, cols;
    sb_digest digest;
} test_tap;

typedef struct test_record {
    test_tap *taps;
    size_t count, room;
} test_record;

/* For sb_session_options: .tap = test_record_tap, .tap_ctx = &record. */
sb_status test_record_tap(void *ctx, const char *name, float *data, size_t rows, size_t cols,
                          sb_error *err);
void test_record_free(test_record *record);

/* A session; asserts success. knobs and record may be NULL. */
sb_session *test_session(const sb_model *model, const sb_knobs *knobs, test_record *record);

/* Feeds ids; asserts success. */
void test_feed(sb_session *session, const uint32_t *ids, size_t n);

/* n ids below `vocabulary`, which depend only on the name. */
void test_draw_ids(const char *name, uint32_t vocabulary, uint32_t *ids, size_t n);

sb_digest test_state_digest(const sb_session *session);

#endif
