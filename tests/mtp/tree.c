#include "tests/mtp/tree.h"

#include "tests/lib/cmocka.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct tree {
    const tree_plan *plan;
    sb_session *plain, *snapshots, *replay;
    sb_rounds *of_snapshots, *of_replay;
    size_t parents, compared;
    size_t expected; /* states that have to be compared */
    char path[64];   /* "2 z 0 3": accepted drafts of each round, z for a round without drafts */
} tree;

/* The rows of a node's round fed one at a time: the state after each row. */
typedef struct twins {
    sb_state *state[SB_MAX_DRAFTS + 2]; /* [n]: n rows fed */
    uint32_t next[SB_MAX_DRAFTS + 2];   /* the token that the last of them gives */
} twins;

static void compare(tree *t, const char *how, size_t accepted, const sb_state *got,
                    const sb_state *expected)
{
    char where[160];
    snprintf(where, sizeof where, "K = %zu, accepted %s%zu, %s", t->plan->drafts, t->path, accepted,
             how);
    play_same(where, got, expected);
    t->compared++;
}

static twins one_at_a_time(tree *t, const sb_state *from, const uint32_t *tokens, size_t count)
{
    twins w = {{NULL}, {0}};
    play_set(t->plain, from);
    for (size_t n = 1; n <= count; n++) {
        test_feed(t->plain, tokens + n - 1, 1);
        w.state[n] = play_copy(sb_session_state(t->plain));
        w.next[n] = play_greedy(t->plain);
    }
    return w;
}

/* The head's drafts after `token`. */
static void propose(tree *t, const sb_state *from, uint32_t token, uint32_t *drafts)
{
    size_t V = t->plan->model->config.vocab_size;
    float *logits = malloc(V * sizeof *logits);
    sb_error err = {""};
    assert_non_null(logits);
    play_set(t->snapshots, from);
    for (size_t j = 0; j < t->plan->drafts; j++) {
        if (sb_session_draft(t->snapshots, j ? drafts[j - 1] : token, logits, &err))
            fail_msg("%s", err.text);
        drafts[j] = sb_greedy(logits, V);
    }
    free(logits);
}

/* One verify, and the state that each count of accepted drafts would leave. */
static void check_snapshots(tree *t, const uint32_t *tokens, const twins *w)
{
    size_t rows = t->plan->drafts + 1;
    sb_error err = {""};
    sb_state *state = NULL;
    if (sb_session_verify(t->snapshots, tokens, rows, SB_ROLLBACK_snapshots, &err))
        fail_msg("%s", err.text);
    for (size_t kept = 1; kept <= rows; kept++) {
        if (sb_session_state_at(t->snapshots, kept, &state, &err))
            fail_msg("%s", err.text);
        compare(t, "a snapshot of the row", kept - 1, state, w->state[kept]);
        sb_state_free(state);
    }
    assert_int_equal(sb_session_keep(t->snapshots, rows, &err), SB_OK);
}

/* A round with forced acceptance: its ids and counts, and the state that it leaves. */
static void check_round(tree *t, const char *how, sb_session *session, sb_rounds *rounds,
                        const sb_state *from, const uint32_t *tokens, size_t accepted,
                        const twins *w)
{
    size_t K = t->plan->drafts;
    play_set(session, from);
    sb_round round = play_round(
        rounds, &(sb_round_ask){.token = tokens[0], .drafts = K, .forced = (int)accepted});
    assert_memory_equal(round.drafts, tokens + 1, K * sizeof *tokens);
    assert_int_equal(round.accepted, accepted);
    assert_int_equal(round.emitted, accepted + 1);
    assert_memory_equal(round.tokens, tokens + 1, accepted * sizeof *tokens);
    assert_int_equal(round.tokens[accepted], w->next[accepted + 1]);
    compare(t, how, accepted, sb_session_state(session), w->state[accepted + 1]);
}

static void grow(tree *t, const sb_state *from, uint32_t token, size_t left);

/* A round without drafts after a node, with both kinds of rollback, and the tree that grows from
 * there. */
static void grow_between(tree *t, const sb_state *from, uint32_t token, size_t left)
{
    size_t end = strlen(t->path);
    twins w = one_at_a_time(t, from, &token, 1);
    for (int way = 0; way < 2; way++) {
        sb_session *session = way ? t->replay : t->snapshots;
        play_set(session, from);
        sb_round round = play_round(way ? t->of_replay : t->of_snapshots,
                                    &(sb_round_ask){.token = token, .forced = -1});
        assert_int_equal(round.emitted, 1);
        assert_int_equal(round.tokens[0], w.next[1]);
        compare(t, "a round without drafts", 0, sb_session_state(session), w.state[1]);
    }
    t->expected += 2;
    strcat(t->path, "z ");
    grow(t, w.state[1], w.next[1], left);
    t->path[end] = '\0';
    sb_state_free(w.state[1]);
}

