/* test_trace.c - a session as steps, and steps as a folder: reading it gives back what was
 * computed. */
#include "tests/lib/suite.h"
#include "tests/unit/scratch.h"

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/container/file.h"
#include "ref/ops/knob.h"
#include "ref/state/piece.h"
#include "tests/lib/record.h"
#include "tests/mtp/play.h"
#include "tools/judge/trace/audit.h"
#include "tools/judge/trace/capture.h"
#include "tools/judge/trace/names.h"
#include "tools/judge/trace/read.h"
#include "tools/judge/trace/write.h"

enum { V = 384, MOST = 64 };

static const char *const presets[] = {"T1", "T4", "T5"};

static const sb_model *model_of(size_t i)
{
    return play_model("test_trace", presets[i], "predictable");
}

/* --- a sink that keeps steps * ---------------------------------------------------------------- */

typedef struct steps {
    sb_step step[MOST];
    size_t count;
} steps;

/* Takes over the content of the step, so that the caller has nothing to release. */
static sb_status keep(void *ctx, const sb_step *step, sb_error *err)
{
    steps *s = ctx;
    (void)err;
    assert_true(s->count < MOST);
    s->step[s->count++] = *step;
    *(sb_step *)(uintptr_t)step = (sb_step){.number = 0};
    return SB_OK;
}

static void free_steps(steps *s)
{
    for (size_t i = 0; i < s->count; i++)
        sb_step_clear(&s->step[i]);
    s->count = 0;
}

static sb_capture *capture_of(const char *taps, sb_capture_states states, sb_step_fn take,
                              void *ctx)
{
    sb_capture *c = NULL;
    const sb_capture_options options = {
        .taps = taps, .states = states, .take = take, .take_ctx = ctx};
    assert_int_equal(sb_capture_new(&options, &c, NULL), SB_OK);
    return c;
}

static sb_session *joined(sb_capture *c, const sb_model *model, test_record *record)
{
    sb_session_options options = {.mtp = 1};
    if (record) {
        options.tap = test_record_tap;
        options.tap_ctx = record;
    }
    sb_capture_join(c, &options);
    sb_session *session = play_session(model, &options);
    sb_capture_follow(c, session, 0, 5);
    return session;
}

static uint32_t ask(sb_session *session, size_t row)
{
    float logits[V];
    assert_int_equal(sb_session_logits(session, row, logits, NULL), SB_OK);
    return sb_greedy(logits, V);
}

/* A prompt of four tokens, then rounds of 2, 0 and 3 drafts, two of which have a forced
 * acceptance. */
static void play(sb_capture *c, sb_session *session, sb_rollback rollback)
{
    static const struct {
        size_t drafts;
        int forced;
    } asks[] = {{2, 1}, {0, -1}, {3, 0}};
    const uint32_t prompt[] = {1, 2, 3, 4};
    sb_rounds *rounds = play_rounds(session, NULL, rollback);
    assert_int_equal(sb_session_feed(session, prompt, 4, NULL), SB_OK);
    uint32_t token = ask(session, 3);
    assert_int_equal(sb_capture_end(c, NULL, NULL), SB_OK);
    for (size_t i = 0; i < 3; i++) {
        const sb_round_ask a = {.token = token, .drafts = asks[i].drafts, .forced = asks[i].forced};
        sb_capture_round(c, i);
        sb_round round = play_round(rounds, &a);
        assert_int_equal(sb_capture_end(c, &round, NULL), SB_OK);
        token = round.tokens[round.emitted - 1];
    }
    assert_int_equal(sb_capture_finish(c, NULL), SB_OK);
    sb_rounds_free(rounds);
}

static void same_values(const char *where, const sb_step_values *a, const sb_step_values *b)
{
    if (a->count != b->count)
        fail_msg("%s: %zu arrays, and %zu", where, a->count, b->count);
    for (size_t i = 0; i < a->count; i++) {
        const sb_step_value *x = &a->items[i], *y = &b->items[i];
        if (strcmp(x->name, y->name) != 0 || x->rows != y->rows || x->cols != y->cols ||
            strcmp(x->digest.hex, y->digest.hex) != 0 || !x->data != !y->data)
            fail_msg("%s: %s and %s differ", where, x->name, y->name);
        for (size_t k = 0; x->data && k < x->rows * x->cols; k++)
            assert_int_equal(sb_bits_f32(x->data[k]), sb_bits_f32(y->data[k]));
    }
}

