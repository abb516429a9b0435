/* test_make_drafter.c - drafters of `samebit make --drafter` (G-26): they are right often for
 * targets of every preset, and need every part. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/run/eagle3.h"
#include "tests/lib/checkpoint.h"

enum { LENGTH = 120, DEPTH = 2 };

/* A text of a target, and the states that its drafters read. */
typedef struct text {
    sb_model *target;
    uint32_t after[SB_EAGLE3_STATES];
    size_t states;
    uint32_t tokens[LENGTH];
    float *kept; /* (LENGTH, 3, H) */
} text;

/* Greedy tokens after id 5, and the states that the drafter reads. */
static text write_text(sb_model *target, const sb_eagle3 *drafter)
{
    const sb_session_states states = sb_eagle3_states(drafter);
    text t = {.target = target, .states = states.count};
    const size_t row = states.count * target->config.hidden_size, V = target->config.vocab_size;
    const sb_session_options options = {.states = states};
    sb_session *session = NULL;
    sb_error err = {""};
    float *logits = sb_alloc(V, sizeof *logits);
    memcpy(t.after, states.after, states.count * sizeof *t.after);
    t.kept = sb_alloc(LENGTH, row * sizeof *t.kept);
    assert_int_equal(sb_session_new(target, &options, &session, &err), SB_OK);
    t.tokens[0] = 5;
    for (size_t i = 0; i < LENGTH; i++) {
        assert_int_equal(sb_session_feed(session, &t.tokens[i], 1, &err), SB_OK);
        memcpy(t.kept + i * row, sb_session_states_kept(session), row * sizeof *t.kept);
        assert_int_equal(sb_session_logits(session, 0, logits, &err), SB_OK);
        if (i + 1 < LENGTH)
            t.tokens[i + 1] = sb_greedy(logits, V);
    }
    free(logits);
    sb_session_free(session);
    return t;
}

typedef struct hits {
    unsigned right[DEPTH], of[DEPTH]; /* per depth; of: the drafts before it were right */
} hits;

/* Two drafts after every token of the text. */
static hits count(const text *t, const char *folder)
{
    const sb_session_options options = {.states = {t->after, t->states}};
    const size_t row = t->states * t->target->config.hidden_size;
    sb_eagle3 *drafter = NULL;
    sb_session *session = NULL;
    sb_eagle3_drafts *drafts = NULL;
    hits h = {{0}, {0}};
    sb_error err = {""};
    if (sb_eagle3_open(folder, t->target, &drafter, &err))
        fail_msg("%s", err.text);
    assert_int_equal(sb_session_new(t->target, &options, &session, &err), SB_OK);
    assert_int_equal(sb_eagle3_drafts_new(drafter, session, &drafts, &err), SB_OK);
    for (size_t i = 0; i + DEPTH + 1 < LENGTH; i++) {
        uint32_t draft = t->tokens[i + 1];
        if (sb_eagle3_follow_states(drafts, t->kept + i * row, &t->tokens[i], 1, &err))
            fail_msg("%s", err.text);
        for (size_t k = 0; k < DEPTH && draft == t->tokens[i + 1 + k]; k++) {
            if (sb_eagle3_draft(drafts, draft, NULL, &draft, &err))
                fail_msg("%s", err.text);
            h.of[k]++;
            h.right[k] += draft == t->tokens[i + 2 + k];
        }
    }
    sb_eagle3_drafts_free(drafts);
    sb_session_free(session);
    sb_eagle3_close(drafter);
    return h;
}

/* A drafter of this preset and these flags, and a text of its target. */
static text begin(const char *preset, const char *flags, const char *dialect, const char **folder)
{
    char name[128];
    sb_eagle3 *drafter = NULL;
    sb_error err = {""};
    sb_model *target = test_model_open(
        test_checkpoint("test_make_drafter", preset, "predictable", "bf16", "text"));
    snprintf(name, sizeof name, "%s-%s-%s", preset, dialect ? dialect : "", flags ? flags : "");
    *folder = test_checkpoint_with("test_make_drafter", &(sb_make_options){.dir = name,
                                                                           .preset = preset,
                                                                           .recipe = "predictable",
                                                                           .drafter = "eagle3",
                                                                           .dialect = dialect,
                                                                           .flags = flags});
    if (sb_eagle3_open(*folder, target, &drafter, &err))
        fail_msg("%s: %s", name, err.text);
    text t = write_text(target, drafter);
    sb_eagle3_close(drafter);
    return t;
}

