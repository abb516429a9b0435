/* test_gpu_step.c - a step in the emulator keeps all arrays where kernels run. It has the bits of a
 * session that uploads and fetches the arrays of each op (Y-71): tokens, logits, hidden vectors and
 * states, over prompts, steps, drafts, verifies and rollback. */
#include "tests/lib/suite.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/gpu.h"
#include "gpu/step/step.h"
#include "ref/base/mem.h"
#include "tests/lib/check_all.h"
#include "tests/lib/checkpoint.h"

enum { ROWS = 40, POSITIONS = 400 };

typedef struct script {
    const char *preset, *format, *profile, *set; /* set: knobs, or NULL */
    unsigned layers;   /* 0: as in the preset, which is also the number for `make check-all` */
    const char *words; /* see play */
} script;

/* For a model with predictable tokens. */
static const char rounds[] = "p5 d d m3 v a d | g3 v k2 g1 v k1 d p20 m2 v a g4 v k5 d";

typedef struct both {
    const script *script;
    sb_model *model;
    sb_session *session;
    sb_gpu_step *step;
    sb_knobs knobs;
    size_t V, H, drafts, drawn; /* drafts of the round; number of ids drawn so far */
    uint32_t tokens[SB_STEP_SLOTS];
    float *want, *got; /* (V) or (H) */
    size_t sealed;     /* words left until launches may no longer upload anything */
    char why[sizeof(sb_error) + 64];
    sb_error err;
} both;

/* The first difference is kept, and later words do nothing. */
static int failed(const both *b)
{
    return b->why[0] != 0;
}
static void differ(both *b, const char *what, size_t row)
{
    if (!failed(b))
        snprintf(b->why, sizeof b->why, "%s of row %zu", what, row);
}
static void said(both *b, sb_status status)
{
    if (status && !failed(b))
        snprintf(b->why, sizeof b->why, "%s", b->err.text);
}

/* A script that begins with a bar is skipped without making its checkpoint. */
static int left_out(const script *s)
{
    return *s->words == '|' && !check_all();
}

static void set_knobs(both *b, const char *all)
{
    char words[128];
    snprintf(words, sizeof words, "%s", all ? all : "");
    for (char *word = strtok(words, " "); word; word = strtok(NULL, " "))
        if (sb_knobs_set(&b->knobs, word, &b->err))
            fail_msg("%s", b->err.text);
}

static void open_both(both *b, const script *s)
{
    const sb_make_options make = {.dir = "model",
                                  .preset = s->preset,
                                  .format = s->format,
                                  .recipe = s->words == rounds ? "predictable" : NULL,
                                  .layers = check_all() ? 0 : s->layers,
                                  .group_size = strcmp(s->preset, "T6") == 0 ? 32 : 0,
                                  .replace = 1};
    *b = (both){.script = s, .err = {""}};
    b->model = test_model_open(test_checkpoint_with("test_gpu_step", &make));
    const int mtp = sb_model_has_mtp(b->model);
    assert_int_equal(sb_knobs_profile(&b->knobs, s->profile, &b->err), SB_OK);
    set_knobs(b, s->set);
    const sb_session_options options = {
        .backend = sb_backend_emu(), .knobs = &b->knobs, .mtp = mtp};
    const sb_gpu_step_options limits = {
        .rows = ROWS, .slots = 5, .positions = POSITIONS, .mtp = mtp};
    b->V = b->model->config.vocab_size;
    b->H = b->model->config.hidden_size;
    b->want = sb_alloc(b->V + b->H, sizeof(float));
    b->got = sb_alloc(b->V + b->H, sizeof(float));
    assert_int_equal(sb_session_new(b->model, &options, &b->session, &b->err), SB_OK);
    said(b, sb_gpu_step_open(sb_backend_emu(), b->model, &b->knobs, &limits, &b->step, &b->err));
}

static void close_both(both *b)
{
    sb_gpu_step_close(b->step);
    sb_session_free(b->session);
    sb_gpu_forget(sb_backend_emu());
    sb_model_close(b->model);
    free(b->want);
    free(b->got);
}

