/* mutants_head.c - mistakes in the inputs of the head, and harmless variants. */
#include "ref/base/pool.h"
#include "ref/fast/fast.h"
#include "tests/lib/cmocka.h"

#include <stdlib.h>
#include <string.h>

#include "tests/mtp/mutants.h"

static const sb_slip_game *current; /* the game whose ops are replaced */

static void set(sb_slip_game *game, sb_slip_stage stage, const char *setting)
{
    if (stage == SB_SLIP_open)
        assert_int_equal(sb_knobs_set(&game->knobs, setting, NULL), SB_OK);
}

void sb_slip_hidden_before_norm(sb_slip_game *game, sb_slip_stage stage)
{
    set(game, stage, "mtp_hidden=residual");
}

/* mtp.fc on an input with swapped halves. */
static sb_status linear_with_halves_swapped(const sb_knobs *knobs, const sb_linear_args *a)
{
    const sb_matrix *fc = &current->model->weights->mtp[SB_ROLE_mtp_fc];
    size_t half = fc->cols / 2;
    if (a->weight != fc)
        return sb_linear_fast(knobs, a);
    float *in = malloc(a->rows * fc->cols * sizeof *in);
    assert_non_null(in);
    for (size_t t = 0; t < a->rows; t++) {
        memcpy(in + 2 * t * half, a->in + (2 * t + 1) * half, half * sizeof *in);
        memcpy(in + (2 * t + 1) * half, a->in + 2 * t * half, half * sizeof *in);
    }
    sb_linear_args swapped = *a;
    swapped.in = in;
    sb_status status = sb_linear_fast(knobs, &swapped);
    free(in);
    return status;
}

void sb_slip_halves_of_fc(sb_slip_game *game, sb_slip_stage stage)
{
    current = game;
    if (stage == SB_SLIP_open)
        game->backend.ops.linear = linear_with_halves_swapped;
}

void sb_slip_entry_position(sb_slip_game *game, sb_slip_stage stage)
{
    set(game, stage, "mtp_position=token");
}

/* Replaces the embeddings of the head's tokens by those of the tokens before them. */
static sb_status watch_unshifted(void *ctx, const char *name, float *data, size_t rows, size_t cols,
                                 sb_error *err)
{
    sb_slip_game *game = ctx;
    if (strcmp(name, "mtp.embed") == 0 && !game->drafting) {
        size_t from = game->rows - rows; /* 1 in the very first call, else 0 */
        for (size_t t = 0; t < rows; t++)
            memcpy(data + t * cols, from + t ? game->embedded + (from + t - 1) * cols : game->last,
                   cols * sizeof *data);
    }
    return slip_watch(ctx, name, data, rows, cols, err);
}

void sb_slip_token_not_shifted(sb_slip_game *game, sb_slip_stage stage)
{
    if (stage == SB_SLIP_open)
        game->options.tap = watch_unshifted;
}

/* Rope of one row at position + shift while the head drafts. */
static sb_status rope_shifted(const sb_knobs *knobs, const sb_rope_args *a, int shift)
{
    sb_rope_args shifted = *a;
    uint32_t position = 0;
    if (!current->drafting)
        return sb_rope_fast(knobs, a);
    assert_int_equal(a->rows, 1);
    position = a->position[0][0] + (uint32_t)shift;
    for (int i = 0; i < 3; i++)
        shifted.position[i] = &position;
    return sb_rope_fast(knobs, &shifted);
}

static sb_status rope_late(const sb_knobs *knobs, const sb_rope_args *a)
{
    return rope_shifted(knobs, a, 1);
}

static sb_status rope_stuck(const sb_knobs *knobs, const sb_rope_args *a)
{
    return rope_shifted(knobs, a, -(int)current->draft);
}

void sb_slip_draft_position(sb_slip_game *game, sb_slip_stage stage)
{
    current = game;
    if (stage == SB_SLIP_open)
        game->backend.ops.rope = rope_late;
}

void sb_slip_draft_position_stuck(sb_slip_game *game, sb_slip_stage stage)
{
    current = game;
    if (stage == SB_SLIP_open)
        game->backend.ops.rope = rope_stuck;
}

void sb_slip_recycled_before_norm(sb_slip_game *game, sb_slip_stage stage)
{
    if (stage == SB_SLIP_drafted)
        memcpy(game->head, game->stream, game->model->config.hidden_size * sizeof(float));
}

void sb_slip_recycled_true(sb_slip_game *game, sb_slip_stage stage)
{
    if (stage == SB_SLIP_drafted)
        memcpy(game->head, game->live->mtp_hidden, game->model->config.hidden_size * sizeof(float));
}

/* --- harmless --------------------------------------------------------------------------------- */

void sb_slip_replay(sb_slip_game *game, sb_slip_stage stage)
{
    if (stage == SB_SLIP_open)
        game->rollback = SB_ROLLBACK_replay;
}

void sb_slip_by_rounds(sb_slip_game *game, sb_slip_stage stage)
{
    if (stage == SB_SLIP_open)
        game->by_rounds = 1;
}

void sb_slip_other_split(sb_slip_game *game, sb_slip_stage stage)
{
    if (stage == SB_SLIP_open)
        game->prompt_call = 1;
}

static void draft_for_nobody(sb_slip_game *game)
{
    float *logits = malloc(game->model->config.vocab_size * sizeof *logits);
    assert_non_null(logits);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(sb_session_draft(game->session, 7 + i, logits, NULL), SB_OK);
    sb_session_forget_drafts(game->session);
    free(logits);
}

void sb_slip_drafts_thrown_away(sb_slip_game *game, sb_slip_stage stage)
{
    if (stage == SB_SLIP_prompt || stage == SB_SLIP_begin || stage == SB_SLIP_kept)
        draft_for_nobody(game);
}

void sb_slip_unused_is_nan(sb_slip_game *game, sb_slip_stage stage)
{
    if (stage == SB_SLIP_start)
        assert_int_equal(sb_state_reserve(game->live, 100, NULL), SB_OK);
    if (stage != SB_SLIP_open && stage != SB_SLIP_draft && stage != SB_SLIP_drafted)
        play_poison_unused(game->live);
}

void sb_slip_state_set_again(sb_slip_game *game, sb_slip_stage stage)
{
    if (stage != SB_SLIP_begin)
        return;
    sb_state *copy = play_copy(game->live);
    sb_session_reset(game->session);
    play_set(game->session, copy);
    sb_state_free(copy);
}

void sb_slip_used_session(sb_slip_game *game, sb_slip_stage stage)
{
    uint32_t ids[70];
    if (stage != SB_SLIP_start)
        return;
    test_draw_ids("another sequence", game->model->config.vocab_size, ids, 70);
    test_feed(game->session, ids, 70);
    draft_for_nobody(game);
    assert_int_equal(sb_session_verify(game->session, ids, 9, SB_ROLLBACK_snapshots, NULL), SB_OK);
    draft_for_nobody(game);
    sb_session_reset(game->session);
}

void sb_slip_two_threads(sb_slip_game *game, sb_slip_stage stage)
{
    (void)game;
    if (stage == SB_SLIP_open)
        sb_threads_set(2);
}
