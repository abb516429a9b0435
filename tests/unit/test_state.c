/* test_state.c - the state as a value: copies, pieces, comparison (S-11), rollback inside a call
 * (S-10), and cells that were never written. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/base/pool.h"
#include "ref/base/rng.h"
#include "ref/run/round.h"
#include "ref/state/trail.h"
#include "tests/lib/checkpoint.h"
#include "tests/lib/record.h"
#include "tests/lib/states.h"

enum { V = 384, N = 9, ROOM = 80 };

static sb_model *model; /* T4: three linear layers, a full-attention layer, and a head */
static uint32_t ids[ROOM];
static const uint32_t POISON = 0x7fa5a5a5u;

TEST_FIXTURE(open_model)
{
    model = test_model_open(test_checkpoint("test_state", "T4", NULL, "bf16", "text"));
    test_draw_ids("state", V, ids, ROOM);
    sb_threads_set(1); /* the fault counter works in one thread only */
    return 0;
}

TEST_FIXTURE(close_model)
{
    sb_model_close(model);
    return 0;
}

/* --- copies ----------------------------------------------------------------------------------- */

TEST(test_copies)
{
    sb_error err;
    sb_state *nine = test_state_of(model, NULL, 1, ids, N),
             *two = test_state_of(model, NULL, 1, ids, 2),
             *bare = test_state_of(model, NULL, 0, ids, N), *copy = test_state_copy(nine);
    assert_int_equal(copy->capacity, N);
    test_same_state("copy", copy, nine);
    copy->layers[3].keys[0] += 1; /* the copy has its own arrays */
    test_other_state("copy", copy, nine);
    assert_int_equal(sb_state_assign(copy, nine, &err), SB_OK);
    test_same_state("assigned", copy, nine);
    assert_int_equal(sb_state_assign(copy, two, &err), SB_OK); /* shorter, then longer again */
    test_same_state("shorter", copy, two);
    assert_int_equal(sb_state_assign(two, nine, &err), SB_OK);
    test_same_state("longer", two, nine);
    assert_int_equal(sb_state_assign(bare, nine, &err), SB_ERR_USAGE);
    assert_int_equal(sb_state_assign(nine, bare, &err), SB_ERR_USAGE);
    sb_state_drop_mtp(nine);
    test_same_state("without its head", nine, bare);
    assert_int_equal(sb_state_assign(nine, bare, &err), SB_OK);
    sb_state_reset(nine);
    assert_true(nine->position == 0 && nine->mtp_entries == 0);
    sb_state_free(nine);
    sb_state_free(two);
    sb_state_free(bare);
    sb_state_free(copy);
    sb_state_free(NULL);
}

/* An assignment that fails does not change the target; every allocation of copy and assignment may
 * fail. */
TEST(test_copies_without_memory)
{
    unsigned long faults[2] = {0, 0};
    sb_state *nine = test_state_of(model, NULL, 1, ids, N),
             *two = test_state_of(model, NULL, 1, ids, 2);
    for (int assign = 0; assign < 2; assign++)
        for (unsigned long n = 1;; n++) {
            sb_state *copy = assign ? test_state_copy(two) : NULL;
            sb_error err = {""};
            sb_alloc_fail_at(n);
            sb_status status =
                assign ? sb_state_assign(copy, nine, &err) : sb_state_copy(nine, &copy, &err);
            sb_alloc_fail_at(0);
            if (status) {
                assert_int_equal(status, SB_ERR_MEMORY);
                faults[assign]++;
                if (assign)
                    test_same_state("after the fault", copy, two);
            } else {
                test_same_state("at last", copy, nine);
            }
            sb_state_free(copy);
            if (!status)
                break;
        }
    assert_true(faults[0] > 10 && faults[1] > 3);
    sb_state_free(nine);
    sb_state_free(two);
}

/* --- pieces ----------------------------------------------------------------------------------- */

