/* device_ops.c - the checks of whole models on a device; each call runs one. Used by
 * tests/device/check.sh.
 *
 *   device_ops twin FIRST SECOND PROFILE CKPT PROMPT DRAFTS   every op on both, the same bits
 *   device_ops widths BACKEND PROFILE CKPT     a row's bits are the same in calls of 1 to 9 rows
 *   device_ops rounds BACKEND PROFILE CKPT     the same tokens and state with drafts and without
 *   device_ops graphs BACKEND PROFILE CKPT     a step as graphs has the bits of its launches
 *   device_ops fused BACKEND PROFILE CKPT      a step of fused kernels has them, too
 *   device_ops repeats BACKEND PROFILE CKPT N  N runs, two at least, give the same bits
 *   device_ops layers FIRST SECOND             layers that no checkpoint has, the same bits
 *   device_ops told BACKEND PROFILE CKPT PROMPT DRAFTS   the digest of each op
 *   device_ops ways BACKEND PROFILE CKPT       op by op and every kind of step, the same bits
 *   device_ops replays BACKEND PROFILE CKPT N  N replays of fused graphs, without a wait between
 *                                              them, have the bits of independent launches
 *
 * A folder behind the words of twin gets the arrays of the first op that differs.
 *
 * The backends are those of `samebit run`. A knob may follow after a profile and a comma. Exit
 * status 0, 1, 2 for wrong use, 4 if a backend does not exist. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/gpu.h"
#include "ref/base/mem.h"
#include "ref/base/rng.h"
#include "ref/run/round.h"
#include "tests/gpu/layer_twin.h"
#include "tests/gpu/step_graphs.h"
#include "tests/gpu/step_ways.h"
#include "tests/gpu/twin.h"
#include "tools/cli/runner.h"

enum { WIDTHS = 9, MOST = 1024 };

/* A model and the backend that runs it. */
typedef struct bench {
    const sb_backend *backend;
    sb_knobs knobs;
    sb_model *model;
    sb_session *session;
    float *logits; /* (V) */
    sb_error err;
} bench;

/* PROFILE or PROFILE,KNOB=VALUE. */
static sb_status set_knobs(sb_knobs *knobs, const char *words, sb_error *err)
{
    char profile[64];
    const size_t length = strcspn(words, ",");
    snprintf(profile, sizeof profile, "%.*s", (int)length, words);
    const sb_status status = sb_knobs_profile(knobs, profile, err);
    return status || !words[length] ? status : sb_knobs_set(knobs, words + length + 1, err);
}

static sb_status begin(bench *b, const char *backend, const char *profile, const char *folder)
{
    sb_runner runner;
    sb_status status = sb_runner_find(backend, &runner, &b->err);
    b->backend = runner.backend;
    if (!status)
        status = set_knobs(&b->knobs, profile, &b->err);
    if (!status)
        status = sb_model_open(folder, &b->model, &b->err);
    if (!status) {
        b->logits = sb_alloc(b->model->config.vocab_size, sizeof *b->logits);
        status = b->logits ? SB_OK : sb_fail(&b->err, SB_ERR_MEMORY, "out of memory");
    }
    return status;
}

static void end(bench *b)
{
    sb_session_free(b->session);
    sb_gpu_forget(b->backend);
    sb_model_close(b->model);
    free(b->logits);
}

static sb_status open_session(bench *b, sb_op_hook hook, void *hook_ctx)
{
    const sb_session_options options = {.backend = b->backend,
                                        .knobs = &b->knobs,
                                        .hook = hook,
                                        .hook_ctx = hook_ctx,
                                        .hook_skips_experts = hook == told_hook,
                                        .mtp = sb_model_has_mtp(b->model)};
    sb_session_free(b->session);
    b->session = NULL;
    return sb_session_new(b->model, &options, &b->session, &b->err);
}

static void draw(const bench *b, uint32_t *tokens, size_t n)
{
    for (size_t i = 0; i < n; i++)
        tokens[i] = sb_rng_below(11, i, (uint32_t)b->model->config.vocab_size);
}

static sb_digest of_logits(const bench *b)
{
    return sb_digest_f32(b->logits, b->model->config.vocab_size);
}

/* Plays the prompt, the next token, and `count` more tokens in rounds of `drafts` drafts. *all
 * hashes every token, and the state at the end. */