/* The round of a node with both kinds of rollback for every count; with `few`, by snapshots or by
 * replay for one count. */
static void check_node(tree *t, const sb_state *from, const uint32_t *tokens, size_t chosen,
                       int few, const twins *w)
{
    size_t K = t->plan->drafts, by_replay = few && t->parents / (K + 1) % 2;
    check_snapshots(t, tokens, w);
    if (!by_replay)
        check_round(t, "snapshots", t->snapshots, t->of_snapshots, from, tokens, chosen, w);
    for (size_t accepted = 0; accepted <= K; accepted++)
        if (!few || (by_replay && accepted == chosen))
            check_round(t, "replay", t->replay, t->of_replay, from, tokens, accepted, w);
    t->expected += K + 1 + (few ? 1 : K + 2);
}

static void grow(tree *t, const sb_state *from, uint32_t token, size_t left)
{
    uint32_t tokens[SB_MAX_DRAFTS + 1] = {token};
    size_t K = t->plan->drafts, end = strlen(t->path), chosen = t->parents++ % (K + 1);
    propose(t, from, token, tokens + 1);
    twins w = one_at_a_time(t, from, tokens, K + 1);
    check_node(t, from, tokens, chosen, left == 1 && t->plan->few, &w);
    for (size_t accepted = 0; accepted <= K && left > 1; accepted++) {
        int both = t->plan->between == TREE_BOTH, between = (t->parents + accepted) % 2 != 0;
        sprintf(t->path + end, "%zu ", accepted);
        if (both || !between)
            grow(t, w.state[accepted + 1], w.next[accepted + 1], left - 1);
        if (both || between)
            grow_between(t, w.state[accepted + 1], w.next[accepted + 1], left - 1);
        t->path[end] = '\0';
    }
    for (size_t n = 1; n <= K + 1; n++)
        sb_state_free(w.state[n]);
}

/* The number of nodes that have rounds with drafts. */
static size_t nodes_of(const tree_plan *plan)
{
    size_t level = 1, nodes = 1;
    for (size_t round = 1; round < plan->rounds; round++) {
        level *= (plan->drafts + 1) * (plan->between == TREE_BOTH ? 2 : 1);
        nodes += level;
    }
    return nodes;
}

static size_t run(const tree_plan *plan)
{
    sb_session_options options = {.knobs = plan->knobs};
    tree t = {.plan = plan,
              .plain = play_session(plan->model, &options),
              .snapshots = play_session(plan->model, &options),
              .replay = play_session(plan->model, &options)};
    t.of_snapshots = play_rounds(t.snapshots, NULL, SB_ROLLBACK_snapshots);
    t.of_replay = play_rounds(t.replay, NULL, SB_ROLLBACK_replay);
    uint32_t token = play_prompt(t.plain, plan->prompt, plan->prompt_tokens);
    sb_state *root = play_copy(sb_session_state(t.plain));
    grow(&t, root, token, plan->rounds);
    sb_state_free(root);
    sb_rounds_free(t.of_snapshots);
    sb_rounds_free(t.of_replay);
    sb_session_free(t.plain);
    sb_session_free(t.snapshots);
    sb_session_free(t.replay);
    assert_int_equal(t.parents, nodes_of(plan));
    assert_int_equal(t.compared, t.expected);
    return t.compared;
}

size_t tree_grow(const tree_plan *plan)
{
    size_t compared = run(plan);
    printf("%s: K = %zu over %zu rounds%s: %zu states\n", plan->prompt, plan->drafts, plan->rounds,
           plan->between == TREE_BOTH ? ", with and without rounds without drafts between" : "",
           compared);
    return compared;
}

void tree_grow_all(const sb_model *model, const char *prompt)
{
    static const size_t shapes[][2] = {{1, 4}, {2, 4}, {3, 4}, {5, 2}};
    const char *all = getenv("CHECK_ALL");
    tree_plan plan = {.model = model, .prompt = prompt, .prompt_tokens = 5};
    if (all && strcmp(all, "1") == 0) {
        plan.rounds = 4;
        for (plan.drafts = 1; plan.drafts <= 5; plan.drafts++) {
            plan.between = plan.drafts <= 3 ? TREE_BOTH : TREE_SOME;
            tree_grow(&plan);
        }
        return;
    }
    plan.few = 1;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        plan.drafts = shapes[i][0];
        plan.rounds = shapes[i][1];
        tree_grow(&plan);
    }
}