static void same_floats(both *b, const char *what, size_t row, const float *want, size_t n)
{
    if (!failed(b) && memcmp(want, b->got, n * sizeof *want) != 0)
        differ(b, what, row);
}

static void same_state(both *b)
{
    sb_state *state = NULL;
    sb_digest want, got;
    if (failed(b))
        return;
    said(b, sb_gpu_step_state(b->step, &state, &b->err));
    if (failed(b))
        return;
    assert_int_equal(sb_state_digest(sb_session_state(b->session), &want, NULL), SB_OK);
    assert_int_equal(sb_state_digest(state, &got, NULL), SB_OK);
    if (strcmp(want.hex, got.hex) != 0)
        differ(b, "the state", (size_t)state->position);
    if (state->has_mtp) {
        assert_int_equal(sb_state_mtp_digest(sb_session_state(b->session), &want, NULL), SB_OK);
        assert_int_equal(sb_state_mtp_digest(state, &got, NULL), SB_OK);
        if (strcmp(want.hex, got.hex) != 0)
            differ(b, "the state of the head", (size_t)state->position);
    }
    sb_state_free(state);
}

/* Compares the hidden vectors of all rows, and the logits and tokens of the last `count`. */
static void same_rows(both *b, size_t count)
{
    const size_t rows = sb_session_rows(b->session);
    uint32_t picked[SB_STEP_SLOTS];
    said(b, sb_gpu_step_picked(b->step, picked, count, &b->err));
    for (size_t t = 0; t < rows && !failed(b); t++) {
        said(b, sb_gpu_step_hidden(b->step, t, b->got, &b->err));
        same_floats(b, "the hidden vector", t, sb_session_hidden(b->session) + t * b->H, b->H);
    }
    for (size_t t = 0; t < count && !failed(b); t++) {
        said(b, sb_gpu_step_logits(b->step, t, b->got, &b->err));
        said(b, sb_session_logits(b->session, rows - count + t, b->want, &b->err));
        same_floats(b, "the logits", t, b->want, b->V);
        if (!failed(b) && picked[t] != sb_greedy(b->want, b->V))
            differ(b, "the token", t);
    }
    same_state(b);
    if (!failed(b))
        b->tokens[0] = picked[count - 1];
    b->drafts = 0;
}

static void prompt(both *b, size_t n)
{
    uint32_t ids[ROWS];
    for (size_t i = 0; i < n; i++)
        ids[i] = (uint32_t)((b->drawn++ * 7919 + 13) % b->V);
    said(b, sb_session_feed(b->session, ids, n, &b->err));
    said(b, sb_gpu_step_feed(b->step, ids, n, &b->err));
    same_rows(b, 1);
}

static void decode(both *b)
{
    said(b, sb_session_feed(b->session, b->tokens, 1, &b->err));
    said(b, sb_gpu_step_run(b->step, 1, &b->err));
    same_rows(b, 1);
}

static void draft(both *b)
{
    const size_t at = b->drafts++;
    uint32_t tokens[SB_STEP_SLOTS];
    said(b, sb_session_draft(b->session, b->tokens[at], b->want, &b->err));
    if (!failed(b))
        said(b, sb_gpu_step_draft(b->step, at, &b->err));
    if (!failed(b))
        said(b, sb_gpu_step_logits(b->step, 0, b->got, &b->err));
    same_floats(b, "the logits of draft", at, b->want, b->V);
    if (failed(b))
        return;
    b->tokens[at + 1] = sb_greedy(b->want, b->V);
    said(b, sb_gpu_step_tokens(b->step, tokens, at + 2, &b->err));
    if (!failed(b) && memcmp(tokens, b->tokens, (at + 2) * sizeof *tokens) != 0)
        differ(b, "the tokens before draft", at);
}

/* Gives drafts from the host: any tokens, because the right drafts are not known. */
static void give(both *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        b->tokens[1 + b->drafts + i] = (uint32_t)((b->drawn++ * 31 + 5) % b->V);
    said(b, sb_gpu_step_put(b->step, b->drafts, b->tokens + 1 + b->drafts, n, &b->err));
    b->drafts += n;
}

