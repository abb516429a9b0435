/* test_eagle3_state.c - the entries of a drafter in a state file (S-15, D-10 to D-13): the same
 * bits come back, damage is refused, and an entry that a rejected draft has left is found. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/run/eagle3.h"
#include "ref/run/state_file.h"
#include "ref/state/compare.h"
#include "tests/lib/checkpoint.h"
#include "tests/lib/state_parts.h"

#define PROGRAM "test_eagle3_state"
#define META "samebit.state."

enum { N = 6 };

static const uint32_t ids[N] = {3, 10, 17, 24, 31, 38};
static sb_model *model;
static sb_eagle3 *drafter;
static sb_eagle3_identity identity;
static sb_knobs exact;
static sb_state_origin origin;

TEST_FIXTURE(open_drafter)
{
    sb_error err = {""};
    model = test_model_open(test_checkpoint(PROGRAM, "T4", "predictable", "bf16", "text"));
    sb_knobs_exact(&exact);
    if (sb_eagle3_open("golden/drafts/eagle3/llama-10-none", model, &drafter, &err) ||
        sb_eagle3_identify(drafter, &identity, &err))
        fail_msg("%s", err.text);
    origin =
        (sb_state_origin){.knobs = &exact, .profile = "exact", .tokens = ids, .drafter = &identity};
    return sb_checkpoint_digest(model->checkpoint, &origin.checkpoint, &err);
}

TEST_FIXTURE(close_drafter)
{
    sb_eagle3_close(drafter);
    sb_model_close(model);
    return 0;
}

typedef struct pair {
    sb_session *session;
    sb_eagle3_drafts *drafts;
    sb_state state; /* a view with the entries */
    sb_drafter_state entries;
} pair;

static pair begin(void)
{
    const sb_session_options options = {.states = sb_eagle3_states(drafter)};
    pair p = {.session = NULL};
    sb_error err = {""};
    if (sb_session_new(model, &options, &p.session, &err) ||
        sb_eagle3_drafts_new(drafter, p.session, &p.drafts, &err))
        fail_msg("%s", err.text);
    return p;
}

static void end(pair *p)
{
    sb_eagle3_drafts_free(p->drafts);
    sb_session_free(p->session);
}

/* Feeds n tokens; entries are made of `as`, which is another list only where a fault is planted. */
static void feed(pair *p, const uint32_t *tokens, const uint32_t *as, size_t n)
{
    sb_error err = {""};
    if (sb_session_feed(p->session, tokens, n, &err) || sb_eagle3_follow(p->drafts, as, n, &err))
        fail_msg("%s", err.text);
    p->state = *sb_session_state(p->session);
    assert_true(sb_eagle3_entries(p->drafts, &p->entries));
    p->state.drafter = &p->entries;
}

static void save(const pair *p, const char *path)
{
    sb_error err = {""};
    if (sb_state_save(path, &p->state, &origin, &err))
        fail_msg("%s", err.text);
}

/* A run that continues has the entries and the drafts of one that was not broken. */
TEST(test_continues)
{
    const char *path = test_path(PROGRAM, "half");
    pair whole = begin(), first = begin(), second = begin();
    sb_state_file *file = NULL;
    sb_state *state = NULL;
    sb_state_difference d;
    sb_error err = {""};
    float one[288], other[288];
    uint32_t draft = 0, again = 0;
    feed(&whole, ids, ids, N);
    feed(&first, ids, ids, 4);
    assert_int_equal(sb_eagle3_draft(first.drafts, 5, NULL, &draft, &err), SB_OK);
    save(&first, path); /* a draft leaves no trace */
    assert_int_equal(sb_state_file_open(path, &file, &err), SB_OK);
    assert_int_equal(sb_state_file_has_entries(file, path, &identity, "D", &err), SB_OK);
    assert_int_equal(sb_state_file_take(file, path, model, &origin, 0, &state, &err), SB_OK);
    assert_int_equal(sb_session_set_state(second.session, state, &err), SB_OK);
    assert_int_equal(sb_eagle3_restore(second.drafts, file->entries, &err), SB_OK);
    feed(&second, ids + 4, ids + 4, N - 4);
    assert_int_equal(sb_state_compare(&whole.state, &second.state, &d, &err), SB_OK);
    assert_int_equal(d.differs, 0);
    assert_int_equal(d.pieces, sb_state_pieces(&whole.state));
    for (uint32_t k = 0, token = 45; k < 3; k++, token = draft) {
        assert_int_equal(sb_eagle3_draft(whole.drafts, token, one, &draft, &err), SB_OK);
        assert_int_equal(sb_eagle3_draft(second.drafts, token, other, &again, &err), SB_OK);
        assert_memory_equal(one, other, sizeof one);
        assert_int_equal(draft, again);
    }
    sb_state_free(state);
    sb_state_file_free(file);
    end(&whole);
    end(&first);
    end(&second);
}