static void same_step(const sb_step *a, const sb_step *b)
{
    char where[32];
    snprintf(where, sizeof where, "step %llu", (unsigned long long)a->number);
    assert_int_equal(a->number, b->number);
    assert_int_equal(a->row_count, b->row_count);
    assert_int_equal(a->round_count, b->round_count);
    assert_int_equal(a->state_count, b->state_count);
    assert_int_equal(a->logits_count, b->logits_count);
    assert_int_equal(a->ended_count, b->ended_count);
    for (size_t i = 0; i < a->ended_count; i++)
        assert_int_equal(a->ended[i], b->ended[i]);
    for (size_t i = 0; i < a->row_count; i++)
        assert_memory_equal(&a->rows[i], &b->rows[i], sizeof a->rows[i]);
    for (size_t i = 0; i < a->logits_count; i++)
        assert_int_equal(a->logits_rows[i], b->logits_rows[i]);
    for (size_t i = 0; i < a->round_count; i++) {
        const sb_round *x = &a->rounds[i].round, *y = &b->rounds[i].round;
        assert_int_equal(a->rounds[i].number, b->rounds[i].number);
        assert_int_equal(x->accepted, y->accepted);
        assert_int_equal(x->drafted, y->drafted);
        assert_int_equal(x->emitted, y->emitted);
        assert_memory_equal(x->drafts, y->drafts, x->drafted * sizeof *x->drafts);
        assert_memory_equal(x->tokens, y->tokens, x->emitted * sizeof *x->tokens);
    }
    for (size_t i = 0; i < a->state_count; i++) {
        assert_int_equal(a->states[i].position, b->states[i].position);
        assert_string_equal(a->states[i].target.hex, b->states[i].target.hex);
        assert_string_equal(a->states[i].mtp.hex, b->states[i].mtp.hex);
        same_values(where, &a->states[i].pieces, &b->states[i].pieces);
    }
    same_values(where, &a->taps, &b->taps);
}

/* --- the capture ------------------------------------------------------------------------------ */

/* The steps contain what a plain tap sees, in the same order, and the states between the calls. */
TEST(test_a_call_is_a_step)
{
    const uint32_t prompt[] = {1, 2, 3};
    for (size_t m = 0; m < 3; m++) {
        steps s = {.count = 0};
        test_record record = {.count = 0};
        sb_capture *c = capture_of("norm", SB_CAPTURE_STATE_DIGESTS, keep, &s);
        sb_session *session = joined(c, model_of(m), &record);
        sb_digest before = test_state_digest(session);
        assert_int_equal(sb_session_feed(session, prompt, 3, NULL), SB_OK);
        (void)ask(session, 1);
        (void)ask(session, 2);
        (void)ask(session, 2); /* asked again: not recorded twice */
        assert_int_equal(sb_capture_finish(c, NULL), SB_OK);
        assert_int_equal(s.count, 2);
        const sb_step *step = &s.step[0];
        assert_int_equal(step->row_count, 3);
        assert_int_equal(step->rows[2].position, 2);
        assert_int_equal(step->rows[2].token, 3);
        assert_int_equal(step->rows[0].slot, 5);
        assert_int_equal(step->rows[0].kind, SB_CALL_prompt);
        assert_int_equal(step->logits_count, 2);
        assert_int_equal(step->logits_rows[0], 1);
        assert_int_equal(step->taps.count, record.count - 2);
        for (size_t i = 0; i < step->taps.count; i++) {
            const sb_step_value *v = &step->taps.items[i];
            int is_logits = strcmp(v->name, "logits") == 0;
            assert_string_equal(v->name, record.taps[i].name);
            assert_int_equal(v->rows, is_logits ? 2 : record.taps[i].rows);
            assert_int_equal(v->data != NULL, strcmp(v->name, "norm") == 0);
            if (!is_logits)
                assert_string_equal(v->digest.hex, record.taps[i].digest.hex);
            if (v->data)
                assert_string_equal(sb_digest_f32(v->data, v->rows * v->cols).hex, v->digest.hex);
        }
        assert_string_equal(step->states[0].target.hex, before.hex);
        assert_string_equal(s.step[1].states[0].target.hex, test_state_digest(session).hex);
        assert_int_equal(s.step[1].row_count, 0);
        assert_int_equal(s.step[1].states[0].position, 3);
        sb_session_free(session);
        sb_capture_free(c);
        free_steps(&s);
        test_record_free(&record);
    }
}

