/* test_draft_tree.c - rounds whose drafts are a tree (S-16, P-16).
 *
 * Each row of a random tree must have the logits that feeding its path alone gives, the accepted
 * path must be the one that these logits name, and the state must be that of a session that was fed
 * the accepted path alone. Then mistakes are planted, and must be seen. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/rng.h"
#include "ref/ops/op.h"
#include "tests/lib/plain.h"
#include "tests/mtp/play.h"

#define PROGRAM "test_draft_tree"

/* --- mistakes ----------------------------------------------------------------------------------- */

typedef enum slip {
    NONE,
    SIBLING_SEEN,      /* attention: a row sees one position more, which holds another row */
    INDEX_POSITION,    /* rotary positions go by the number of the row, not by its depth */
    PARENT_OFF,        /* every row follows the row before its parent */
    CONV_OF_LAST,      /* the conv state is the one after the row before, not after the parent */
    RECURRENT_OF_LAST, /* the recurrent state likewise */
    LAST_BRANCH,       /* the state kept is that of the last branch of the same length */
    SLIPS
} slip;

static const char *const names[SLIPS] = {
    "none",         "sibling seen",      "position by index", "parent off by one",
    "conv of last", "recurrent of last", "last branch kept"};

typedef struct planted {
    slip slip;
    const float *after; /* the conv or recurrent state that the last single op left */
    size_t used;        /* the number of ops or calls that were changed */
} planted;

static sb_status attention(planted *p, sb_op_call *call)
{
    sb_attention_args a = *(const sb_attention_args *)call->args;
    call->args = &a;
    a.first++;
    p->used++;
    return sb_op_run(call);
}

static sb_status rope(planted *p, sb_op_call *call)
{
    sb_rope_args a = *(const sb_rope_args *)call->args;
    uint32_t position[SB_MAX_TREE + 1];
    for (size_t t = 0; t < a.rows; t++)
        position[t] = (uint32_t)(call->position + t);
    a.position[0] = a.position[1] = a.position[2] = position;
    call->args = &a;
    p->used++;
    return sb_op_run(call);
}

/* Puts the state after the row before in place of that of the parent. */
static sb_status state_of_last(planted *p, const sb_op_call *call, float *state, const float *trail,
                               size_t size)
{
    if (call->row && memcmp(state, p->after, size * sizeof *state) != 0) {
        memcpy(state, p->after, size * sizeof *state);
        p->used++;
    }
    p->after = trail;
    return sb_op_run(call);
}

static sb_status hook(void *ctx, const sb_op_call *given)
{
    planted *p = ctx;
    sb_op_call call = *given;
    if (p->slip == SIBLING_SEEN && call.op == SB_OP_attention && call.single &&
        call.row + 1 < call.rows)
        return attention(p, &call);
    if (p->slip == INDEX_POSITION && call.op == SB_OP_rope && call.kind == SB_CALL_verify)
        return rope(p, &call);
    if (p->slip == CONV_OF_LAST && call.op == SB_OP_conv && call.single) {
        const sb_conv_args *a = call.args;
        return state_of_last(p, &call, a->state, a->trail, (a->weight->cols - 1) * a->weight->rows);
    }
    if (p->slip == RECURRENT_OF_LAST && call.op == SB_OP_delta_rule && call.single) {
        const sb_delta_rule_args *a = call.args;
        return state_of_last(p, &call, a->state, a->trail, a->v_heads * a->dk * a->dv);
    }
    return sb_op_run(&call);
}

/* --- sessions ----------------------------------------------------------------------------------- */

typedef struct pair {
    const sb_model *model;
    sb_session *plain, *session;
    planted planted;
    size_t V, rows, accepted, deepest; /* counts: rows that were compared, accepted drafts */
    char where[200];                   /* the first difference; "": none */
} pair;

static sb_session *open_session(const sb_model *model, const char *settings, planted *p)
{
    sb_knobs knobs = test_knobs(settings);
    const sb_session_options o = {
        .knobs = &knobs, .mtp = sb_model_has_mtp(model), .hook = p ? hook : NULL, .hook_ctx = p};
    sb_session *session = NULL;
    sb_error err = {""};
    if (sb_session_new(model, &o, &session, &err))
        fail_msg("%s", err.text);
    return session;
}