static sb_status play(bench *b, size_t prompt, size_t drafts, size_t count, sb_hash *all)
{
    uint32_t tokens[MOST], token = 0;
    sb_rounds *rounds = NULL;
    sb_round round;
    sb_digest state = {""};
    draw(b, tokens, prompt);
    sb_status status = sb_session_feed(b->session, tokens, prompt, &b->err);
    if (!status)
        status = sb_session_logits(b->session, prompt - 1, b->logits, &b->err);
    if (!status)
        status = sb_rounds_new(b->session, NULL, &rounds, &b->err);
    if (!status)
        status = sb_rounds_pick(rounds, b->logits, prompt, &token, &b->err);
    for (size_t done = 0; done < count && !status; done += round.emitted) {
        const size_t k = sb_session_has_mtp(b->session) ? drafts : 0;
        const sb_round_ask ask = {.token = token, .drafts = k, .forced = -1, .limit = count - done};
        status = sb_rounds_next(rounds, &ask, &round, &b->err);
        if (status)
            break;
        sb_hash_bytes(all, round.tokens, round.emitted * sizeof *round.tokens);
        token = round.tokens[round.emitted - 1];
    }
    sb_rounds_free(rounds);
    if (!status)
        status = sb_state_digest(sb_session_state(b->session), &state, &b->err);
    sb_hash_bytes(all, state.hex, strlen(state.hex));
    return status;
}

/* --- the checks ------------------------------------------------------------------------------- */

/* Prints a result line; b->err has the error. */
static int said(const char *what, int good, const char *words)
{
    printf("[  %s ] %s: %s\n", good ? "     OK" : "FAILED ", what, words);
    return good ? 0 : 1;
}

/* The prompt and the drafts of twin and told. */
static sb_status lengths(bench *b, char **argv, size_t *prompt, size_t *drafts)
{
    *prompt = strtoul(argv[0], NULL, 10);
    *drafts = strtoul(argv[1], NULL, 10);
    return *prompt < 1 || *prompt > MOST || *drafts > SB_MAX_DRAFTS
               ? sb_fail(&b->err, SB_ERR_USAGE, "a prompt of 1 to %d tokens and at most %d drafts",
                         MOST, SB_MAX_DRAFTS)
               : SB_OK;
}

static int check_told(bench *b, char **argv)
{
    told t = {.out = stdout};
    sb_hash *all = sb_hash_new();
    size_t prompt, drafts;
    sb_status status = lengths(b, argv + 4, &prompt, &drafts);
    if (!status)
        status =
            all ? open_session(b, told_hook, &t) : sb_fail(&b->err, SB_ERR_MEMORY, "out of memory");
    if (!status)
        status = play(b, prompt, drafts, 2, all);
    if (!status)
        printf("%llu ops, tokens and state %s\n", (unsigned long long)t.calls,
               sb_hash_end(all).hex);
    sb_hash_free(all);
    return status ? sb_exit_status(status) : 0;
}

static int check_ways(bench *b)
{
    step_ways found;
    char words[300];
    const sb_status status =
        step_ways_compare(b->backend, b->model, &b->knobs, stdout, &found, &b->err);
    if (status)
        return sb_exit_status(status);
    snprintf(words, sizeof words, "%zu ways of %zu calls, %zu differ%s%s; digest %s", found.ways,
             found.calls, found.differ, *found.first ? ": " : "", found.first, found.all);
    return said("ways", !found.differ, words);
}

static int check_replays(bench *b, size_t replays)
{
    step_replays found;
    char words[200];
    const sb_status status =
        step_replays_compare(b->backend, b->model, &b->knobs, replays, &found, &b->err);
    if (status)
        return sb_exit_status(status);
    snprintf(words, sizeof words,
             "%zu replays in %zu sequences, %zu with other tokens, logits or states; digest %s",
             found.replays, found.sequences, found.differ, found.all);
    return said("replays", !found.differ, words);
}

