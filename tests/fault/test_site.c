/* test_site.c - a fault with a site acts there and nowhere else. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <string.h>

#include "ref/state/piece.h"
#include "tests/mtp/play.h"
#include "tools/judge/fault/site.h"

enum { PROMPT = 6 };

static const sb_model *model(void)
{
    return play_model("test_site", "T1", "mistakes");
}

/* The tap of one call of PROMPT tokens, and the state after it. */
static sb_state *run(sb_sited *sited, play_tap *taps)
{
    uint32_t ids[PROMPT];
    sb_session_options options = {.tap = play_keep_taps, .tap_ctx = taps};
    if (sited) {
        options.hook = sb_sited_hook;
        options.hook_ctx = sited;
    }
    sb_session *session = play_session(model(), &options);
    test_draw_ids("site", 300, ids, PROMPT);
    test_feed(session, ids, PROMPT);
    sb_state *state = play_copy(sb_session_state(session));
    sb_session_free(session);
    return state;
}

static const struct {
    const char *fault, *site, *tap;
    size_t row, part, parts; /* row PROMPT: all */
    const char *state;       /* a state that also changes in this part, or NULL */
} sites[] = {
    {"linear.sign", "layer=3 tap=self_attn.v_proj part=1/2 token=4", "layers.3.self_attn.v_proj", 4,
     1, 2, NULL},
    {"rope.plus", "layer=3 tap=self_attn.q_rope part=2/4", "layers.3.self_attn.q_rope", PROMPT, 2,
     4, NULL},
    {"rmsnorm.sign", "layer=3 tap=self_attn.q_norm part=3/4 token=2", "layers.3.self_attn.q_norm",
     2, 3, 4, NULL},
    {"swiglu.sign", "layer=0 tap=mlp.shared_expert.swiglu token=5",
     "layers.0.mlp.shared_expert.swiglu", 5, 0, 1, NULL},
    {"conv.dropped", "layer=0 part=5/8", "layers.0.linear_attn.conv", PROMPT, 5, 8, NULL},
    {"conv.plus", "layer=0 part=1/4", "layers.0.linear_attn.conv", PROMPT, 1, 4,
     "layers.0.linear_attn.conv_state"},
    {"delta_rule.sign", "layer=0 part=2/4", "layers.0.linear_attn.core_out", PROMPT, 2, 4,
     "layers.0.linear_attn.recurrent_state"},
};

/* Asserts which values of (rows, cols) differ: some of the part, and none outside. */
static void only_there(const char *name, const float *a, const float *b, size_t rows, size_t cols,
                       size_t row, size_t part, size_t parts)
{
    size_t inside = 0;
    for (size_t i = 0; i < rows * cols; i++) {
        int here = i % cols * parts / cols == part && (row == PROMPT || i / cols == row);
        if (memcmp(&a[i], &b[i], sizeof *a) == 0)
            continue;
        if (!here)
            fail_msg("%s: row %zu, column %zu differs", name, i / cols, i % cols);
        inside++;
    }
    if (!inside)
        fail_msg("%s: nothing differs", name);
}

static sb_piece piece_of(const sb_state *state, const char *name)
{
    size_t i = 0;
    while (strcmp(sb_state_piece(state, i).name, name) != 0)
        i++;
    return sb_state_piece(state, i);
}

TEST(test_only_there)
{
    for (size_t i = 0; i < sizeof sites / sizeof *sites; i++) {
        play_tap right[] = {{.name = sites[i].tap}, {.name = NULL}};
        play_tap wrong[] = {{.name = sites[i].tap}, {.name = NULL}};
        sb_sited sited = {.plant = {.layer = SB_EVERY_LAYER}};
        sb_error err = {""};
        sited.plant.fault = sb_planted_find(sb_op_faults, sites[i].fault);
        assert_int_equal(sb_site_read(sites[i].site, &sited.site, &err), SB_OK);
        sb_state *a = run(NULL, right), *b = run(&sited, wrong);
        assert_int_equal(sited.ran, 1);
        only_there(sites[i].site, right->data, wrong->data, right->rows, right->cols, sites[i].row,
                   sites[i].part, sites[i].parts);
        if (sites[i].state) {
            sb_piece p = piece_of(a, sites[i].state), q = piece_of(b, sites[i].state);
            size_t rows = p.kind == SB_PIECE_conv_state ? (size_t)p.shape[0] : 1;
            only_there(sites[i].state, p.data, q.data, rows, sb_piece_elements(&p) / rows, PROMPT,
                       sites[i].part, sites[i].parts);
        }
        sb_sited_clear(&sited);
        sb_state_free(a);
        sb_state_free(b);
        play_free_taps(right);
        play_free_taps(wrong);
    }
}