static void end(text *t)
{
    free(t->kept);
    sb_model_close(t->target);
}

/* G-26: "It is right often" */
TEST(test_right_often)
{
    static const char *const presets[] = {"T1",     "T2", "T3", "T4", "T5",
                                          "T5-raw", "T6", "T7", "T8", "T9"};
    static const char *const variants[][2] = {
        {"speculators", NULL},
        {"specforge", "norm_before_fc,own_embedding"},
        {"speculators", "norm_before_residual,norm_output,fc_norm,qwen3"}};
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
        const char *folder;
        const size_t v = i % 3;
        text t = begin(presets[i], variants[v][1], variants[v][0], &folder);
        hits h = count(&t, folder);
        print_message("%s %s: %u of %u, %u of %u\n", presets[i], variants[v][0], h.right[0],
                      h.of[0], h.right[1], h.of[1]);
        assert_true(h.right[0] * 20 > h.of[0] * 11 && h.right[0] < h.of[0]);
        assert_true(h.right[1] * 5 > h.of[1] * 2 && h.right[1] < h.of[1]);
        end(&t);
    }
}

/* --- every part is needed --------------------------------------------------------------------- */

static float bf16(const unsigned char *at)
{
    uint32_t bits = (uint32_t)at[0] << 16 | (uint32_t)at[1] << 24;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Columns from .. to - 1 become zeros. */
static void zero_columns(test_tensor *t, uint64_t from, uint64_t to)
{
    const uint64_t cols = t->shape[t->rank - 1];
    for (uint64_t r = 0; r < t->size / 2 / cols; r++)
        memset(t->bytes + 2 * (r * cols + from), 0, (size_t)(2 * (to - from)));
}

static void make_ones(test_tensor *t)
{
    assert_true(bf16(t->bytes) != 1.0f || bf16(t->bytes + 2) != 1.0f);
    for (uint64_t i = 0; i < t->size / 2; i++)
        memcpy(t->bytes + 2 * i, "\x80\x3f", 2);
}

/* [ f ; e ] in the place of [ e ; f ]. */
static void swap_halves(test_tensor *t)
{
    const size_t half = (size_t)t->shape[1];
    unsigned char *room = sb_alloc(half, 1);
    for (uint64_t r = 0; r < t->shape[0]; r++) {
        unsigned char *row = t->bytes + 2 * half * r;
        memcpy(room, row, half);
        memcpy(row, row + half, half);
        memcpy(row + half, room, half);
    }
    free(room);
}

/* Row r becomes row r + 1. */
static void roll_rows(test_tensor *t)
{
    const size_t row = (size_t)(t->size / t->shape[0]);
    memmove(t->bytes, t->bytes + row, (size_t)t->size - row);
}

typedef enum damage {
    ZERO,
    ONES, /* a norm without its weight */
    SWAP,
    ROLL,
    REMOVE,
    STATE_0, /* the columns of one state in fc */
    STATE_1,
    STATE_2,
    CONFIG /* the words of `name` become those of `with` */
} damage;

typedef struct part {
    damage how;
    const char *name, *with;
} part;

static void do_damage(test_folder *f, const part *p)
{
    if (p->how == CONFIG) {
        test_folder_configure(f, p->name, p->with);
        return;
    }
    test_tensor *t = test_folder_find(f, p->name);
    const uint64_t cols = t->shape[t->rank - 1];
    if (p->how == ZERO)
        zero_columns(t, 0, cols);
    else if (p->how == ONES)
        make_ones(t);
    else if (p->how == SWAP)
        swap_halves(t);
    else if (p->how == ROLL)
        roll_rows(t);
    else if (p->how == REMOVE)
        test_folder_remove(f, p->name);
    else
        zero_columns(t, cols / 3 * (uint64_t)(p->how - STATE_0),
                     cols / 3 * (uint64_t)(p->how - STATE_0 + 1));
}

/* Every damaged part loses at least a fifth of the right drafts, of one depth. */
static void check_parts(const char *preset, const char *flags, const part *parts, size_t n)
{
    const char *folder;
    text t = begin(preset, flags, NULL, &folder);
    const hits whole = count(&t, folder);
    for (size_t i = 0; i < n; i++) {
        test_folder f = test_folder_load(folder);
        do_damage(&f, &parts[i]);
        const hits h = count(&t, test_folder_save(&f, "test_make_drafter", "damaged"));
        print_message("%s %s: %s %d: %u of %u, %u of %u; whole %u, %u\n", preset,
                      flags ? flags : "", parts[i].name, (int)parts[i].how, h.right[0], h.of[0],
                      h.right[1], h.of[1], whole.right[0], whole.right[1]);
        if (h.right[0] * 5 > whole.right[0] * 4 && h.right[1] * 5 > whole.right[1] * 4)
            fail_msg("%s %s is not needed: %u of %u right drafts", preset, parts[i].name,
                     h.right[0], whole.right[0]);
        test_folder_free(&f);
    }
    end(&t);
}

#define LAYER "layers.0."
static const part always[] = {
    {ZERO, "fc.weight", NULL},
    {STATE_0, "fc.weight", NULL},
    {STATE_1, "fc.weight", NULL},
    {STATE_2, "fc.weight", NULL},
    {ONES, LAYER "hidden_norm.weight", NULL},
    {ONES, LAYER "input_layernorm.weight", NULL},
    {ZERO, LAYER "self_attn.q_proj.weight", NULL},
    {SWAP, LAYER "self_attn.q_proj.weight", NULL},
    {ZERO, LAYER "self_attn.k_proj.weight", NULL},
    {SWAP, LAYER "self_attn.k_proj.weight", NULL},
    {ZERO, LAYER "self_attn.v_proj.weight", NULL},
    {SWAP, LAYER "self_attn.v_proj.weight", NULL},
    {ZERO, LAYER "self_attn.o_proj.weight", NULL},
    {ONES, LAYER "post_attention_layernorm.weight", NULL},
    {ZERO, LAYER "mlp.gate_proj.weight", NULL},
    {ZERO, LAYER "mlp.up_proj.weight", NULL},
    {ZERO, LAYER "mlp.down_proj.weight", NULL},
    {ONES, "norm.weight", NULL},
    {ZERO, "lm_head.weight", NULL},
    {ROLL, "lm_head.weight", NULL},
    {ZERO, "d2t", NULL},
};

TEST(test_parts)
{
    static const char *const presets[] = {"T3", "T4", "T7"};
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++)
        check_parts(presets[i], NULL, always, sizeof always / sizeof *always);
}

