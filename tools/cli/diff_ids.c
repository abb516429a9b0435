#include "tools/cli/diff_ids.h"

#include <stdlib.h>

#include "ref/base/mem.h"
#include "ref/container/show.h"
#include "tools/cli/tokens.h"

/* The sequences of both sides; without a second file, both are the first file's. */
typedef struct lists {
    sb_sequence *items[2];
    size_t count[2];
} lists;

static sb_status load(const char *const path[2], lists *l, sb_error *err)
{
    sb_status status = SB_OK;
    for (int side = 0; side < 2 && path[side] && !status; side++)
        status = sb_tokens_load(path[side], &l->items[side], &l->count[side], err);
    if (!status && path[1] && l->count[0] != l->count[1])
        status = sb_fail(err, SB_ERR_INPUT, "%s has %zu sequences, %s has %zu", SB_SHOW(path[0]),
                         l->count[0], SB_SHOW(path[1]), l->count[1]);
    if (!status && !l->count[0])
        status = sb_fail(err, SB_ERR_SKIPPED, "MISTRUSTED: %s has no token ids", SB_SHOW(path[0]));
    return status;
}

static sb_status compare(sb_diff_run *run, const sb_ids_options *options, const lists *l,
                         sb_error *err)
{
    size_t count = l->count[0];
    sb_ids_pair *pairs = sb_alloc(count, sizeof *pairs);
    run->pairs = sb_alloc(count, sizeof *run->pairs);
    sb_status status = pairs && run->pairs
                           ? SB_OK
                           : sb_fail(err, SB_ERR_MEMORY, "out of memory for %zu pairs", count);
    for (size_t i = 0; i < count && !status; i++)
        for (int side = 0; side < 2; side++) {
            const sb_sequence *from = l->items[side] ? l->items[side] : l->items[0];
            pairs[i].tokens[side] = from[i].ids;
            pairs[i].count[side] = from[i].count;
        }
    if (!status)
        status = sb_ids_compare(run->model, options, pairs, count, run->pairs, &run->verdicts, err);
    run->pair_count = status ? 0 : count;
    for (size_t i = 0; i < run->pair_count; i++)
        if (*run->pairs[i].words)
            sb_diff_note(run, "sequence %zu: %s", i, run->pairs[i].words);
    free(pairs);
    return status;
}

sb_status sb_diff_run_ids(sb_diff_run *run, const char *versus, uint64_t given, sb_error *err)
{
    const char *const path[2] = {run->side->spec, versus};
    sb_ids_options options = {.knobs = &run->request->knobs,
                              .perturbed = (size_t)run->perturbed,
                              .seed = run->seed,
                              .name = {path[0], versus ? versus : path[0]},
                              .prompt = (size_t)given};
    lists l = {{NULL, NULL}, {0, 0}};
    sb_status status = load(path, &l, err);
    for (int side = 0; side < 2 && path[side] && !status; side++)
        status = sb_tokens_check(path[side], l.items[side], l.count[side],
                                 run->model->config.vocab_size, err);
    if (!status)
        status = compare(run, &options, &l, err);
    run->sequences = run->steps = l.count[0];
    sb_sequences_free(l.items[0], l.count[0]);
    sb_sequences_free(l.items[1], l.count[1]);
    return status;
}
