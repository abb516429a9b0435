/* drafter.c - the mistakes of drafters.def, and a drafter that runs with one of them. */
#include "tools/judge/fault/op_faults.h"
#include "tools/judge/fault/drafter.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/run/round.h"

/* --- mistakes in what the drafter has --------------------------------------------------------- */

static void states_one_early(sb_drafter_game *g)
{
    for (uint32_t i = 0; i < g->engine.config.states; i++)
        g->engine.after[i]--;
}

/* The last layer has no state behind it. */
static void states_one_late(sb_drafter_game *g)
{
    for (uint32_t i = 0; i < g->engine.config.states; i++)
        g->engine.after[i] += g->engine.after[i] < g->target->config.layers;
}

static void states_reversed(sb_drafter_game *g)
{
    const uint32_t n = g->engine.config.states;
    for (uint32_t i = 0; i < n; i++)
        g->engine.after[i] = g->sound->after[n - 1 - i];
}

static void residual_other(sb_drafter_game *g)
{
    g->engine.config.norm_before_residual = !g->engine.config.norm_before_residual;
}

static void residual_ignored(sb_drafter_game *g)
{
    g->engine.config.norm_before_residual = 0;
}

static void output_other(sb_drafter_game *g)
{
    g->engine.config.norm_output = !g->engine.config.norm_output;
}

static void output_ignored(sb_drafter_game *g)
{
    g->engine.config.norm_output = 0;
}

static void norms_swapped(sb_drafter_game *g)
{
    g->engine.hidden_norm = g->sound->layer.w[SB_ROLE_input_layernorm];
    g->engine.layer.w[SB_ROLE_input_layernorm] = g->sound->hidden_norm;
}

static void fc_norm_left_out(sb_drafter_game *g)
{
    g->engine.config.fc_norm = 0;
}

static void input_norm_left_out(sb_drafter_game *g)
{
    g->engine.config.norm_before_fc = 0;
}

static void *spare(sb_drafter_game *g, size_t i, size_t count, size_t size)
{
    g->spare[i] = sb_alloc(count, size);
    g->failed |= !g->spare[i];
    return g->spare[i];
}

static void map_to(sb_drafter_game *g, uint32_t times)
{
    const uint32_t n = g->engine.config.draft_vocab, V = g->engine.config.layer.vocab_size;
    uint32_t *map = spare(g, 0, n, sizeof *map);
    for (uint32_t i = 0; map && i < n; i++)
        map[i] = (i + times * (g->sound->target_of[i] - i)) % V;
    g->engine.target_of = map;
}

static void map_added_twice(sb_drafter_game *g)
{
    map_to(g, 2);
}

static void map_not_added(sb_drafter_game *g)
{
    map_to(g, 0);
}

static void embedding_of_target(sb_drafter_game *g)
{
    g->engine.weights.embed_tokens = g->target->weights->embed_tokens;
}

/* A copy of a bfloat16 matrix whose pieces of `width` elements are those of `from`. */
static void rearrange(sb_drafter_game *g, size_t i, sb_matrix *matrix, size_t width,
                      size_t (*from)(size_t piece))
{
    const size_t count = (size_t)matrix->rows * matrix->cols, pieces = count / width;
    uint16_t *to = spare(g, i, count, sizeof *to);
    for (size_t p = 0; to && p < pieces; p++)
        memcpy(to + p * width, matrix->data + 2 * width * (from(p) < pieces ? from(p) : p),
               width * sizeof *to);
    matrix->data = (const unsigned char *)to;
}

static size_t neighbour(size_t piece)
{
    return piece ^ 1;
}

static void head_permuted(sb_drafter_game *g)
{
    sb_matrix *head = &g->engine.weights.lm_head;
    rearrange(g, 0, head, head->cols, neighbour);
}

/* The halves of the columns change places. */
static void joined_other(sb_drafter_game *g)
{
    static const sb_role roles[] = {SB_ROLE_q_proj, SB_ROLE_k_proj, SB_ROLE_v_proj};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        sb_matrix *matrix = &g->engine.layer.w[roles[i]];
        rearrange(g, i, matrix, matrix->cols / 2, neighbour);
    }
}

static void theta_of_target(sb_drafter_game *g)
{
    g->engine.config.layer.rope_theta = g->target->config.rope_theta;
}

static void qk_norms_left_out(sb_drafter_game *g)
{
    g->engine.layer.w[SB_ROLE_q_norm] = g->engine.layer.w[SB_ROLE_k_norm] = (sb_matrix){.rows = 0};
}

/* --- mistakes in ops -------------------------------------------------------------------------- */