/* Copies the logits that feeding a path alone gives, one token at a time. */
static void walk(pair *p, const sb_state *from, const uint32_t *tokens, size_t n, float *logits)
{
    play_set(p->plain, from);
    for (size_t i = 0; i < n; i++)
        test_feed(p->plain, tokens + i, 1);
    assert_int_equal(sb_session_logits(p->plain, 0, logits, NULL), SB_OK);
}

/* --- random trees ------------------------------------------------------------------------------- */

typedef struct draft_tree {
    size_t n;
    uint32_t drafts[SB_MAX_TREE];
    int parents[SB_MAX_TREE];
    size_t depth[SB_MAX_TREE];
    float *logits; /* (n + 1, V) of the walks: row 1 + i is that of draft i */
} draft_tree;

/* The tokens on the path to a draft, the round's token first. Returns their number. */
static size_t path_to(const draft_tree *t, uint32_t token, int draft, uint32_t *tokens)
{
    const size_t n = draft < 0 ? 1 : t->depth[draft] + 1;
    for (size_t i = n; i-- > 1; draft = t->parents[draft])
        tokens[i] = t->drafts[draft];
    tokens[0] = token;
    return n;
}

static int is_taken(const draft_tree *t, int parent, uint32_t token)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->parents[i] == parent && t->drafts[i] == token)
            return 1;
    return 0;
}

/* Adds a draft after `parent`: the token that the parent's row gives, or any other. */
static void add(pair *p, draft_tree *t, const sb_state *from, uint32_t token, int parent, int right,
                uint32_t other)
{
    uint32_t tokens[SB_MAX_DRAFTS + 1];
    const size_t i = t->n, V = p->V;
    uint32_t id = right ? sb_greedy(t->logits + (size_t)(parent + 1) * V, V) : other;
    while (is_taken(t, parent, id))
        id = (id + 1) % (uint32_t)V;
    t->drafts[i] = id;
    t->parents[i] = parent;
    t->depth[i] = parent < 0 ? 1 : t->depth[parent] + 1;
    t->n++;
    const size_t n = path_to(t, token, (int)i, tokens);
    walk(p, from, tokens, n, t->logits + (i + 1) * V);
}

/* A tree in the order of depth, at most `most` drafts: parents ascend, so depths do. */
static void grow(pair *p, draft_tree *t, const sb_state *from, uint32_t token, size_t most,
                 uint64_t key)
{
    int parent = -1;
    walk(p, from, &token, 1, t->logits);
    for (size_t i = 0; i < most; i++) {
        int step = i ? (int)sb_rng_below(key, 4 * i, 3) : 0;
        if (parent + step >= (int)t->n)
            step = 0;
        if (parent + step >= 0 && t->depth[parent + step] == SB_MAX_DRAFTS)
            return;
        parent += step;
        add(p, t, from, token, parent, sb_rng_below(key, 4 * i + 1, 3) > 0,
            sb_rng_below(key, 4 * i + 2, (uint32_t)p->V));
    }
}

/* --- one round ---------------------------------------------------------------------------------- */

static void differs(pair *p, const char *what, const char *name, size_t at)
{
    if (!*p->where)
        snprintf(p->where, sizeof p->where, "%s: %s %zu", name, what, at);
}

/* The accepted path by the logits of the walks. */
static size_t expected_path(const draft_tree *t, size_t V, size_t *path)
{
    size_t accepted = 0;
    int at = -1;
    for (size_t i = 0; i < t->n; i++)
        if (t->parents[i] == at && t->drafts[i] == sb_greedy(t->logits + (size_t)(at + 1) * V, V)) {
            path[accepted++] = i;
            at = (int)i;
        }
    return accepted;
}

/* The path of the same length that ends last. */
static void last_branch(const draft_tree *t, size_t kept, size_t *rows)
{
    size_t at = t->n;
    while (at-- > 0 && t->depth[at] != kept - 1)
        ;
    for (size_t i = kept; i-- > 1;) {
        rows[i] = at + 1;
        at = (size_t)t->parents[at];
    }
    rows[0] = 0;
}

