#include "tests/lib/states.h"

#include "tests/lib/cmocka.h"

#include "ref/base/bytes.h"
#include "tests/lib/record.h"

sb_session *test_session_mtp(const sb_model *model, const sb_knobs *knobs, int mtp)
{
    sb_session_options options = {.knobs = knobs, .mtp = mtp};
    sb_session *session = NULL;
    sb_error err;
    if (sb_session_new(model, &options, &session, &err))
        fail_msg("%s", err.text);
    return session;
}

static sb_state_difference compare(const char *what, const sb_state *a, const sb_state *b)
{
    sb_state_difference d;
    sb_error err;
    if (sb_state_compare(a, b, &d, &err))
        fail_msg("%s: %s", what, err.text);
    return d;
}

void test_same_state(const char *what, const sb_state *got, const sb_state *want)
{
    sb_state_difference d = compare(what, got, want);
    sb_difference_text text;
    if (d.differs)
        fail_msg("%s: %s", what, sb_difference_show(&d, &text));
}

void test_other_state(const char *what, const sb_state *got, const sb_state *want)
{
    if (!compare(what, got, want).differs)
        fail_msg("%s: the states are the same", what);
}

sb_state *test_state_copy(const sb_state *state)
{
    sb_state *copy = NULL;
    sb_error err;
    if (sb_state_copy(state, &copy, &err))
        fail_msg("%s", err.text);
    return copy;
}

sb_state *test_state_of(const sb_model *model, const sb_knobs *knobs, int mtp, const uint32_t *ids,
                        size_t n)
{
    sb_session *session = test_session_mtp(model, knobs, mtp);
    for (size_t i = 0; i < n; i++)
        test_feed(session, ids + i, 1);
    sb_state *state = test_state_copy(sb_session_state(session));
    sb_session_free(session);
    return state;
}

void test_poison_state(const sb_state *state)
{
    size_t row = sb_state_kv_row(state->config), end = (size_t)state->capacity * row;
    for (uint32_t i = 0; i < sb_state_layers(state); i++) {
        if (!sb_state_is_full(state, i))
            continue;
        for (size_t e = (size_t)sb_state_kv_rows(state, i) * row; e < end; e++)
            state->layers[i].keys[e] = state->layers[i].values[e] = sb_f32_from_bits(0x7fa5a5a5u);
    }
}
