/* drafter_target.c - check 60: does the drafter fit the target, and what does it share with it? */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/show.h"
#include "ref/formats/wide.h"
#include "tools/check/judge/config_trees.h"
#include "tools/check/judge/drafter.h"
#include "tools/check/judge/token_table.h"

/* --- sizes ------------------------------------------------------------------------------------ */

/* V-160: "The sizes of config.json are those of the target" */
static int fits(sb_check *check)
{
    const sb_eagle3_config *c = &check->self.drafter;
    const sb_config *t = &check->target.config;
    const int hidden = c->target_hidden == t->hidden_size,
              vocab = c->layer.vocab_size == t->vocab_size;
    if (!hidden)
        sb_check_find(check, 60, SB_LEVEL_fatal, "",
                      "config.json: the states have %u values by target_hidden_size, which is "
                      "hidden_size where it is absent; those of the target have %u",
                      (unsigned)c->target_hidden, (unsigned)t->hidden_size);
    if (!vocab)
        sb_check_find(check, 60, SB_LEVEL_fatal, "",
                      "config.json: vocab_size is %u, and the target's is %u: ids of tokens and "
                      "d2t are of another vocabulary",
                      (unsigned)c->layer.vocab_size, (unsigned)t->vocab_size);
    return hidden && vocab;
}

/* V-160: "The target must have every tensor that the drafter takes from it" */
static void tell_lacking(sb_check *check)
{
    const sb_eagle3_config *c = &check->self.drafter;
    const uint32_t H = c->layer.hidden_size, Ht = check->target.config.hidden_size;
    static const char *const names[] = {"embed_tokens.weight", "lm_head.weight"};
    for (size_t i = 0; i < sizeof names / sizeof *names && H != Ht; i++)
        if (!sb_drafter_tensor(check, names[i]))
            sb_check_find(check, 60, SB_LEVEL_fatal, names[i],
                          "is missing, and the target's has rows of %u values, expected %u",
                          (unsigned)Ht, (unsigned)H);
}

/* --- embedding -------------------------------------------------------------------------------- */

/* A matrix of the target, whatever its prefix and format; 0: it has none that can be read. */
static int matrix_of(const sb_check *check, const char *plain, sb_matrix *out)
{
    char name[SB_NAME_MAX];
    const sb_units *u = &check->target.units;
    const sb_member *m = sb_member_plain(u, plain);
    if (m)
        *out = m->matrix;
    if (m)
        return 1;
    snprintf(name, sizeof name, "%s%s.weight", u->prefix, plain);
    const sb_tensor *t = sb_checkpoint_find(check->target.checkpoint, name);
    return t && sb_tensor_matrix(t, out);
}

/* 1 if both rows are equal, but for a rounding to the other type. */
static int is_same_row(const double *x, const double *y, uint32_t cols)
{
    for (uint32_t k = 0; k < cols; k++) {
        const double size = y[k] < 0 ? -y[k] : y[k], off = x[k] < y[k] ? y[k] - x[k] : x[k] - y[k];
        if (!(off <= size * 0x1p-8 + 0x1p-24)) /* a step of BF16; the least number of F16 */
            return 0;
    }
    return 1;
}

typedef struct compared {
    uint64_t rows, differ, shifted; /* shifted: equal to a row beside it */
    uint64_t first;
} compared;

static void compare_row(compared *c, const sb_matrix *own, const sb_matrix *theirs, uint32_t row,
                        double *x, double *y)
{
    sb_matrix_wide(own, row, x);
    sb_matrix_wide(theirs, row, y);
    c->rows++;
    if (is_same_row(x, y, own->cols))
        return;
    c->first = c->differ++ ? c->first : row;
    for (int beside = -1; beside <= 1; beside += 2) {
        const int64_t at = (int64_t)row + beside;
        if (at < 0 || at >= theirs->rows)
            continue;
        sb_matrix_wide(theirs, (uint32_t)at, y);
        if (is_same_row(x, y, own->cols)) {
            c->shifted++;
            return;
        }
    }
}

/* V-160: "If the drafter has an embedding": the same as the target's, another one, or damaged. */
static void tell_embedding(sb_check *check, const compared *c)
{
    static const char name[] = "embed_tokens.weight";
    if (!c->differ)
        sb_check_find(check, 60, SB_LEVEL_info, name, "is the target's, in all %" PRIu64 " rows",
                      c->rows);
    else if (c->shifted * 2 > c->rows)
        sb_check_find(check, 60, SB_LEVEL_error, name,
                      "has in %" PRIu64 " of %" PRIu64 " rows the target's row beside it: the "
                      "rows are shifted",
                      c->shifted, c->rows);
    else if (c->differ * 2 >= c->rows)
        sb_check_find(check, 60, SB_LEVEL_info, name,
                      "is its own: %" PRIu64 " of %" PRIu64 " rows differ from the target's. vLLM, "
                      "llama.cpp and samebit read it, SGLang reads the target's",
                      c->differ, c->rows);
    else
        sb_check_find(check, 60, SB_LEVEL_warn, name,
                      "is the target's but for %" PRIu64 " of %" PRIu64 " rows, first row %" PRIu64
                      ": these are damaged, or only they were trained",
                      c->differ, c->rows, c->first);
}