static int check_twin(bench *b, char **argv, const char *evidence)
{
    twin t = {.first = b->backend, .evidence = evidence};
    sb_runner second;
    char words[600];
    sb_hash *all = sb_hash_new();
    size_t prompt, drafts;
    sb_status status = lengths(b, argv + 4, &prompt, &drafts);
    if (!status)
        status = sb_runner_find(argv[1], &second, &b->err);
    if (!status) {
        t.second = second.backend;
        status =
            all ? open_session(b, twin_hook, &t) : sb_fail(&b->err, SB_ERR_MEMORY, "out of memory");
    }
    if (!status)
        status = play(b, prompt, drafts, 4, all);
    sb_hash_free(all);
    sb_gpu_forget(t.second);
    if (status)
        return sb_exit_status(status);
    uint64_t calls = 0;
    for (int op = 0; op < SB_OP_COUNT; op++)
        if (sb_gpu_computes((sb_op)op, &b->knobs))
            calls += t.calls[op];
    snprintf(words, sizeof words, "%llu calls of ops with kernels, %llu values, %llu differ%s%s",
             (unsigned long long)calls, (unsigned long long)t.elements,
             (unsigned long long)t.differ, t.differ ? ": " : "", t.words);
    return said("twin", !t.differ && calls > 0, words);
}

/* Compares rows of one call with the same rows one by one, after the same state. */
static int check_widths(bench *b)
{
    enum { PROMPT = 5 };
    uint32_t tokens[PROMPT + WIDTHS];
    sb_digest alone[WIDTHS], row;
    sb_state *state = NULL;
    char words[120];
    size_t differ = 0;
    sb_status status = open_session(b, NULL, NULL);
    draw(b, tokens, PROMPT + WIDTHS);
    if (!status)
        status = sb_session_feed(b->session, tokens, PROMPT, &b->err);
    if (!status)
        status = sb_state_copy(sb_session_state(b->session), &state, &b->err);
    for (size_t i = 0; i < WIDTHS && !status; i++) {
        status =
            sb_session_verify(b->session, tokens + PROMPT + i, 1, SB_ROLLBACK_snapshots, &b->err);
        if (!status)
            status = sb_session_logits(b->session, 0, b->logits, &b->err);
        alone[i] = of_logits(b);
        if (!status)
            status = sb_session_keep(b->session, 1, &b->err);
    }
    for (size_t width = 2; width <= WIDTHS && !status; width++) {
        status = sb_session_set_state(b->session, state, &b->err);
        if (!status)
            status = sb_session_verify(b->session, tokens + PROMPT, width, SB_ROLLBACK_snapshots,
                                       &b->err);
        for (size_t i = 0; i < width && !status; i++) {
            status = sb_session_logits(b->session, i, b->logits, &b->err);
            row = of_logits(b);
            differ += strcmp(row.hex, alone[i].hex) != 0;
        }
    }
    sb_state_free(state);
    if (status)
        return sb_exit_status(status);
    snprintf(words, sizeof words, "rows of calls of 1 to %d rows, %zu with other logits", WIDTHS,
             differ);
    return said("widths", differ == 0, words);
}

/* Plays `count` times; *differ gets the number of digests that differ from the first. */
static sb_status plays(bench *b, size_t count, const size_t *drafts, size_t *differ)
{
    sb_digest first = {""}, now = {""};
    sb_status status = SB_OK;
    *differ = 0;
    for (size_t i = 0; i < count && !status; i++) {
        sb_hash *all = sb_hash_new();
        status =
            all ? open_session(b, NULL, NULL) : sb_fail(&b->err, SB_ERR_MEMORY, "out of memory");
        if (!status)
            status = play(b, 6, drafts ? drafts[i] : 3, 12, all);
        if (all)
            now = sb_hash_end(all);
        sb_hash_free(all);
        if (i == 0)
            first = now;
        *differ += strcmp(first.hex, now.hex) != 0;
    }
    return status;
}

static int check_plays(bench *b, const char *what, size_t count, const size_t *drafts)
{
    char words[120];
    size_t differ = 0;
    const sb_status status = plays(b, count, drafts, &differ);
    if (status)
        return sb_exit_status(status);
    if (drafts && !sb_session_has_mtp(b->session))
        return said(what, 0, "the model has no MTP head: nothing was drafted");
    snprintf(words, sizeof words, "%zu runs, %zu with other tokens or another state", count,
             differ);
    return said(what, differ == 0, words);
}

