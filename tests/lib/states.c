#include "tests/lib/states.h"

#include "tests/lib/cmocka.h"

#include "ref/base/bytes.h"
#include "ref/base/rng.h"
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

sb_state *test_tiny_state(uint64_t tokens, int mtp)
{
    static const sb_config config = {.family = SB_QWEN3_5,
                                     .hidden_size = 3,
                                     .layers = 2,
                                     .vocab_size = 11,
                                     .eps = 1e-6,
                                     .heads = 2,
                                     .kv_heads = 1,
                                     .head_dim = 2,
                                     .rotary_dim = 2,
                                     .rope_theta = 10000,
                                     .conv_kernel = 3,
                                     .lin_k_heads = 1,
                                     .lin_v_heads = 2,
                                     .lin_k_dim = 2,
                                     .lin_v_dim = 3,
                                     .intermediate = 4,
                                     .layer_is_full = {0, 1}};
    sb_state *state = NULL;
    sb_error err;
    if (sb_state_new(&config, mtp, &state, &err) || sb_state_reserve(state, tokens, &err))
        fail_msg("%s", err.text);
    state->position = tokens;
    state->mtp_entries = mtp && tokens ? tokens - 1 : 0;
    for (size_t i = 0; i < sb_state_pieces(state); i++) {
        sb_piece p = sb_state_piece(state, i);
        uint64_t key = sb_rng_key(42, p.name);
        for (uint64_t e = 0; e < sb_piece_elements(&p); e++)
            p.data[e] = (float)((double)sb_rng_below(key, e, 64) / 8 - 4);
    }
    return state;
}