/* Plays the tree without sb_rounds_next, with one of the mistakes of a caller. */
static void play_slipped(pair *p, const draft_tree *t, uint32_t token, sb_rollback rollback,
                         const size_t *path, size_t kept, float *logits)
{
    uint32_t tokens[SB_MAX_TREE + 1] = {token}, parents[SB_MAX_TREE + 1] = {0};
    size_t rows[SB_MAX_DRAFTS + 1] = {0};
    sb_error err = {""};
    for (size_t i = 0; i < t->n; i++) {
        tokens[i + 1] = t->drafts[i];
        parents[i + 1] = (uint32_t)(t->parents[i] + 1);
        if (p->planted.slip == PARENT_OFF && parents[i + 1]) {
            parents[i + 1]--;
            p->planted.used++;
        }
    }
    if (sb_session_verify_tree(p->session, tokens, parents, t->n + 1, rollback, &err))
        fail_msg("%s", err.text);
    for (size_t row = 0; row <= t->n; row++)
        assert_int_equal(sb_session_logits(p->session, row, logits + row * p->V, &err), SB_OK);
    for (size_t i = 1; i < kept; i++)
        rows[i] = path[i - 1] + 1;
    if (p->planted.slip == LAST_BRANCH && kept > 1) {
        last_branch(t, kept, rows);
        p->planted.used += rows[kept - 1] != path[kept - 2] + 1;
    }
    if (sb_session_keep_path(p->session, rows, kept, &err) && p->planted.slip != PARENT_OFF)
        fail_msg("%s", err.text);
}

/* One round; returns its last token. Differences are noted in p->where. */
static uint32_t play_tree(pair *p, sb_rounds *rounds, uint32_t token, sb_rollback rollback,
                          size_t most, uint64_t key, const char *name)
{
    draft_tree t = {.logits = malloc((SB_MAX_TREE + 1) * p->V * sizeof(float))};
    float *logits = malloc((SB_MAX_TREE + 1) * p->V * sizeof *logits);
    sb_state *from = play_copy(sb_session_state(p->session));
    size_t path[SB_MAX_DRAFTS + 1], chain = 1;
    uint32_t tokens[SB_MAX_DRAFTS + 1];
    assert_true(t.logits && logits);
    grow(p, &t, from, token, most, key);
    for (size_t i = 0; i < t.n; i++)
        chain &= t.parents[i] == (int)i - 1;
    const size_t accepted = expected_path(&t, p->V, path);
    const size_t kept = path_to(&t, token, accepted ? (int)path[accepted - 1] : -1, tokens);
    if (p->planted.slip && !chain) {
        play_slipped(p, &t, token, rollback, path, kept, logits);
    } else {
        const sb_round round = play_round(rounds, &(sb_round_ask){.token = token,
                                                                  .drafts = t.n,
                                                                  .given = t.drafts,
                                                                  .parents = t.parents,
                                                                  .forced = -1});
        if (round.accepted != accepted || round.emitted != accepted + 1)
            differs(p, "accepted drafts", name, round.accepted);
        for (size_t i = 0; i < accepted && i < round.accepted; i++)
            if ((round.tree && round.path[i] != path[i]) || round.tokens[i] != tokens[i + 1])
                differs(p, "another path at", name, i);
        for (size_t row = 0; row <= t.n; row++)
            memcpy(logits + row * p->V, sb_rounds_logits(rounds, row), p->V * sizeof *logits);
        assert_int_equal(round.tree, !chain);
        assert_int_equal(round.depth, t.n ? t.depth[t.n - 1] : 0);
    }
    for (size_t row = 0; row <= t.n; row++)
        if (memcmp(logits + row * p->V, t.logits + row * p->V, p->V * sizeof *logits) != 0)
            differs(p, "logits of row", name, row);
    walk(p, from, tokens, kept, logits);
    const char *state = play_difference(sb_session_state(p->session), sb_session_state(p->plain));
    if (state && !*p->where)
        snprintf(p->where, sizeof p->where, "%s: state: %s", name, state);
    play_set(p->session, sb_session_state(p->plain)); /* after a mistake the next round is sound */
    p->rows += t.n + 1;
    p->accepted += accepted;
    p->deepest = accepted > p->deepest ? accepted : p->deepest;
    const uint32_t next = sb_greedy(logits, p->V);
    sb_state_free(from);
    free(logits);
    free(t.logits);
    return next;
}