/* The parts that only some drafters have, and the flags. */
TEST(test_parts_of_flags)
{
    static const part first[] = {
        {ONES, LAYER "self_attn.q_norm.weight", NULL},
        {ONES, LAYER "self_attn.k_norm.weight", NULL},
        {ONES, "fc_norm.0.weight", NULL},
        {ONES, "fc_norm.1.weight", NULL},
        {ONES, "fc_norm.2.weight", NULL},
        {REMOVE, "embed_tokens.weight", NULL},
        {CONFIG, "\"norm_before_residual\": true", "\"norm_before_residual\": false"},
    };
    static const part second[] = {
        {ONES, "input_norm.weight", NULL},
        {CONFIG, "\"norm_before_residual\": false", "\"norm_before_residual\": true"},
        {CONFIG, "\"norm_output\": true", "\"norm_output\": false"},
    };
    check_parts("T4", "qwen3,fc_norm,own_embedding,norm_before_residual", first,
                sizeof first / sizeof *first);
    check_parts("T3", "norm_before_fc,norm_output", second, sizeof second / sizeof *second);
    const part other = {CONFIG, "\"norm_output\": false", "\"norm_output\": true"};
    check_parts("T3", "norm_before_residual", &other, 1);
    check_parts("T4", "norm_before_residual", always, sizeof always / sizeof *always);
}
