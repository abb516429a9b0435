/* generate.h - a run as run and golden do it: prompt in one call, then greedy tokens one by one. */
#ifndef SB_CLI_GENERATE_H
#define SB_CLI_GENERATE_H

#include <jansson.h>

#include "ref/ops/knobs.h"
#include "ref/run/session.h"
#include "tools/cli/opts.h"

typedef struct sb_sequence {
    uint32_t *ids;
    size_t count;
} sb_sequence;

/* What the options of a run say. sb_request_opts is the table of the options that fill it in. */
typedef struct sb_request {
    const char *tokens, *tokens_file, *profile, *backend, *logits_file;
    sb_repeated settings;
    uint64_t generate; /* -n */
    uint64_t threads;
    sb_sequence *sequences; /* filled in by sb_request_check */
    size_t sequence_count;
    sb_knobs knobs; /* likewise */
} sb_request;

enum { SB_REQUEST_OPTS = 8 };
void sb_request_opts(sb_request *request, sb_opt opts[SB_REQUEST_OPTS]);

/* Reads tokens, resolves the profile; SB_ERR_USAGE or SB_ERR_INPUT says what does not fit. */
sb_status sb_request_check(sb_request *request, sb_error *err);
void sb_request_free(sb_request *request);

/* What one sequence gave. */
typedef struct sb_generated {
    uint32_t *tokens;  /* (generate) */
    sb_digest *logits; /* (generate) the logits each was drawn from */
    size_t count;
    sb_digest target; /* state after all tokens but the last have been fed */
    uint64_t fed;     /* positions in that state */
} sb_generated;

/* Runs one sequence of the request. */
sb_status sb_generate(const sb_model *model, const sb_request *request, const sb_sequence *prompt,
                      sb_generated *out, sb_error *err);
void sb_generated_free(sb_generated *generated);

/* {"tokens": [...], "logits_digest": [...], "state_digest": {"target": ..., "mtp": null}} */
json_t *sb_generated_json(const sb_generated *generated);

/* {"profile": "exact", "knobs": {"act": "f32", ...}}, added to a document. */
int sb_knobs_json(json_t *document, const sb_request *request);

#endif