static sb_status double_norm(sb_drafter_game *g, const sb_op_call *call)
{
    sb_rmsnorm_args a;
    if (strcmp(call->name, "drafter.hidden_norm") != 0)
        return sb_op_run(call);
    a = *(const sb_rmsnorm_args *)call->args;
    a.weight = &g->engine.layer.w[SB_ROLE_input_layernorm];
    sb_status status = sb_plant_run_with(call, &a);
    a = *(const sb_rmsnorm_args *)call->args;
    a.in = a.out;
    return status ? status : sb_plant_run_with(call, &a);
}

/* Runs a rotation at other positions, which are those of the op plus `by`. */
static sb_status rotate(const sb_op_call *call, long by)
{
    sb_rope_args a = *(const sb_rope_args *)call->args;
    uint32_t position = (uint32_t)((long)a.position[0][0] + by);
    for (int i = 0; i < 3; i++)
        a.position[i] = &position;
    return sb_plant_run_with(call, &a);
}

static int is_further(const sb_drafter_game *g, const sb_op_call *call)
{
    return call->op == SB_OP_rope && call->kind == SB_CALL_draft && g->draft > 0;
}

static sb_status position_stuck(sb_drafter_game *g, const sb_op_call *call)
{
    return is_further(g, call) ? rotate(call, -(long)g->draft) : sb_op_run(call);
}

static sb_status position_ahead(sb_drafter_game *g, const sb_op_call *call)
{
    return is_further(g, call) ? rotate(call, 1) : sb_op_run(call);
}

/* --- mistakes in values ----------------------------------------------------------------------- */

/* Keeps the row of a value that the current draft made. */
static void keep(sb_drafter_game *g, size_t i, const float *data, size_t cols)
{
    if (!g->kept[i])
        g->kept[i] = sb_alloc(SB_MAX_DRAFTS * cols, sizeof *data);
    g->width[i] = cols;
    g->failed |= !g->kept[i];
    if (g->kept[i] && g->draft < SB_MAX_DRAFTS)
        memcpy(g->kept[i] + g->draft * cols, data, cols * sizeof *data);
}

static void feedback_stale(sb_drafter_game *g, const char *name, float *data, size_t rows,
                           size_t cols)
{
    (void)rows;
    if (g->kind == SB_CALL_draft && strcmp(name, "drafter.fc") == 0)
        keep(g, 0, data, cols);
    if (strcmp(name, "drafter.hidden") == 0 && g->kept[0])
        memcpy(data, g->kept[0], cols * sizeof *data);
}

/* Keys and values of accepted drafts, from the second entry of the round on. */
static void not_overwritten(sb_drafter_game *g, const char *name, float *data, size_t rows,
                            size_t cols)
{
    const int key = strcmp(name, "drafter.layers.0.self_attn.k_rope") == 0;
    if (!key && strcmp(name, "drafter.layers.0.self_attn.v_proj") != 0)
        return;
    if (g->kind == SB_CALL_draft) {
        keep(g, key ? 1 : 2, data, cols);
        return;
    }
    const float *kept = g->kept[key ? 1 : 2];
    for (size_t row = 1; g->rows && kept && row <= g->accepted && row + 1 < g->rows && row < rows;
         row++)
        memcpy(data + row * cols, kept + row * cols, cols * sizeof *data);
}

static void second_best(sb_drafter_game *g, const char *name, float *data, size_t rows, size_t cols)
{
    (void)rows;
    (void)cols;
    if (strcmp(name, "drafter.top_ids") != 0)
        return;
    const size_t row = ((size_t)data[0] + 1) % g->engine.config.draft_vocab;
    data[0] = (float)row;
    data[1] = (float)g->engine.target_of[row];
}

/* --- mistakes in entries ---------------------------------------------------------------------- */

static size_t row_of(const sb_drafter_game *g)
{
    return (size_t)g->engine.config.states * g->engine.config.target_hidden;
}

/* tokens[0] of the first call has no entry, so the shift begins there. */
static void first_token_shift(sb_drafter_game *g, float *states, uint32_t *tokens, size_t *n)
{
    (void)g;
    (void)states;
    for (size_t i = *n - 1; i > 0; i--)
        tokens[i] = tokens[i - 1];
}

static void row_of_rejected(sb_drafter_game *g, float *states, uint32_t *tokens, size_t *n)
{
    const size_t row = row_of(g);
    (void)tokens;
    if (g->rows > *n)
        memcpy(states + (*n - 1) * row, states + (g->rows - 1) * row, row * sizeof *states);
}

/* The states of the last kept row are still those that wait for the next token. */
static void rejected_kept(sb_drafter_game *g, float *states, uint32_t *tokens, size_t *n)
{
    const size_t row = row_of(g);
    (void)tokens;
    if (g->rows <= *n)
        return;
    memcpy(states + (g->rows - 1) * row, states + (*n - 1) * row, row * sizeof *states);
    *n = g->rows;
}