/* D-3 and D-9 hash the position, or the number of entries, and then the pieces in order. */
TEST(test_pieces_are_what_digests_cover)
{
    sb_digest target, mtp;
    sb_error err;
    sb_state *s = test_state_of(model, NULL, 1, ids, N);
    sb_hash *of_target = sb_hash_new(), *of_mtp = sb_hash_new();
    assert_int_equal(sb_state_pieces(s), 2 * 4 + 3);
    sb_hash_u64(of_target, N);
    sb_hash_u64(of_mtp, N - 1);
    for (size_t i = 0; i < sb_state_pieces(s); i++) {
        sb_piece p = sb_state_piece(s, i);
        sb_hash_f32(i < 8 ? of_target : of_mtp, p.data, (size_t)sb_piece_elements(&p));
    }
    assert_int_equal(sb_state_digest(s, &target, &err), SB_OK);
    assert_int_equal(sb_state_mtp_digest(s, &mtp, &err), SB_OK);
    assert_string_equal(sb_hash_end(of_target).hex, target.hex);
    assert_string_equal(sb_hash_end(of_mtp).hex, mtp.hex);
    assert_string_equal(sb_state_piece(s, 0).name, "layers.0.linear_attn.conv_state");
    assert_string_equal(sb_state_piece(s, 6).name, "layers.3.self_attn.keys");
    assert_string_equal(sb_state_piece(s, 9).name, "mtp.layers.0.self_attn.values");
    assert_string_equal(sb_state_piece(s, 10).name, "mtp.hidden");
    sb_hash_free(of_target);
    sb_hash_free(of_mtp);
    sb_state_free(s);
}

/* --- comparison ------------------------------------------------------------------------------- */

static sb_state_difference difference(const sb_state *a, const sb_state *b)
{
    sb_state_difference d;
    sb_error err;
    if (sb_state_compare(a, b, &d, &err))
        fail_msg("%s", err.text);
    return d;
}

static void check_message(const sb_state *a, const sb_state *b, const char *expected)
{
    sb_state_difference d = difference(a, b);
    sb_difference_text text;
    sb_difference_show(&d, &text);
    if (!strstr(text.text, expected))
        fail_msg("\"%s\" lacks \"%s\"", text.text, expected);
    assert_null(strchr(text.text, '\n'));
}

/* One element of every piece, at an index computed from head, row and column in the layout of D-10.
 * The tiny model: kv 1 x 2, conv (2, 10), recurrent (2, 2, 3), hidden 3. */
TEST(test_first_difference)
{
    static const struct {
        size_t piece, element;
        const char *expected;
    } cases[] = {
        {0, 0, "layers.0.linear_attn.conv_state: query head 0, row 0, col 0: "},
        {0, 10 + 3, "layers.0.linear_attn.conv_state: key head 0, row 1, col 3: "},
        {0, 10 + 4, "layers.0.linear_attn.conv_state: value head 0, row 1, col 4: "},
        {0, 10 + 9, "layers.0.linear_attn.conv_state: value head 1, row 1, col 9: "},
        {1, 6 + 3 + 2, "layers.0.linear_attn.recurrent_state: head 1, row 1, col 2: "},
        {2, 2 * 2 + 1, "layers.1.self_attn.keys: head 0, row 2, col 1: "},
        {3, 0, "layers.1.self_attn.values: head 0, row 0, col 0: "},
        {4, 2 + 1, "mtp.layers.0.self_attn.keys: head 0, row 1, col 1: "},
        {5, 1, "mtp.layers.0.self_attn.values: head 0, row 0, col 1: "},
        {6, 2, "mtp.hidden: row 0, col 2: "},
    };
    sb_state *a = test_tiny_state(3, 1), *b = test_tiny_state(3, 1);
    check_message(a, b, "the states are the same");
    for (size_t i = sizeof cases / sizeof *cases; i-- > 0;) { /* from the last to the first */
        char expected[200];
        float *x = &sb_state_piece(b, cases[i].piece).data[cases[i].element];
        float was = *x;
        *x = was == 7 ? 8 : 7;
        snprintf(expected, sizeof expected, "%s0x%08x (%g) and 0x%08x (%g)", cases[i].expected,
                 (unsigned)sb_bits_f32(was), (double)was, (unsigned)sb_bits_f32(*x), (double)*x);
        check_message(a, b, expected);
    }
    sb_state_difference d = difference(a, b);
    assert_true(d.differs && d.pieces == 7 && d.pieces_different == 7 && d.different == 10);
    assert_true(d.in_piece.different == 4 && d.in_piece.compared == 20);
    sb_state_free(a);
    sb_state_free(b);
}