/* Planted: the entry of a rejected draft stays where the right one belongs. Compared and found at
 * its row; the benign twin, a rejected draft and then the right entry, is equal. */
TEST(test_entry_of_rejected_draft)
{
    const uint32_t wrong[N] = {3, 10, 17, 99, 31, 38};
    pair right = begin(), hurt = begin(), twin = begin();
    sb_state_difference d;
    sb_difference_text text;
    sb_error err = {""};
    uint32_t draft = 0;
    feed(&right, ids, ids, N);
    feed(&hurt, ids, wrong, N);
    feed(&twin, ids, ids, 3);
    assert_int_equal(sb_eagle3_draft(twin.drafts, 99, NULL, &draft, &err), SB_OK);
    feed(&twin, ids + 3, ids + 3, N - 3);
    assert_int_equal(sb_state_compare(&right.state, &hurt.state, &d, &err), SB_OK);
    assert_string_equal(d.piece.name, "drafter.layers.0.self_attn.keys");
    assert_int_equal(d.place.row, 2); /* the entry that was made when token 3 was fed */
    assert_int_equal(d.place.head, 0);
    assert_non_null(strstr(sb_difference_show(&d, &text), "drafter.layers.0.self_attn.keys: head"));
    assert_int_equal(sb_state_compare(&right.state, &twin.state, &d, &err), SB_OK);
    assert_int_equal(d.differs, 0);
    end(&right);
    end(&hurt);
    end(&twin);
}

/* A state without entries, and one with fewer, differ from one with entries. */
TEST(test_other_numbers)
{
    pair a = begin(), b = begin();
    sb_state_difference d;
    sb_difference_text text;
    feed(&a, ids, ids, N);
    feed(&b, ids, ids, N);
    b.entries.entries--;
    assert_int_equal(sb_state_compare(&a.state, &b.state, &d, NULL), SB_OK);
    assert_int_equal(d.differs, 1);
    assert_string_equal(sb_difference_show(&d, &text), "entries of the drafter 5 and 4");
    b.state.drafter = NULL;
    assert_int_equal(sb_state_compare(&a.state, &b.state, &d, NULL), SB_OK);
    assert_string_equal(sb_difference_show(&d, &text), "only the first has entries of a drafter");
    b.state.drafter = &b.entries;
    b.entries.width /= 2;
    assert_int_equal(sb_state_compare(&a.state, &b.state, &d, NULL), SB_ERR_USAGE);
    end(&a);
    end(&b);
}

static sb_status parse(const test_parts *p, sb_error *err)
{
    size_t size;
    sb_state_file *file = NULL;
    unsigned char *bytes = test_put_together(p, &size);
    sb_status status = sb_state_file_parse(bytes, size, "input", &file, err);
    sb_state_file_free(file);
    free(bytes);
    return status;
}

/* Metadata with other content: each is refused, sealed or not. */
TEST(test_changed_metadata)
{
    static const struct {
        const char *key, *value, *message;
    } cases[] = {
        {META "drafter", "00112233445566778899aabbccddeeff", "drafter\" is 0011"},
        {META "drafter", "short", "32 hexadecimal digits"},
        {META "drafter_checkpoint", "", "32 hexadecimal digits"},
        {META "drafter_entries", "4", "has 4 entries of the drafter at position 6"},
        {META "drafter_entries", "6", "has 6 entries of the drafter at position 6"},
        {META "drafter_entries", "99999999999999999999", "expected a number"},
        {META "drafter_config", "", "num_key_value_heads"},
        {META "drafter_config",
         " num_key_value_heads=2 head_dim=32 target_hidden_size=128 states=3",
         "drafter.layers.0.self_attn.keys"},
        {META "drafter_config",
         " num_key_value_heads=1 head_dim=32 target_hidden_size=128 states=9", "states"},
        {META "drafter_config",
         " num_key_value_heads=1 head_dim=32 target_hidden_size=127 states=3", "drafter.states"},
        {META "drafter_config",
         " num_key_value_heads=65536 head_dim=65536 target_hidden_size=127 states=3", "drafter"},
        {META "position", "7", "has 5 entries of the drafter at position 7"},
    };
    const char *path = test_path(PROGRAM, "sound");
    sb_error err = {""};
    pair whole = begin();
    feed(&whole, ids, ids, N);
    save(&whole, path);
    end(&whole);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        test_parts p = test_take_apart(path);
        test_set_part(&p, cases[i].key, cases[i].value);
        assert_int_equal(parse(&p, &err), SB_ERR_INPUT);
        assert_non_null(strstr(err.text, "seal"));
        test_seal(&p);
        assert_int_equal(parse(&p, &err), SB_ERR_INPUT);
        if (!strstr(err.text, cases[i].message))
            fail_msg("\"%s\" lacks \"%s\"", err.text, cases[i].message);
        test_parts_free(&p);
    }
}