static void entry_left_out(sb_drafter_game *g, float *states, uint32_t *tokens, size_t *n)
{
    const size_t row = row_of(g);
    (void)tokens;
    if (!g->rows || *n < 2)
        return;
    memcpy(states + (*n - 2) * row, states + (*n - 1) * row, row * sizeof *states);
    --*n;
}

/* --- the list --------------------------------------------------------------------------------- */

const sb_drafter_fault sb_drafter_faults[] = {
#define SB_DRAFTER_FAULT(name_, stage, kind_, origin_, fires_, words_)                             \
    {.name = #name_,                                                                               \
     .kind = kind_,                                                                                \
     .origin = origin_,                                                                            \
     .fires = fires_,                                                                              \
     .words = words_,                                                                              \
     .engine = "sequential",                                                                       \
     .setting = "",                                                                                \
     .stage = name_},
#define SB_DRAFTER_SOUND(name_, kind_, engine_, setting_, words_)                                  \
    {.name = #name_,                                                                               \
     .kind = kind_,                                                                                \
     .origin = "",                                                                                 \
     .fires = "",                                                                                  \
     .words = words_,                                                                              \
     .engine = engine_,                                                                            \
     .setting = setting_,                                                                          \
     .sound = 1},
#include "tools/judge/fault/lists/drafters.def"
#undef SB_DRAFTER_FAULT
#undef SB_DRAFTER_SOUND
    {.name = NULL}};

const sb_drafter_fault *sb_drafter_fault_find(const char *name)
{
    for (const sb_drafter_fault *row = sb_drafter_faults; row->name; row++)
        if (strcmp(row->name, name) == 0)
            return row;
    return NULL;
}

/* --- the game --------------------------------------------------------------------------------- */

sb_status sb_drafter_prepare(sb_drafter_game *g, sb_error *err)
{
    g->engine = *g->sound;
    g->engine.weights.layers = &g->engine.layer;
    g->engine.model.weights = &g->engine.weights;
    if (g->fault && g->fault->open)
        g->fault->open(g);
    g->engine.model.config = g->engine.config.layer;
    return g->failed ? sb_fail(err, SB_ERR_MEMORY, "out of memory for a drafter") : SB_OK;
}

sb_status sb_drafter_begin(sb_drafter_game *g, sb_session *session, sb_error *err)
{
    return sb_eagle3_drafts_new(&g->engine, session, &g->entries, err);
}

void sb_drafter_end(sb_drafter_game *g)
{
    sb_eagle3_drafts_free(g->entries);
    g->entries = NULL;
    for (size_t i = 0; i < SB_DRAFTER_SPARE; i++)
        free(g->spare[i]);
    for (size_t i = 0; i < SB_DRAFTER_KEPT; i++)
        free(g->kept[i]);
    memset(g->spare, 0, sizeof g->spare);
    memset(g->kept, 0, sizeof g->kept);
}

sb_status sb_drafter_follow(sb_drafter_game *g, const sb_session *session, const uint32_t *tokens,
                            size_t rows, size_t n, sb_error *err)
{
    const size_t width = row_of(g);
    float *states = sb_alloc(rows * width, sizeof *states);
    uint32_t *ids = sb_alloc(rows, sizeof *ids);
    sb_status status = states && ids ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "out of memory");
    if (!status) {
        memcpy(states, sb_session_states_kept(session), rows * width * sizeof *states);
        memcpy(ids, tokens, rows * sizeof *ids);
        if (g->fault && g->fault->rows)
            g->fault->rows(g, states, ids, &n);
        status = sb_eagle3_follow_states(g->entries, states, ids, n, err);
    }
    free(states);
    free(ids);
    return status;
}

sb_status sb_drafter_draft(sb_drafter_game *g, size_t number, uint32_t token, uint32_t *draft,
                           sb_error *err)
{
    g->draft = number;
    if (!number)
        sb_eagle3_forget(g->entries);
    return sb_eagle3_draft(g->entries, token, NULL, draft, err);
}

sb_status sb_drafter_hook(void *game, const sb_op_call *call)
{
    sb_drafter_game *g = game;
    const int own =
        strncmp(call->name, "drafter.", 8) == 0 || call->layer == g->target->config.layers + 1;
    g->kind = call->kind;
    return own && g->fault && g->fault->op ? g->fault->op(g, call) : sb_op_run(call);
}

void sb_drafter_tap(sb_drafter_game *g, const char *name, float *data, size_t rows, size_t cols)
{
    if (g->fault && g->fault->tap && strncmp(name, "drafter.", 8) == 0)
        g->fault->tap(g, name, data, rows, cols);
}