static int check_graphs(bench *b, int fused)
{
    const char *as = fused ? "fused" : "graphs";
    char words[160];
    step_graphs found;
    const sb_status status =
        step_graphs_compare(b->backend, b->model, &b->knobs, fused, &found, &b->err);
    if (status)
        return sb_exit_status(status);
    if (*found.first)
        snprintf(words, sizeof words, "launched and %s differ first in %s",
                 fused ? as : "as graphs", found.first);
    else
        snprintf(words, sizeof words, "%zu calls, %zu values, launched and %s the same",
                 found.calls, found.values, fused ? as : "as graphs");
    return said(as, !*found.first, words);
}

static int check_layers(bench *b, char **argv)
{
    char words[160];
    sb_runner first, second;
    layer_twin found;
    sb_status status = sb_runner_find(argv[1], &first, &b->err);
    if (!status)
        status = sb_runner_find(argv[2], &second, &b->err);
    if (!status)
        status = layer_twin_compare(first.backend, second.backend, &found, &b->err);
    if (status)
        return sb_exit_status(status);
    snprintf(words, sizeof words, "%zu calls, %zu values, %zu differ%s%s", found.calls,
             found.values, found.differ, found.differ ? ": " : "", found.first);
    sb_gpu_forget(first.backend);
    sb_gpu_forget(second.backend);
    return said("layers", !found.differ, words);
}

/* The N of repeats; 0 if invalid: with one run there is no comparison. */
static size_t repeats_of(const char *text)
{
    char *end;
    const unsigned long n = strtoul(text, &end, 10);
    return text[0] < '0' || text[0] > '9' || *end || n < 2 ? 0 : n;
}

static int run(bench *b, int argc, char **argv)
{
    static const size_t drafts[] = {0, 1, 3, 8};
    static const struct {
        const char *what;
        int least, most; /* words, with the one here */
    } checks[] = {{"twin", 7, 8},   {"told", 6, 6},    {"widths", 4, 4},
                  {"rounds", 4, 4}, {"graphs", 4, 4},  {"fused", 4, 4},
                  {"ways", 4, 4},   {"repeats", 5, 5}, {"replays", 5, 5}};
    const char *what = argv[0];
    const int twins = strcmp(what, "twin") == 0, counts = argc == 5;
    size_t i = 0;
    if (strcmp(what, "layers") == 0)
        return argc == 3 ? check_layers(b, argv) : 2;
    while (i < sizeof checks / sizeof *checks && strcmp(checks[i].what, what) != 0)
        i++;
    if (i == sizeof checks / sizeof *checks || argc < checks[i].least || argc > checks[i].most ||
        (counts && !repeats_of(argv[4])))
        return 2;
    const sb_status status = begin(b, argv[1], argv[2 + twins], argv[3 + twins]);
    /* these compare bits; the other checks also look for races */
    if (strcmp(what, "told") == 0 || strcmp(what, "ways") == 0 || strcmp(what, "replays") == 0)
        sb_backend_emu_history(0);
    if (status)
        return sb_exit_status(status);
    if (twins)
        return check_twin(b, argv + 1, argc == 8 ? argv[7] : NULL);
    if (strcmp(what, "told") == 0)
        return check_told(b, argv);
    if (strcmp(what, "widths") == 0)
        return check_widths(b);
    if (strcmp(what, "rounds") == 0)
        return check_plays(b, what, sizeof drafts / sizeof *drafts, drafts);
    if (strcmp(what, "ways") == 0)
        return check_ways(b);
    if (strcmp(what, "repeats") == 0)
        return check_plays(b, what, repeats_of(argv[4]), NULL);
    if (strcmp(what, "replays") == 0)
        return check_replays(b, repeats_of(argv[4]));
    return check_graphs(b, strcmp(what, "fused") == 0);
}

int main(int argc, char **argv)
{
    static bench b;
    const int status = argc > 3 ? run(&b, argc - 1, argv + 1) : 2;
    end(&b);
    if (*b.err.text)
        fprintf(stderr, "device_ops: %s\n", b.err.text);
    else if (status == 2)
        fprintf(stderr,
                "usage: %s twin FIRST SECOND PROFILE CKPT PROMPT DRAFTS [FOLDER]\n"
                "       %s told BACKEND PROFILE CKPT PROMPT DRAFTS\n"
                "       %s widths|rounds|graphs|fused|ways BACKEND PROFILE CKPT\n"
                "       %s repeats|replays BACKEND PROFILE CKPT N\n"
                "       %s layers FIRST SECOND\n",
                argv[0], argv[0], argv[0], argv[0], argv[0]);
    return status;
}