static pair run(const sb_model *model, const char *settings, slip s, size_t rounds,
                const char *name)
{
    pair p = {.model = model, .V = model->config.vocab_size, .planted = {.slip = s}};
    p.plain = open_session(model, settings, NULL);
    p.session = open_session(model, settings, s ? &p.planted : NULL);
    sb_rounds *way[2] = {play_rounds(p.session, NULL, SB_ROLLBACK_snapshots),
                         play_rounds(p.session, NULL, SB_ROLLBACK_replay)};
    uint32_t token = play_prompt(p.plain, name, 5);
    play_set(p.session, sb_session_state(p.plain));
    for (size_t i = 0; i < rounds; i++) {
        const uint64_t key = sb_rng_key(i, name);
        char where[64];
        snprintf(where, sizeof where, "%s, round %zu", name, i);
        token = play_tree(&p, way[i % 2], token, i % 2 ? SB_ROLLBACK_replay : SB_ROLLBACK_snapshots,
                          2 + sb_rng_below(key, 3, i % 5 == 4 ? 40 : 12), key, where);
    }
    sb_rounds_free(way[0]);
    sb_rounds_free(way[1]);
    sb_session_free(p.plain);
    sb_session_free(p.session);
    return p;
}

static void sound(const char *preset, const char *recipe, const char *settings, size_t rounds)
{
    char name[64];
    snprintf(name, sizeof name, "%s %s", preset, settings);
    pair p = run(play_model(PROGRAM, preset, recipe), settings, NONE, rounds, name);
    printf("%s: %zu rows, %zu drafts accepted, at most %zu in a round\n", name, p.rows, p.accepted,
           p.deepest);
    if (*p.where)
        fail_msg("%s", p.where);
    assert_true(p.accepted > rounds && p.deepest > 2);
}

/* Full attention alone: an MLP in every layer, and experts. */
TEST(test_attention)
{
    sound("T8", "mistakes", "", 20);
    sound("T7", "mistakes", "", 20);
    sound("T8", "mistakes", "act=bf16 scores=act kv_cache=fp8", 10);
}

/* Linear and full attention, and an MTP head. */
TEST(test_hybrids)
{
    sound("T4", "predictable", "", 20);
    sound("T1", "mistakes", "", 10);
    sound("T3", "mistakes", "act=bf16 params=act conv_sum=act beta=act gated_norm=act", 10);
}

static void seen(const char *preset, slip s)
{
    pair p = run(play_model(PROGRAM, preset, "mistakes"), "", s, 6, preset);
    printf("%s, %s: %zu changes; %s\n", preset, names[s], p.planted.used, p.where);
    assert_true(p.planted.used > 0);
    assert_true(*p.where);
}

TEST(test_mistakes_are_seen)
{
    static const slip everywhere[] = {SIBLING_SEEN, INDEX_POSITION, PARENT_OFF, LAST_BRANCH};
    for (size_t i = 0; i < sizeof everywhere / sizeof *everywhere; i++) {
        seen("T8", everywhere[i]);
        seen("T4", everywhere[i]);
    }
    seen("T4", CONV_OF_LAST);
    seen("T4", RECURRENT_OF_LAST);
}

/* P-16: "drafts cannot change which tokens come" */
TEST(test_match)
{
    enum { TOKENS = 40 };
    const sb_model *model = play_flat_model(PROGRAM, "T4", "predictable");
    const sb_sampling sampling = {.seed = 5, .temperature = 0.9f, .top_p = 1};
    sb_session *plain = play_session(model, NULL), *session = play_session(model, NULL);
    sb_rounds *alone = play_rounds(plain, &sampling, SB_ROLLBACK_snapshots);
    sb_rounds *trees = play_rounds(session, &sampling, SB_ROLLBACK_snapshots);
    uint32_t text[TOKENS + 1], drafts[5];
    static const int parents[5] = {-1, -1, 0, 1, 1};
    size_t accepted = 0;
    text[0] = play_prompt(plain, "match", 4);
    assert_int_equal(play_prompt(session, "match", 4), text[0]);
    for (size_t i = 0; i < TOKENS; i++)
        text[i + 1] = play_round(alone, &(sb_round_ask){.token = text[i], .forced = -1}).tokens[0];
    for (size_t i = 0; i + 4 < TOKENS;) {
        /* the next token is the first or the second draft, and the one after it may follow there */
        const size_t second = i % 2;
        drafts[second] = text[i + 1];
        drafts[1 - second] = (text[i + 1] + 1) % 384;
        drafts[2] = second ? 7 : text[i + 2];
        drafts[3] = (text[i + 2] + 1) % 384;
        drafts[4] = text[i + 2];
        const sb_round round = play_round(
            trees,
            &(sb_round_ask){
                .token = text[i], .drafts = 5, .given = drafts, .parents = parents, .forced = -1});
        assert_int_equal(round.accepted, 2);
        assert_memory_equal(round.tokens, text + i + 1, round.emitted * sizeof *text);
        accepted += round.accepted;
        i += round.emitted;
    }
    assert_true(accepted > 20);
    sb_rounds_free(alone);
    sb_rounds_free(trees);
    sb_session_free(plain);
    sb_session_free(session);
}