/* A round gives one step for each draft and one for the verify; feeding for replay gives none. */
TEST(test_rounds_are_steps)
{
    static const sb_call_kind kinds[] = {SB_CALL_prompt, SB_CALL_draft,  SB_CALL_draft,
                                         SB_CALL_verify, SB_CALL_decode, SB_CALL_draft,
                                         SB_CALL_draft,  SB_CALL_draft,  SB_CALL_verify};
    enum { STEPS = sizeof kinds / sizeof *kinds };
    for (size_t m = 0; m < 3; m++) {
        steps by[2] = {{.count = 0}, {.count = 0}};
        for (size_t w = 0; w < 2; w++) {
            sb_capture *c = capture_of("all", SB_CAPTURE_ALL_STATES, keep, &by[w]);
            sb_session *session = joined(c, model_of(m), NULL);
            play(c, session, w ? SB_ROLLBACK_replay : SB_ROLLBACK_snapshots);
            sb_session_free(session);
            sb_capture_free(c);
        }
        assert_int_equal(by[0].count, STEPS + 1);
        assert_int_equal(by[1].count, STEPS + 1);
        for (size_t i = 0; i <= STEPS; i++) {
            if (i < STEPS)
                assert_int_equal(by[0].step[i].rows[0].kind, kinds[i]);
            same_step(&by[0].step[i], &by[1].step[i]);
        }
        assert_int_equal(by[0].step[3].row_count, 3);
        assert_int_equal(by[0].step[3].rounds[0].round.accepted, 1);
        assert_int_equal(by[0].step[4].rows[0].position, 6);
        assert_int_equal(by[0].step[2].rows[0].token, by[0].step[3].rows[1].token);
        assert_int_equal(by[0].step[2].rows[0].position, 5);
        assert_null(by[0].step[3].logits_rows);
        assert_int_equal(sb_step_find(&by[0].step[3].taps, "logits")->rows, 3);
        free_steps(&by[0]);
        free_steps(&by[1]);
    }
}

/* An existing hook and tap are still called, and their changes are recorded. */
static sb_status add_one(void *ctx, const char *name, float *data, size_t rows, size_t cols,
                         sb_error *err)
{
    (void)err;
    (void)rows;
    (void)cols;
    if (strcmp(name, "embed") == 0)
        data[0] = 77.0f;
    ++*(size_t *)ctx;
    return SB_OK;
}

static sb_status count_ops(void *ctx, const sb_op_call *call)
{
    ++*(size_t *)ctx;
    return sb_op_run(call);
}

TEST(test_others_come_first)
{
    steps s = {.count = 0};
    size_t taps = 0, ops = 0;
    sb_capture *c = capture_of("embed", SB_CAPTURE_NO_STATES, keep, &s);
    sb_session_options options = {
        .tap = add_one, .tap_ctx = &taps, .hook = count_ops, .hook_ctx = &ops};
    sb_capture_join(c, &options);
    sb_session *session = play_session(model_of(0), &options);
    sb_capture_follow(c, session, 3, 0);
    const uint32_t ids[] = {9, 8};
    assert_int_equal(sb_session_feed(session, ids, 2, NULL), SB_OK);
    assert_int_equal(sb_session_feed(session, ids, 1, NULL), SB_OK); /* ends the step before */
    assert_int_equal(sb_capture_finish(c, NULL), SB_OK);
    assert_int_equal(s.count, 2); /* without states there is no final step */
    assert_true(taps > 40 && ops > 40);
    assert_true(sb_step_find(&s.step[0].taps, "embed")->data[0] == 77.0f);
    assert_int_equal(s.step[1].rows[0].position, 2);
    assert_int_equal(s.step[1].rows[0].sequence, 3);
    assert_int_equal(s.step[1].rows[0].kind, SB_CALL_decode);
    sb_session_free(session);
    sb_capture_free(c);
    free_steps(&s);
}

/* --- names ------------------------------------------------------------------------------------ */

static void mark_seen(const steps *s, const sb_config *config, unsigned char *seen)
{
    sb_tap_name tap, row;
    for (size_t i = 0; i < s->count; i++)
        for (size_t k = 0; k < s->step[i].taps.count; k++) {
            const sb_step_value *v = &s->step[i].taps.items[k];
            int exists = 0;
            if (!sb_tap_find(v->name, &tap))
                fail_msg("%s is not in taps.def", v->name);
            uint32_t width = sb_tap_width(&tap, config, &exists);
            if (!exists || (width != v->cols && !(tap.is_drafter && !width)))
                fail_msg("%s has %zu columns, the list says %u", v->name, v->cols, (unsigned)width);
            for (size_t t = 0; sb_tap_row(t, &row); t++)
                seen[t] |= strcmp(row.name, tap.name) == 0;
        }
}