static void verify(both *b)
{
    const size_t n = b->drafts + 1;
    uint32_t tokens[SB_STEP_SLOTS];
    memcpy(tokens, b->tokens, sizeof tokens);
    said(b, sb_session_verify(b->session, b->tokens, n, SB_ROLLBACK_snapshots, &b->err));
    said(b, sb_gpu_step_run(b->step, n, &b->err));
    same_rows(b, n);
    memcpy(b->tokens, tokens, sizeof tokens);
    b->drafts = n - 1;
}

/* Keeps `kept` rows of a verify; 0: those with right drafts. */
static void keep(both *b, size_t kept)
{
    uint32_t picked[SB_STEP_SLOTS] = {0};
    size_t found = 0;
    said(b, sb_gpu_step_picked(b->step, picked, b->drafts + 1, &b->err));
    const int accepts = kept == 0;
    for (kept += (size_t)accepts; accepts && kept <= b->drafts; kept++)
        if (b->tokens[kept] != picked[kept - 1])
            break;
    said(b, sb_session_keep(b->session, kept, &b->err));
    said(b,
         accepts ? sb_gpu_step_accept(b->step, &b->err) : sb_gpu_step_keep(b->step, kept, &b->err));
    if (!failed(b))
        said(b, sb_gpu_step_kept(b->step, &found, &b->err));
    if (!failed(b) && found != kept)
        differ(b, "the number kept", kept);
    same_state(b);
    b->tokens[0] = picked[kept - 1];
    b->drafts = 0;
}

/* Plays words: p5 a prompt of 5 tokens, d a decode step, m3 drafts of the head, g2 drafts of the
 * host, v a verify of the token and its drafts, k2 keeps 2 rows of it, a keeps those with right
 * drafts, s seals. Only `make check-all` plays the words after a bar. Returns the difference, or
 * NULL. */
static const char *play(both *b)
{
    const char *at = b->script->words;
    while (*at && !failed(b)) {
        char *end;
        const char word = *at++;
        const size_t n = strtoul(at, &end, 10);
        at = end + (*end == ' ');
        if (word == '|' && !check_all())
            break;
        if (word == 'p')
            prompt(b, n);
        else if (word == 'd')
            decode(b);
        else if (word == 'g')
            give(b, n);
        else if (word == 'v')
            verify(b);
        else if (word == 's')
            sb_gpu_step_seal(b->step, 1);
        else if (word == 'm')
            for (size_t i = 0; i < n && !failed(b); i++)
                draft(b);
        else if (word != '|')
            keep(b, word == 'k' ? n : 0);
        if (failed(b)) {
            const size_t length = strlen(b->why);
            snprintf(b->why + length, sizeof b->why - length, ", at \"%c%s\"", word, at);
        }
    }
    return failed(b) ? b->why : NULL;
}

/* --- the same bits ---------------------------------------------------------------------------- */
static const char plain[] = "p3 d g2 v k1 | p17 g3 v a d";

/* All presets, formats, profiles and knobs that change the launches. The last scripts go beyond the
 * 256 positions of the first bucket. A single layer is one of linear attention; the head has full
 * attention. */
static const script scripts[] = {
    {"T1", "bf16", "sm121", NULL, 4, rounds},
    {"T1", "fp8-block", "sm121-w8a8", NULL, 4, "p4 m2 v a d | m1 v k1 d"},
    {"T1", "int4-gptq", "sm121", "mtp_first=zeros mtp_hidden=residual", 4,
     "p1 d m2 v a | m1 v k1 d"},
    {"T1", "mxfp4", "sm121", "mtp_position=token mtp_recycled=residual", 4, "p2 m3 v k2 | m2 v a"},
    {"T2", "nvfp4-ct", "sm121", "kv_cache=fp8", 1, "p3 d m1 v k1 | p17 g3 v a d"},
    {"T3", "nvidia-mix", "sm121-w8a8", NULL, 4, plain},
    {"T4", "nvfp4-ct", "sm121-w4a4", NULL, 8, plain},
    {"T5", "fp8-channel", "sm121-w8a8", "delta_rule=prompt_fla l2norm_round=act_prompt", 0, plain},
    {"T6", "int8-gptq", "sm121", "delta_rule=chunk_fla", 1, "p3 d | p18 d d"},
    {"T4", "int8-gptq", "sm121", "delta_rule=chunk_fla", 0, "p3 d p18 d d"},
    {"T4", "bf16", "sm121", NULL, 0, "p40 p40 p40 p40 p40 p40 p14 d g2 v k2 g3 v a d"},
    {"T1", "bf16", "sm121", "kv_cache=fp8", 4, "| p40 p40 p40 p40 p40 p40 p15 m1 v k1 m2 v a d"},
};