/* S-11: "0 and -0 differ"; NaNs are compared by their bits, and have no distance. */
TEST(test_bits_decide)
{
    sb_state *a = test_tiny_state(3, 0), *b = test_tiny_state(3, 0);
    float *x = a->layers[0].recurrent + 4, *y = b->layers[0].recurrent + 4;
    *x = 0.0f;
    *y = -0.0f;
    check_message(a, b, "0x00000000 (0) and 0x80000000 (-0); in all 1 elements in 1 of 4 pieces");
    *x = *y = sb_f32_from_bits(0x7fc00001u);
    assert_false(difference(a, b).differs);
    *y = sb_f32_from_bits(0x7fc00002u);
    sb_state_difference d = difference(a, b);
    assert_true(d.differs && d.in_piece.largest == 0);
    *x = 3;
    *y = 1;
    x[1] = y[1] = 2;
    x[2] = 0.5f;
    y[2] = 3.25f;
    d = difference(a, b);
    assert_true(d.in_piece.different == 2 && d.in_piece.first == 4 && d.in_piece.largest == 2.75);
    sb_state_free(a);
    sb_state_free(b);
}

/* Position and entries come first; then the rows that both states have are compared. */
TEST(test_other_lengths)
{
    sb_state_difference d;
    sb_error err;
    sb_state *three = test_tiny_state(3, 1), *two = test_tiny_state(2, 1),
             *bare = test_tiny_state(3, 0), *foreign = test_state_of(model, NULL, 1, ids, 2);
    check_message(three, two, "position 3 and 2; entries of the MTP head 2 and 1");
    assert_false(difference(three, two).has_element);
    two->layers[1].values[3] += 1;
    check_message(three, two,
                  "entries of the MTP head 2 and 1; layers.1.self_attn.values: head 0, "
                  "row 1, col 1");
    two->layers[1].values[3] -= 1;
    two->layers[1].values[4] += 1; /* beyond the position: not part of the state */
    assert_false(difference(three, two).has_element);
    check_message(three, bare, "only the first has an MTP head");
    check_message(bare, three, "only the second has an MTP head");
    sb_state *same = test_tiny_state(3, 1);
    three->mtp_entries = 1;
    check_message(three, same, "entries of the MTP head 1 and 2");
    sb_state_free(same);
    assert_int_equal(sb_state_compare(three, foreign, &d, &err), SB_ERR_USAGE);
    assert_non_null(strstr(err.text, "num_hidden_layers is 2 in one and 4"));
    sb_state_free(three);
    sb_state_free(two);
    sb_state_free(bare);
    sb_state_free(foreign);
}

/* --- rollback * ------------------------------------------------------------------------------- */

/* A trail restores the content of a slot, and nothing else; slots that were not written are
 * poisoned. */
TEST(test_trail)
{
    sb_trail trail = {0};
    sb_error err;
    sb_state *a = test_tiny_state(3, 1), *before = test_state_copy(a);
    size_t conv = sb_state_conv_size(a->config), recurrent = sb_state_recurrent_size(a->config);
    for (size_t rows = 1; rows < 4; rows++) { /* the trail grows */
        assert_int_equal(sb_trail_begin(&trail, a, rows, 1, &err), SB_OK);
        assert_true(trail.rows == rows && trail.room >= rows + 1);
        for (size_t e = 0; e < rows * conv; e++)
            sb_trail_conv(&trail, 0, 1)[e] = sb_f32_from_bits(POISON);
        for (size_t e = 0; e < rows * recurrent; e++)
            sb_trail_recurrent(&trail, 0, 1)[e] = sb_f32_from_bits(POISON);
        for (size_t e = 0; e < rows * a->config->hidden_size; e++)
            trail.hidden[a->config->hidden_size + e] = sb_f32_from_bits(POISON);
        a->position += rows; /* as a call does */
        for (size_t e = 0; e < conv; e++)
            a->layers[0].conv[e] += 1;
        sb_trail_recurrent(&trail, 0, 1)[0] = 5;
        sb_trail_restore(&trail, 0, a);
        test_same_state("slot 0", a, before);
        sb_trail_restore(&trail, 1, a); /* what a row wrote, and the poison next to it */
        assert_true(a->position == 4 && a->layers[0].recurrent[0] == 5);
        assert_int_equal(sb_bits_f32(a->layers[0].conv[conv - 1]), POISON);
        assert_int_equal(sb_bits_f32(a->mtp_hidden[0]), POISON);
        sb_trail_restore(&trail, 0, a);
    }
    assert_int_equal(sb_trail_begin(&trail, a, 100, 0, &err), SB_OK); /* with slot 0 only */
    assert_true(trail.room < 100);
    sb_trail_restore(&trail, 0, a);
    test_same_state("replay", a, before);
    sb_trail_free(&trail);
    sb_trail_free(&trail);
    sb_state_free(a);
    sb_state_free(before);
}