static void judge_embedding(sb_check *check)
{
    const sb_tensor *t = sb_drafter_tensor(check, "embed_tokens.weight");
    sb_matrix own, theirs;
    compared c = {0};
    if (!t || check->options->headers_only || !sb_tensor_matrix(t, &own) ||
        !matrix_of(check, "embed_tokens", &theirs) || own.rows != theirs.rows ||
        own.cols != theirs.cols)
        return;
    double *x = sb_alloc(2 * (size_t)own.cols, sizeof *x);
    check->findings.lost |= !x;
    for (uint32_t row = 0; x && row < own.rows; row++)
        compare_row(&c, &own, &theirs, row, x, x + own.cols);
    if (x)
        tell_embedding(check, &c);
    free(x);
}

/* --- tokens ----------------------------------------------------------------------------------- */

static int drafts(const uint32_t *ids, uint32_t n, json_int_t id)
{
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] == id)
            return 1;
    return 0;
}

/* V-160: "An end of text that is never drafted" */
static void tell_ends(sb_check *check, const uint32_t *ids, uint32_t n)
{
    sb_config_trees trees;
    if (sb_config_trees_load(check->target.checkpoint, &trees)) {
        const json_t *eos = sb_value_get(trees.text, "eos_token_id");
        eos = eos ? eos : sb_value_get(trees.root, "eos_token_id");
        const json_t *one = json_is_array(eos) ? json_array_get(eos, 0) : eos;
        if (json_is_integer(one) && !drafts(ids, n, json_integer_value(one)))
            sb_check_find(check, 60, SB_LEVEL_info, "",
                          "token %lld, which ends a text, is not among the %u tokens that are "
                          "drafted: an end is never accepted as a draft",
                          (long long)json_integer_value(one), (unsigned)n);
    }
    sb_config_trees_free(&trees);
}

/* V-160: "Tokens that the tokenizer does not have" */
static void tell_absent(sb_check *check, const uint32_t *ids, uint32_t n)
{
    sb_token_table table;
    sb_error why;
    uint32_t absent = 0, first = 0;
    const char *folder = sb_checkpoint_folder(check->target.checkpoint);
    const sb_status status = sb_token_table_load(folder, &table, &why);
    check->findings.lost |= status == SB_ERR_MEMORY;
    if (!status && table.json)
        for (uint32_t i = 0; i < n; i++)
            if (!sb_token_of_id(&table, ids[i])) {
                first = absent ? first : ids[i];
                absent++;
            }
    if (absent)
        sb_check_find(check, 60, n == check->self.config.vocab_size ? SB_LEVEL_info : SB_LEVEL_warn,
                      "d2t",
                      "%u of %u tokens that are drafted are not in the target's tokenizer, the "
                      "first is %u: these rows of the head are wasted, or the map is of another "
                      "tokenizer",
                      (unsigned)absent, (unsigned)n, (unsigned)first);
    sb_token_table_free(&table);
}

/* --- configuration ---------------------------------------------------------------------------- */

/* "Qwen3_5" of "Qwen3_5ForCausalLM": the same for the text and the vision-language form. */
static size_t stem_of(const char *architecture)
{
    const char *end = strstr(architecture, "For");
    return end ? (size_t)(end - architecture) : strlen(architecture);
}

static int has_name(const json_t *list, const char *name)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *x = json_string_value(json_array_get(list, i));
        if (x && stem_of(x) == stem_of(name) && strncmp(x, name, stem_of(x)) == 0)
            return 1;
    }
    return 0;
}

static void tell_config(sb_check *check, const sb_config_trees *own, const sb_config_trees *theirs)
{
    const json_t *a = sb_tree_text(own, "max_position_embeddings");
    const json_t *b = sb_tree_text(theirs, "max_position_embeddings");
    const json_t *verifier = sb_value_get(
        sb_value_get(sb_value_get(own->root, "speculators_config"), "verifier"), "architectures");
    const json_t *list = sb_value_get(theirs->root, "architectures");
    const char *name = json_string_value(json_array_get(list, 0));
    sb_value_text shown;
    /* V-160: "Positions beyond those of the training" */
    if (json_is_integer(a) && json_is_integer(b) && json_integer_value(a) < json_integer_value(b))
        sb_check_find(check, 60, SB_LEVEL_info, "",
                      "config.json: max_position_embeddings is %lld, and the target's %lld: older "
                      "engines read beyond the table of rotations, and drafts get worse there",
                      (long long)json_integer_value(a), (long long)json_integer_value(b));
    if (json_array_size(verifier) && name && !has_name(verifier, name))
        sb_check_find(check, 60, SB_LEVEL_info, "",
                      "config.json: the verifier is %s, and this target is %s",
                      sb_value_show(verifier, &shown), SB_SHOW(name));
}

void sb_check_drafter_target(sb_check *check)
{
    sb_config_trees own, theirs;
    if (!check->target.checkpoint || !check->self.has_config || !sb_check_wanted(check, 60))
        return;
    const int both = sb_config_trees_load(check->self.checkpoint, &own);
    if (sb_config_trees_load(check->target.checkpoint, &theirs) && both)
        tell_config(check, &own, &theirs);
    sb_config_trees_free(&own);
    sb_config_trees_free(&theirs);
    if (!fits(check))
        return;
    tell_lacking(check);
    judge_embedding(check);
    const uint32_t n = check->self.drafter.draft_vocab;
    uint32_t *ids = check->options->headers_only ? NULL : sb_drafter_tokens(check);
    if (ids) {
        tell_absent(check, ids, n);
        tell_ends(check, ids, n);
    }
    free(ids);
}