/* A fault in one expert runs only in the calls that use this expert, and never for an expert that
 * does not exist. */
TEST(test_one_expert)
{
    size_t all = 0;
    sb_error err = {""};
    for (int i = 0; i <= 16; i++) {
        play_tap none[] = {{.name = NULL}};
        char words[64];
        sb_sited sited = {.plant = {.layer = SB_EVERY_LAYER}};
        sited.plant.fault = sb_planted_find(sb_op_faults, "linear.sign");
        snprintf(words, sizeof words, "layer=1 tap=mlp.experts.down_proj expert=%d", i);
        assert_int_equal(sb_site_read(words, &sited.site, &err), SB_OK);
        sb_state_free(run(&sited, none));
        all += sited.ran;
        assert_true(sited.ran <= PROMPT);
        sb_sited_clear(&sited);
    }
    assert_int_equal(all, PROMPT * model()->config.experts_per_token);
}

/* Sites in states: one head, one group of channels, one row of keys. */
TEST(test_states)
{
    static const struct {
        const char *site, *piece;
        size_t row, part, parts;
    } rows[] = {{"layer=1 part=2/4", "layers.1.linear_attn.recurrent_state", PROMPT, 2, 4},
                {"layer=1 part=2/4", "layers.1.linear_attn.conv_state", PROMPT, 2, 4},
                {"layer=3 part=1/2 token=3", "layers.3.self_attn.keys", 3, 1, 2}};
    play_tap none[] = {{.name = NULL}};
    sb_state *before = run(NULL, none);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sb_state *now = play_copy(before);
        sb_site site;
        sb_error err = {""};
        for (size_t p = 0; p < sb_state_pieces(now); p++) {
            sb_piece piece = sb_state_piece(now, p);
            for (size_t e = 0; e < sb_piece_elements(&piece); e++)
                piece.data[e] += 1.0f;
        }
        assert_int_equal(sb_site_read(rows[i].site, &site, &err), SB_OK);
        sb_site_restore(&site, before, now);
        for (size_t p = 0; p < sb_state_pieces(now); p++) {
            sb_piece a = sb_state_piece(before, p), b = sb_state_piece(now, p);
            size_t count = (size_t)sb_piece_elements(&a);
            size_t axis = a.kind == SB_PIECE_recurrent_state ? 1 : (size_t)a.shape[0];
            if (strcmp(a.name, rows[i].piece) == 0)
                only_there(a.name, a.data, b.data, axis, count / axis, rows[i].row, rows[i].part,
                           rows[i].parts);
            else if (strncmp(a.name, rows[i].piece, 9) != 0)
                assert_memory_equal(a.data, b.data, count * sizeof *a.data);
        }
        sb_state_free(now);
    }
    sb_state_free(before);
}

TEST(test_words)
{
    static const char *const wrong[] = {"layers=3", "part=1", "kind=prefill", "3", "layer=x"};
    sb_site site;
    sb_error err = {""};
    assert_int_equal(sb_site_read("", &site, &err), SB_OK);
    assert_int_equal(site.layer, SB_EVERY_LAYER);
    assert_true(site.token == SB_NOWHERE && site.round == SB_NOWHERE);
    assert_int_equal(sb_site_read("kind=draft kind=verify round=2", &site, &err), SB_OK);
    assert_int_equal(site.kinds, 1U << SB_CALL_draft | 1U << SB_CALL_verify);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(sb_site_read(wrong[i], &site, &err), SB_ERR_USAGE);
        assert_non_null(strstr(err.text, "is not a site of a fault"));
    }
}

TEST_GROUP(NULL, play_close_models)