/* A tree that -n cuts keeps only the rows of the emitted tokens; that is the path, cut. */
TEST(test_limit)
{
    const sb_model *model = play_model(PROGRAM, "T4", "predictable");
    sb_session *plain = play_session(model, NULL), *session = play_session(model, NULL);
    sb_rounds *rounds = play_rounds(session, NULL, SB_ROLLBACK_snapshots);
    static const int parents[4] = {-1, -1, 1, 2};
    uint32_t text[4];
    text[0] = play_prompt(plain, "limit", 4);
    assert_int_equal(play_prompt(session, "limit", 4), text[0]);
    sb_state *from = play_copy(sb_session_state(plain));
    for (size_t i = 0; i + 1 < 4; i++) {
        test_feed(plain, text + i, 1);
        text[i + 1] = play_greedy(plain);
    }
    const uint32_t drafts[4] = {(text[1] + 1) % 384, text[1], text[2], text[3]};
    for (size_t limit = 1; limit <= 4; limit++) {
        play_set(session, from);
        play_set(plain, from);
        const sb_round round = play_round(rounds, &(sb_round_ask){.token = text[0],
                                                                  .drafts = 4,
                                                                  .given = drafts,
                                                                  .parents = parents,
                                                                  .forced = -1,
                                                                  .limit = limit});
        assert_int_equal(round.accepted, 3);
        assert_int_equal(round.emitted, limit);
        for (size_t i = 0; i < limit; i++)
            test_feed(plain, text + i, 1);
        play_same("limit", sb_session_state(session), sb_session_state(plain));
    }
    sb_state_free(from);
    sb_rounds_free(rounds);
    sb_session_free(plain);
    sb_session_free(session);
}

static void refused(sb_rounds *rounds, sb_round_ask ask, sb_status status, const char *words)
{
    sb_round round;
    sb_error err = {""};
    ask.token = 1;
    ask.forced = ask.forced ? ask.forced : -1;
    assert_int_equal(sb_rounds_next(rounds, &ask, &round, &err), status);
    if (!strstr(err.text, words))
        fail_msg("'%s' lacks '%s'", err.text, words);
}