/* A key or a tensor less; an element that is not finite; a single changed bit. */
TEST(test_damaged)
{
    static const char *const tensors[] = {"drafter.layers.0.self_attn.keys",
                                          "drafter.layers.0.self_attn.values", "drafter.states"};
    const char *path = test_path(PROGRAM, "sound");
    sb_error err = {""};
    for (size_t i = 0; i < 3; i++) {
        test_parts p = test_take_apart(path);
        test_tensor *t = test_folder_find(&p.tensors, tensors[i]);
        t->bytes[t->size / 2] ^= 1;
        assert_int_equal(parse(&p, &err), SB_ERR_INPUT);
        assert_non_null(strstr(err.text, "drafter\" is "));
        memset(t->bytes + t->size - 4, 0xff, 4);
        assert_int_equal(parse(&p, &err), SB_ERR_INPUT);
        assert_non_null(strstr(err.text, "not finite"));
        test_folder_remove(&p.tensors, tensors[i]);
        assert_int_equal(parse(&p, &err), SB_ERR_INPUT);
        assert_non_null(strstr(err.text, tensors[i]));
        test_parts_free(&p);
    }
    for (unsigned k = 0; k < 4; k++) {
        static const char *const keys[] = {META "drafter", META "drafter_checkpoint",
                                           META "drafter_config", META "drafter_entries"};
        test_parts p = test_take_apart(path);
        size_t at = (size_t)(test_part(&p, keys[k]) - p.values);
        free(p.keys[at]);
        free(p.values[at]);
        p.pairs--;
        for (; at < p.pairs; at++) { /* the seal covers the keys in sorted order */
            p.keys[at] = p.keys[at + 1];
            p.values[at] = p.values[at + 1];
        }
        test_seal(&p);
        assert_int_equal(parse(&p, &err), SB_ERR_INPUT);
        assert_non_null(strstr(err.text, "has only some of"));
        test_parts_free(&p);
    }
}

/* Another drafter, no entries, and entries without the digest of their drafter. */
TEST(test_belongs)
{
    const char *path = test_path(PROGRAM, "sound"), *bare = test_path(PROGRAM, "bare");
    sb_state_file *file = NULL;
    sb_error err = {""};
    assert_int_equal(sb_state_file_open(path, &file, &err), SB_OK);
    sb_eagle3_identity other = identity;
    other.checkpoint.hex[0] ^= 1;
    assert_int_equal(sb_state_file_has_entries(file, path, &other, "D", &err), SB_ERR_INPUT);
    assert_non_null(strstr(err.text, other.checkpoint.hex));
    other = identity;
    *strstr(other.text, "norm_output=0") = 'N';
    assert_int_equal(sb_state_file_has_entries(file, path, &other, "D", &err), SB_ERR_INPUT);
    assert_non_null(strstr(err.text, "norm_output=0"));
    sb_state_file_free(file);
    pair p = begin();
    feed(&p, ids, ids, N);
    sb_state_origin without = origin;
    without.drafter = NULL;
    assert_int_equal(sb_state_save(bare, &p.state, &without, &err), SB_ERR_USAGE);
    p.state.drafter = NULL;
    assert_int_equal(sb_state_save(bare, &p.state, &origin, &err), SB_ERR_USAGE);
    assert_int_equal(sb_state_save(bare, &p.state, &without, &err), SB_OK);
    assert_int_equal(sb_state_file_open(bare, &file, &err), SB_OK);
    assert_int_equal(sb_state_file_has_entries(file, bare, &identity, "D", &err), SB_ERR_USAGE);
    sb_state_file_free(file);
    end(&p);
}

TEST_GROUP(open_drafter, close_drafter)