TEST(test_bits)
{
    sb_backend_emu_history(0);
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        both b;
        if (left_out(&scripts[i]))
            continue;
        open_both(&b, &scripts[i]);
        const char *found = play(&b);
        if (found)
            fail_msg("%s %s %s: %s", scripts[i].preset, scripts[i].format, scripts[i].profile,
                     found);
        close_both(&b);
    }
}

/* Y-74: after a first call of each kind, nothing is uploaded, fetched or allocated between the
 * first launch and the last. Before that, the error names what would be. */
TEST(test_sealed)
{
    static const script rows[] = {
        {"T1", "bf16", "sm121", NULL, 4, "| p2 d m2 v a s d m2 v k1 m2 v a d d"},
        {"T1", "nvfp4-ct", "sm121-w4a4", "kv_cache=fp8", 4, "p2 d p2 m2 v k2 s m2 v a d p2"},
        {"T1", "fp8-block", "sm121-w8a8", NULL, 4, "| p2 d g2 v a s d g2 v k1 d"}};
    const script cold = {"T4", "bf16", "sm121", NULL, 0, "p2 d s g1 v"};
    both b;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (left_out(&rows[i]))
            continue;
        open_both(&b, &rows[i]);
        const char *found = play(&b);
        if (found)
            fail_msg("%s %s: %s", rows[i].format, rows[i].profile, found);
        close_both(&b);
    }
    open_both(&b, &cold);
    const char *found = play(&b);
    if (!found || !strstr(found, "there is no memory for partial"))
        fail_msg("%s", found ? found : "nothing was refused");
    close_both(&b);
}

/* With the search for races (Y-6), in several orders of threads and blocks. */
TEST(test_history)
{
    static const script rows[] = {{"T4", "bf16", "sm121", NULL, 0, "p3 d g1 v k1 d"},
                                  {"T4", "nvfp4-ct", "sm121-w4a4", NULL, 0, "p2 d g1 v a"}};
    sb_backend_emu_history(1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        both b;
        sb_backend_emu_seed(i + 1);
        open_both(&b, &rows[i]);
        const char *found = play(&b);
        if (found)
            fail_msg("%s", found);
        close_both(&b);
    }
    sb_backend_emu_seed(0);
    sb_backend_emu_history(0);
}

/* --- detection of faults ---------------------------------------------------------------------- */
/* Y-75: "so is a read of a position that no call has written". That stops the second fault; the
 * others change the bits. */
TEST(test_faults)
{
    static const struct {
        const char *plant, *words, *said;
    } rows[] = {{"slot_first", "p3 d g2 v k3 d", "the hidden vector of row 0"},
                {"step_kept", "p3 g2 v k1 d", "the state of row 5"},
                {"kv_first", "p3 d", "of buffer cache of keys"},
                {"step_position", "p3 d", "the state of row 0"},
                {"step_slot", "p3 d", "the state of row 3"},
                {"step_token", "p3 d", "the hidden vector of row 0"}};
    sb_backend_emu_history(0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        script s = {"T4", "bf16", "sm121", NULL, 0, rows[i].words};
        both b;
        const int again = i > 0 && strcmp(rows[i].words, rows[i - 1].words) == 0;
        for (int planted = again; planted < 2; planted++) { /* once without a fault */
            open_both(&b, &s);
            sb_gpu_plant(planted ? rows[i].plant : NULL);
            const char *found = play(&b);
            sb_gpu_plant(NULL);
            if (planted ? !found || !strstr(found, rows[i].said) : found != NULL)
                fail_msg("%s: %s", rows[i].plant, found ? found : "not seen");
            close_both(&b);
        }
    }
}