TEST(test_trail_without_memory)
{
    unsigned long faults = 0;
    sb_state *a = test_tiny_state(3, 1), *before = test_state_copy(a);
    for (unsigned long n = 1;; n++) {
        sb_trail trail = {0};
        sb_error err = {""};
        assert_int_equal(sb_trail_begin(&trail, a, 1, 1, &err), SB_OK);
        sb_alloc_fail_at(n);
        sb_status status = sb_trail_begin(&trail, a, 5, 1, &err);
        sb_alloc_fail_at(0);
        test_same_state("untouched", a, before);
        if (status) {
            assert_int_equal(status, SB_ERR_MEMORY);
            assert_int_equal(sb_trail_begin(&trail, a, 5, 1, &err), SB_OK);
            faults++;
        }
        sb_trail_free(&trail);
        if (!status)
            break;
    }
    assert_int_equal(faults, 5);
    sb_state_free(a);
    sb_state_free(before);
}

/* The states after the rows of a verify: available before keep and after it, but not after the next
 * call. */
TEST(test_states_of_rows)
{
    float logits[V];
    sb_error err;
    sb_state *row = NULL;
    sb_session *session = test_session_mtp(model, NULL, 1);
    test_feed(session, ids, 3);
    assert_int_equal(sb_session_state_at(session, 0, &row, &err), SB_ERR_USAGE);
    assert_int_equal(sb_session_verify(session, ids + 3, 5, SB_ROLLBACK_snapshots, &err), SB_OK);
    for (size_t keep = 0; keep < 2; keep++) {
        size_t last = keep ? 4 : 5;
        for (size_t i = 0; i <= last; i++) {
            sb_state *expected = test_state_of(model, NULL, 1, ids, 3 + i);
            if (sb_session_state_at(session, i, &row, &err))
                fail_msg("%s", err.text);
            test_same_state("row", row, expected);
            sb_state_free(row);
            sb_state_free(expected);
        }
        assert_int_equal(sb_session_state_at(session, last + 1, &row, &err), SB_ERR_USAGE);
        if (!keep)
            assert_int_equal(sb_session_keep(session, 4, &err), SB_OK);
        assert_int_equal(sb_session_draft(session, 1, logits, &err), SB_OK); /* in between */
    }
    test_feed(session, ids, 1);
    assert_int_equal(sb_session_state_at(session, 0, &row, &err), SB_ERR_USAGE);
    assert_int_equal(sb_session_verify(session, ids, 2, SB_ROLLBACK_replay, &err), SB_OK);
    assert_int_equal(sb_session_state_at(session, 1, &row, &err), SB_ERR_USAGE);
    sb_session_free(session);
}

/* Setting a state and a reset both end drafts and the rollback of the verify before. */
TEST(test_nothing_of_before)
{
    float first[V], again[V];
    sb_error err;
    sb_state *row = NULL;
    for (int given = 0; given < 2; given++) {
        sb_session *session = test_session_mtp(model, NULL, 1);
        sb_state *before = test_state_of(model, NULL, 1, ids, 3);
        test_feed(session, ids, 3);
        assert_int_equal(sb_session_draft(session, 1, first, &err), SB_OK);
        assert_int_equal(sb_session_verify(session, ids + 3, 5, SB_ROLLBACK_snapshots, &err), 0);
        assert_int_equal(sb_session_draft(session, 2, again, &err), SB_OK);
        if (given) {
            assert_int_equal(sb_session_set_state(session, before, &err), SB_OK);
        } else {
            sb_session_reset(session);
        }
        assert_int_equal(sb_session_state_at(session, 1, &row, &err), SB_ERR_USAGE);
        assert_int_equal(sb_session_keep(session, 1, &err), SB_ERR_USAGE);
        if (given) { /* S-8: "The first draft after token x_P", not one behind drafts */
            assert_int_equal(sb_session_draft(session, 1, again, &err), SB_OK);
            assert_memory_equal(again, first, sizeof first);
        }
        sb_state_free(before);
        sb_session_free(session);
    }
}