TEST(test_refused)
{
    const sb_model *model = play_model(PROGRAM, "T4", "predictable");
    const uint32_t ids[SB_MAX_TREE + 1] = {1, 2, 3, 4}, same[3] = {1, 2, 2};
    int parents[SB_MAX_TREE + 1] = {-1, -1, 0, 1};
    const sb_sampling sampling = {.temperature = 1, .top_p = 1};
    const sb_round_options residual = {.sampling = &sampling, .acceptance = SB_ACCEPT_residual};
    sb_session *session = play_session(model, NULL);
    sb_rounds *rounds = play_rounds(session, NULL, SB_ROLLBACK_snapshots), *drawn = NULL;
    (void)play_prompt(session, "refused", 4);
    assert_int_equal(sb_rounds_new(session, &residual, &drawn, NULL), SB_OK);
#define ASK(count, list, ...) ((sb_round_ask){.drafts = count, .given = list, __VA_ARGS__})
    refused(rounds, ASK(2, ids, .parents = (const int[]){-1, 1}), SB_ERR_USAGE,
            "draft 1 has the parent 1; expected -1 or a draft before it");
    refused(rounds, ASK(2, ids, .parents = (const int[]){-2, 0}), SB_ERR_USAGE,
            "draft 0 has the parent -2");
    refused(rounds, ASK(3, ids, .parents = (const int[]){-1, 0, -1}), SB_ERR_USAGE,
            "draft 2 has the depth 1, and the draft before it 2");
    refused(rounds, ASK(3, same, .parents = (const int[]){-1, 0, 0}), SB_ERR_USAGE,
            "drafts 1 and 2 follow the same parent with the same token 2");
    refused(rounds, ASK(4, ids, .parents = parents, .forced = 1), SB_ERR_USAGE,
            "no forced acceptance");
    refused(rounds, ASK(4, NULL, .parents = parents), SB_ERR_USAGE, "needs given drafts");
    refused(drawn, ASK(4, ids, .parents = parents), SB_ERR_UNSUPPORTED, "residual acceptance");
    refused(drawn, ASK(1, ids, .odds = &(sb_draft_odds){&(uint32_t){384}, &(float){1}, 1}),
            SB_ERR_USAGE, "draft 0 has a probability for token 384; expected an id below 384");
    for (int i = 2; i <= SB_MAX_TREE; i++)
        parents[i] = i - 2;
    refused(rounds, ASK(18, ids, .parents = parents), SB_ERR_USAGE,
            "draft 16 has the depth 9; expected at most 8");
    refused(rounds, ASK(SB_MAX_TREE + 1, ids, .parents = parents), SB_ERR_USAGE,
            "a tree has 65 drafts; expected at most 64");
    /* nothing was fed */
    assert_int_equal(sb_session_position(session), 4);
    /* the rows of a tree wait for their path */
    const uint32_t up[3] = {0, 0, 0};
    const size_t row = 2, wrong[2] = {0, 5};
    assert_int_equal(sb_session_verify_tree(session, ids, up, 3, SB_ROLLBACK_snapshots, NULL),
                     SB_OK);
    assert_int_equal(sb_session_feed(session, ids, 1, NULL), SB_ERR_USAGE);
    assert_int_equal(sb_session_keep(session, 1, NULL), SB_ERR_USAGE);
    assert_int_equal(sb_session_keep_path(session, &row, 1, NULL), SB_ERR_USAGE);
    assert_int_equal(sb_session_keep_path(session, wrong, 2, NULL), SB_ERR_USAGE);
    assert_int_equal(sb_session_keep_path(session, NULL, 0, NULL), SB_OK);
    assert_int_equal(sb_session_position(session), 4);
    sb_rounds_free(drawn);
    sb_rounds_free(rounds);
    sb_session_free(session);
    /* S-3: states that depend on how a sequence was split */
    static const char *const settings[] = {"delta_rule=chunk64", "delta_state=act act=bf16"};
    for (size_t i = 0; i < 2; i++) {
        sb_error err = {""};
        session = open_session(model, settings[i], NULL);
        (void)play_prompt(session, "refused", 4);
        assert_int_equal(sb_session_verify_tree(session, ids, up, 3, SB_ROLLBACK_replay, &err),
                         SB_ERR_UNSUPPORTED);
        assert_non_null(strstr(err.text, "S-3"));
        assert_int_equal(sb_session_position(session), 4);
        sb_session_free(session);
    }
}

/* The tokens of a verification that is undone by replay are needed until its rows are kept. */
TEST(test_a_refused_tree_changes_nothing)
{
    const sb_model *model = play_model(PROGRAM, "T4", "predictable");
    const uint32_t ids[5] = {5, 6, 7, 8, 9}, other[2] = {300, 301}, wrong[2] = {0, 1};
    sb_session *plain = play_session(model, NULL), *session = play_session(model, NULL);
    (void)play_prompt(plain, "waits", 4);
    (void)play_prompt(session, "waits", 4);
    assert_int_equal(sb_session_verify(session, ids, 5, SB_ROLLBACK_replay, NULL), SB_OK);
    assert_int_equal(sb_session_verify_tree(session, other, wrong, 2, SB_ROLLBACK_snapshots, NULL),
                     SB_ERR_USAGE);
    assert_int_equal(sb_session_keep(session, 3, NULL), SB_OK);
    test_feed(plain, ids, 3);
    play_same("refused", sb_session_state(session), sb_session_state(plain));
    sb_session_free(plain);
    sb_session_free(session);
}

TEST_GROUP(NULL, play_close_models)
