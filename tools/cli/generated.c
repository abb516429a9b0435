#include "tools/cli/generated.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "ref/base/text.h"
#include "ref/container/json_out.h"
#include "tools/cli/acceptance.h"
#include "tools/report/part/document.h"

static sb_acceptance_counts count_rounds(const sb_generated *g)
{
    sb_acceptance_counts counts = {0};
    for (size_t i = 0; i < g->round_count; i++)
        sb_acceptance_add(&counts, &g->rounds[i]);
    return counts;
}

json_t *sb_generated_json(const sb_generated *g, const sb_tokenizer *tokenizer)
{
    json_t *digests = json_array(), *rounds = json_array();
    for (size_t i = 0; i < g->count; i++)
        SB_ADD(digests, g->logits[i].hex);
    json_t *out = json_pack("{s:o,s:o,s:{s:s,s:s?}}", "tokens", sb_ids_json(g->tokens, g->count),
                            "logits_digest", digests, "state_digest", "target", g->target.hex,
                            "mtp", g->has_mtp ? g->mtp.hex : NULL);
    if (g->has_drafter)
        SB_PUT(json_object_get(out, "state_digest"), "drafter", g->drafter.hex);
    if (g->kernels)
        SB_PUT(out, "step", json_boolean(g->stepped));
    if (g->kernels && *g->why)
        SB_PUT(out, "step_refused", g->why);
    if (tokenizer)
        SB_PUT(out, "text", sb_prompt_text(tokenizer, g->tokens, g->count));
    for (size_t i = 0; i < g->round_count && g->speculative; i++) {
        const sb_round *r = &g->rounds[i];
        json_t *row = json_object();
        SB_PUT(row, "drafted", sb_ids_json(r->drafts, r->drafted));
        if (r->tree) {
            json_t *parents = json_array(), *path = json_array();
            for (size_t k = 0; k < r->drafted; k++)
                SB_ADD(parents, r->parents[k]);
            for (size_t k = 0; k < r->accepted; k++)
                SB_ADD(path, r->path[k]);
            SB_PUT(row, "parents", parents);
            SB_PUT(row, "path", path);
        }
        SB_PUT(row, "accepted", r->accepted);
        SB_PUT(row, "emitted", sb_ids_json(r->tokens, r->emitted));
        SB_ADD(rounds, row);
    }
    if (!g->speculative) {
        json_decref(rounds);
        return out;
    }
    sb_acceptance_counts counts = count_rounds(g);
    SB_PUT(out, "rounds", rounds);
    SB_PUT(out, "acceptance", sb_acceptance_json(&counts));
    return out;
}

/* Prints the model's text on one line, with JSON escapes. */
static void print_text(json_t *text)
{
    printf("text ");
    (void)sb_json_dumpf(text, stdout, JSON_ENCODE_ANY);
    printf("\n");
    json_decref(text);
}

static void print_rounds(const sb_generated *g)
{
    for (size_t i = 0; i < g->round_count; i++) {
        const sb_round *r = &g->rounds[i];
        printf("round %zu", i);
        if (r->drafted)
            sb_ids_print(" drafted", r->drafts, r->drafted);
        for (size_t k = 0; r->tree && k < r->drafted; k++)
            printf("%s%d", k ? "," : " parents ", r->parents[k]);
        printf(" accepted %zu of %zu", r->accepted, r->depth);
        for (size_t k = 0; r->tree && k < r->accepted; k++)
            printf("%s%zu", k ? "," : " path ", r->path[k]);
        sb_ids_print(" emitted", r->tokens, r->emitted);
        printf("\n");
    }
    sb_acceptance_counts counts = count_rounds(g);
    sb_acceptance_print(&counts);
}

void sb_generated_print(const sb_generated *g, const sb_tokenizer *tokenizer)
{
    sb_ids_print("tokens", g->tokens, g->count);
    printf("\n");
    if (tokenizer)
        print_text(sb_prompt_text(tokenizer, g->tokens, g->count));
    for (size_t i = 0; i < g->count; i++)
        printf("logits %zu %s\n", i, g->logits[i].hex);
    printf("state target %s after %" PRIu64 " position%s\n", g->target.hex, g->fed, sb_s(g->fed));
    if (g->has_mtp)
        printf("state mtp %s after %" PRIu64 " %s\n", g->mtp.hex, g->entries,
               g->entries == 1 ? "entry" : "entries");
    else
        printf("state mtp none: no MTP head was run\n");
    if (g->has_drafter)
        printf("state drafter %s after %" PRIu64 " %s\n", g->drafter.hex, g->drafter_entries,
               g->drafter_entries == 1 ? "entry" : "entries");
    if (g->speculative)
        print_rounds(g);
}