/* --- cells that were never written * ---------------------------------------------------------- */

/* Rounds of three drafts after 60 tokens, so that the arrays grow. If `poisoned`, every free cell
 * is NaN before each call. Returns the state; *logits is the digest of the logits of all rows and
 * drafts. */
static sb_state *run_poisoned(sb_rollback rollback, int poisoned, sb_digest *logits)
{
    static const int accepts[] = {3, 0, 1, 2, 3, 0};
    sb_round_options options = {.rollback = rollback};
    sb_rounds *rounds = NULL;
    sb_hash *hash = sb_hash_new();
    sb_error err;
    uint32_t token = ids[60];
    sb_session *session = test_session_mtp(model, NULL, 1);
    test_feed(session, ids, 60);
    assert_int_equal(sb_rounds_new(session, &options, &rounds, &err), SB_OK);
    for (size_t i = 0; i < sizeof accepts / sizeof *accepts; i++) {
        sb_round_ask ask = {.token = token, .drafts = i == 2 ? 1 : 3, .forced = accepts[i]};
        sb_round round;
        if (poisoned)
            test_poison_state(sb_session_state(session));
        if (sb_rounds_next(rounds, &ask, &round, &err))
            fail_msg("%s", err.text);
        for (size_t row = 0; row <= round.drafted; row++)
            sb_hash_f32(hash, sb_rounds_logits(rounds, row), V);
        for (size_t draft = 0; draft < round.drafted; draft++)
            sb_hash_f32(hash, sb_rounds_draft_logits(rounds, draft), V);
        token = round.tokens[round.emitted - 1];
    }
    *logits = sb_hash_end(hash);
    sb_state *state = test_state_copy(sb_session_state(session));
    assert_true(state->position > 64);
    sb_hash_free(hash);
    sb_rounds_free(rounds);
    sb_session_free(session);
    return state;
}

TEST(test_free_cells_are_never_read)
{
    for (int r = 0; r < 2; r++) {
        sb_rollback rollback = r ? SB_ROLLBACK_replay : SB_ROLLBACK_snapshots;
        sb_digest clean, poisoned;
        sb_state *a = run_poisoned(rollback, 0, &clean), *b = run_poisoned(rollback, 1, &poisoned);
        test_same_state("poisoned", b, a);
        assert_string_equal(poisoned.hex, clean.hex);
        sb_state_free(a);
        sb_state_free(b);
    }
}

/* Poison in a row that is read is detected: in the trunk and in the head. */
TEST(test_poison_shows)
{
    sb_error err;
    float logits[V];
    for (int head = 0; head < 2; head++) {
        sb_session *session = test_session_mtp(model, NULL, 1);
        test_feed(session, ids, 5);
        const sb_state *s = sb_session_state(session);
        s->layers[head ? 4 : 3].keys[3 * 128 + 7] = sb_f32_from_bits(POISON);
        sb_status status = head ? sb_session_draft(session, 1, logits, &err)
                                : sb_session_feed(session, ids, 1, &err);
        assert_int_equal(status, SB_ERR_NUMERIC);
        assert_non_null(strstr(err.text, head ? "mtp.layers.0" : "layers.3"));
        sb_session_free(session);
    }
}

/* A new sequence in a session that had another one, with NaN everywhere. */
TEST(test_reused_slot)
{
    sb_session *session = test_session_mtp(model, NULL, 1);
    sb_state *expected = test_state_of(model, NULL, 1, ids, N);
    test_feed(session, ids + 20, 30);
    const sb_state *s = sb_session_state(session);
    for (size_t i = 0; i < sb_state_pieces(s); i++) {
        sb_piece p = sb_state_piece(s, i);
        for (uint64_t e = 0; e < sb_piece_elements(&p); e++)
            p.data[e] = sb_f32_from_bits(POISON);
    }
    sb_session_reset(session);
    test_poison_state(s);
    test_feed(session, ids, N);
    test_same_state("reused", s, expected);
    sb_state_free(expected);
    sb_session_free(session);
}

TEST_GROUP(open_model, close_model)