/* A prompt, its entries, and two drafts of an EAGLE-3 drafter: three steps. */
static void play_drafter(const char *folder, unsigned char *seen)
{
    const sb_model *model = model_of(1);
    const uint32_t ids[] = {9, 8, 7};
    uint32_t draft = 5;
    steps s = {.count = 0};
    sb_error err = {""};
    sb_eagle3 *drafter = NULL;
    sb_eagle3_drafts *drafts = NULL;
    if (sb_eagle3_open(folder, model, &drafter, &err))
        fail_msg("%s", err.text);
    sb_capture *c = capture_of("none", SB_CAPTURE_NO_STATES, keep, &s);
    sb_session_options options = {.states = sb_eagle3_states(drafter)};
    sb_capture_join(c, &options);
    sb_session *session = play_session(model, &options);
    sb_capture_follow(c, session, 0, 0);
    assert_int_equal(sb_eagle3_drafts_new(drafter, session, &drafts, &err), SB_OK);
    assert_int_equal(sb_session_feed(session, ids, 3, &err), SB_OK);
    assert_int_equal(sb_eagle3_follow(drafts, ids, 3, &err), SB_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(sb_eagle3_draft(drafts, draft, NULL, &draft, &err), SB_OK);
    assert_int_equal(sb_capture_finish(c, &err), SB_OK);
    assert_int_equal(s.count, 3);
    const sb_step_value *entries = sb_step_find(&s.step[0].taps, "drafter.fc");
    assert_true(entries && entries->rows == 2); /* the first token has none */
    assert_null(sb_step_find(&s.step[1].taps, "drafter.hidden"));
    assert_null(sb_step_find(&s.step[2].taps, "drafter.fc"));
    assert_int_equal(s.step[2].rows[0].kind, SB_CALL_draft);
    assert_int_equal(s.step[2].rows[0].position, 4);
    mark_seen(&s, &model->config, seen);
    sb_eagle3_drafts_free(drafts);
    sb_session_free(session);
    sb_eagle3_close(drafter);
    sb_capture_free(c);
    free_steps(&s);
}

/* Every tap of sessions is in the list with its width, and the list has no other taps. */
TEST(test_the_list_of_taps)
{
    static const char *const drafters[] = {"llama-11-norm_before_fc", "qwen3-01-fc_norm"};
    unsigned char seen[SB_AUDIT_TAPS] = {0};
    sb_tap_name row;
    for (size_t m = 0; m < 3; m++) {
        steps s = {.count = 0};
        sb_capture *c = capture_of("none", SB_CAPTURE_NO_STATES, keep, &s);
        sb_session *session = joined(c, model_of(m), NULL);
        play(c, session, SB_ROLLBACK_snapshots);
        mark_seen(&s, &model_of(m)->config, seen);
        sb_session_free(session);
        sb_capture_free(c);
        free_steps(&s);
    }
    for (size_t i = 0; i < sizeof drafters / sizeof *drafters; i++) {
        char folder[512];
        snprintf(folder, sizeof folder, "golden/drafts/eagle3/%s", drafters[i]);
        play_drafter(folder, seen);
    }
    for (size_t t = 0; sb_tap_row(t, &row); t++)
        /* sessions show logits only; lists and log-probabilities come from other programs */
        if (!seen[t] && (!sb_tap_is_of_logits(row.name) || strcmp(row.name, "logits") == 0))
            fail_msg("no session shows %s of taps.def", row.name);
}

TEST(test_names)
{
    static const char *const none[] = {"",
                                       "layers.0",
                                       "layers.00.output",
                                       "layers..output",
                                       "layers.9999999999.output",
                                       "layers.0.embed",
                                       "output",
                                       "mtp.layers.1.output",
                                       "mtp.layers.0.linear_attn.g",
                                       "drafter.layers.0.linear_attn.g",
                                       "drafter.layers.0.input_layernorm",
                                       "drafter.layers.0.mlp.gate",
                                       "drafter.layers.1.output",
                                       "layers.0.linear_attn.g.x",
                                       "state.0.layers.0.linear_attn.g",
                                       "state.0.mtp.layers.0.linear_attn.conv_state",
                                       "state.x.mtp.hidden",
                                       "state.mtp.hidden"};
    sb_tap_name tap;
    uint32_t sequence = 0;
    const char *piece = NULL;
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        if (sb_tap_find(none[i], &tap) || sb_state_piece_name(none[i], &sequence, &piece))
            fail_msg("\"%s\" was taken for a name", none[i]);
    assert_true(sb_tap_find("mtp.layers.0.self_attn.gate", &tap) && tap.is_head);
    assert_true(sb_tap_find("layers.12.output", &tap) && tap.layer == 12 && !tap.is_head);
    assert_true(sb_state_piece_name("state.12.mtp.hidden", &sequence, &piece));
    assert_int_equal(sequence, 12);
    assert_string_equal(piece, "mtp.hidden");
    assert_true(sb_tap_is_ids("layers.0.mlp.router_ids") && !sb_tap_is_ids("layers.0.mlp.gate"));
}

TEST(test_patterns)
{
    static const struct {
        const char *patterns, *name;
        int fits;
    } cases[] = {{"", "norm", 0},
                 {"norm", "norm", 1},
                 {"nor", "norm", 0},
                 {"norms", "norm", 0},
                 {"*", "norm", 1},
                 {"*.g", "layers.1.linear_attn.g", 1},
                 {"*.g", "layers.1.mlp.gate", 0},
                 {"layers.?.output", "layers.1.output", 1},
                 {"layers.?.output", "layers.11.output", 0},
                 {"x,*m", "norm", 1},
                 {"*a*b*", "xaxxbx", 1},
                 {"*a*b", "xaxxbx", 0},
                 {"*ab", "aab", 1},
                 {"all", "norm", 1},
                 {"all", "state.mtp.hidden", 0},
                 {"none", "norm", 0},
                 {"none,all", "norm", 1},
                 {"all,state.*", "state.mtp.hidden", 1},
                 {",", "norm", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (sb_tap_matches(cases[i].patterns, cases[i].name) != cases[i].fits)
            fail_msg("\"%s\" and \"%s\"", cases[i].patterns, cases[i].name);
}

/* --- folders ---------------------------------------------------------------------------------- */

static sb_trace_head some_head(void)
{
    sb_trace_head head = {.has_knobs = 1, .vocab_size = V};
    sb_knobs_exact(&head.knobs);
    sb_knobs_set(&head.knobs, "act=bf16", NULL);
    snprintf(head.engine, sizeof head.engine, "a \"name\"");
    snprintf(head.profile, sizeof head.profile, "exact");
    return head;
}

static void remove_tree(const char *dir)
{
    if (access(dir, F_OK) == 0)
        scratch_remove(dir);
}

static void write_all(const steps *s, const char *dir)
{
    sb_trace_writer *w = NULL;
    sb_trace_head head = some_head();
    sb_error err = {""};
    remove_tree(dir);
    if (sb_trace_begin(dir, &head, &w, &err))
        fail_msg("%s", err.text);
    for (size_t i = 0; i < s->count; i++)
        if (sb_trace_write(w, &s->step[i], &err))
            fail_msg("%s", err.text);
    if (sb_trace_commit(w, &err))
        fail_msg("%s", err.text);
    sb_trace_writer_free(w);
}

static sb_trace *open_trace(const char *dir)
{
    sb_trace *t = NULL;
    sb_error err = {""};
    if (sb_trace_open(dir, &t, &err))
        fail_msg("%s", err.text);
    return t;
}

static void same_file(const char *a, const char *b, const char *name)
{
    unsigned char *bytes[2];
    size_t size[2];
    char *path[2] = {sb_path_join(a, name), sb_path_join(b, name)};
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(sb_read_file(path[i], 1 << 28, &bytes[i], &size[i], NULL), SB_OK);
    assert_int_equal(size[0], size[1]);
    assert_memory_equal(bytes[0], bytes[1], size[0]);
    for (size_t i = 0; i < 2; i++) {
        free(bytes[i]);
        free(path[i]);
    }
}

/* Written, read and written again: the same steps and the same bytes. */
TEST(test_round_trip)
{
    const char *first = test_path("test_trace", "first"),
               *second = test_path("test_trace", "second");
    for (size_t m = 0; m < 3; m++) {
        steps s = {.count = 0}, back = {.count = 0};
        sb_capture *c = capture_of("all,state.*", SB_CAPTURE_STATE_DIGESTS, keep, &s);
        sb_session *session = joined(c, model_of(m), NULL);
        play(c, session, SB_ROLLBACK_snapshots);
        write_all(&s, first);
        sb_trace *t = open_trace(first);
        const sb_trace_head *head = sb_trace_info(t);
        assert_string_equal(head->engine, "a \"name\"");
        assert_int_equal(head->level, 4);
        assert_true(SB_IS(&head->knobs, act, bf16));
        assert_int_equal(sb_trace_steps(t), s.count);
        assert_int_equal(sb_trace_play(t, keep, &back, NULL), SB_OK);
        for (size_t i = 0; i < s.count; i++) {
            same_step(&s.step[i], &back.step[i]);
            assert_int_equal(back.step[i].ended_count, i + 1 == s.count);
        }
        write_all(&back, second);
        same_file(first, second, "trace.json");
        for (size_t i = 0; i < s.count; i++) {
            char name[40];
            snprintf(name, sizeof name, "step-%06zu.safetensors", i);
            same_file(first, second, name);
        }
        sb_trace_close(t);
        sb_session_free(session);
        sb_capture_free(c);
        free_steps(&s);
        free_steps(&back);
    }
}

/* An unfinished folder is not a trace, and a trace can begin only in an empty folder. */
TEST(test_unfinished)
{
    const char *dir = test_path("test_trace", "unfinished");
    sb_trace_head head = some_head();
    sb_trace_writer *w = NULL;
    sb_trace *t = NULL;
    sb_error err = {""};
    sb_step step = {.number = 0};
    const uint32_t ids[] = {4, 5};
    remove_tree(dir);
    assert_int_equal(sb_trace_begin(dir, &head, &w, &err), SB_OK);
    assert_int_equal(sb_step_of_ids(1, 0, ids, 2, SB_CALL_prompt, &step, &err), SB_OK);
    assert_int_equal(sb_trace_write(w, &step, &err), SB_OK);
    assert_int_equal(sb_trace_write(w, &step, &err), SB_ERR_USAGE); /* again number 0 */
    assert_int_equal(sb_trace_open(dir, &t, &err), SB_ERR_INPUT);
    assert_non_null(strstr(err.text, "is an unfinished trace: it has 1 step file"));
    sb_trace_writer_free(w);
    assert_int_equal(sb_trace_open(dir, &t, &err), SB_ERR_INPUT);
    w = NULL;
    assert_int_equal(sb_trace_begin(dir, &head, &w, &err), SB_ERR_USAGE);
    assert_non_null(strstr(err.text, "not empty"));
    sb_step_clear(&step);
}

/* Each allocation fails in turn: the message says so, and nothing leaks. */
TEST(test_memory)
{
    const char *dir = test_path("test_trace", "memory"), *other = test_path("test_trace", "other");
    steps s = {.count = 0};
    sb_capture *c = capture_of("embed,state.*", SB_CAPTURE_STATE_DIGESTS, keep, &s);
    sb_session *session = joined(c, model_of(1), NULL);
    play(c, session, SB_ROLLBACK_snapshots);
    write_all(&s, dir);
    sb_status status = SB_ERR_MEMORY;
    for (unsigned long n = 1; status == SB_ERR_MEMORY && n < 20000; n += n < 64 ? 1 : 7) {
        sb_trace_writer *w = NULL;
        sb_trace_head head = some_head();
        remove_tree(other);
        sb_alloc_fail_at(n);
        status = sb_trace_begin(other, &head, &w, NULL);
        if (!status)
            status = sb_trace_write(w, &s.step[0], NULL);
        sb_trace_writer_free(w);
        sb_alloc_fail_at(0);
    }
    assert_int_equal(status, SB_OK);
    status = SB_ERR_MEMORY;
    for (unsigned long n = 1; status == SB_ERR_MEMORY && n < 20000; n += n < 64 ? 1 : 7) {
        sb_trace *t = NULL;
        sb_step step = {.number = 0};
        sb_alloc_fail_at(n);
        status = sb_trace_open(dir, &t, NULL);
        if (!status)
            status = sb_trace_step(t, 3, &step, NULL);
        sb_alloc_fail_at(0);
        sb_step_clear(&step);
        sb_trace_close(t);
    }
    assert_int_equal(status, SB_OK);
    sb_session_free(session);
    sb_capture_free(c);
    free_steps(&s);
}

TEST_GROUP(NULL, play_close_models)
