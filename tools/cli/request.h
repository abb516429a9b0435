/* request.h - the request for a run: the options that run and golden share, checked, and as JSON,
 * so that a golden file can repeat the run. */
#ifndef SB_CLI_REQUEST_H
#define SB_CLI_REQUEST_H

#include <jansson.h>

#include "ref/ops/knobs.h"
#include "ref/run/round.h"
#include "tools/cli/drafter.h"
#include "tools/cli/opts.h"
#include "tools/cli/prompt.h"

/* The options in the table of sb_request_opts fill in the first part; sb_request_check derives the
 * second part. */
typedef struct sb_request {
    sb_prompts from;
    const char *profile, *backend, *logits_file;
    const char *state_in, *state_out, *trace, *taps;           /* only for run */
    int step, no_step;                                         /* only for run */
    const char *draft, *force_accept, *accept_mode, *rollback; /* NULL: not given */
    sb_repeated settings;
    sb_drafter drafter; /* its options are only for run */
    uint64_t generate;  /* -n */
    uint64_t threads;
    uint64_t seed, top_k;
    float temperature, top_p, min_p;

    sb_tokenizer *tokenizer; /* of --prompt and --text; NULL: the input was ids */
    sb_sequence *sequences;
    size_t sequence_count;
    const sb_backend *engine; /* of --backend */
    int kernels;              /* the engine is emu or gpu */
    sb_knobs knobs;
    sb_sequence drafts;      /* number of drafts per round, repeated; none: not speculative */
    sb_sequence forced;      /* accepted drafts per round, repeated; none: verified */
    sb_round_options rounds; /* all except `sampling` */
    sb_sampling sampling;    /* all except `sequence` */
} sb_request;

enum { SB_REQUEST_OPTS = 19 };
void sb_request_opts(sb_request *request, sb_opt opts[SB_REQUEST_OPTS]);

/* Reads tokens and patterns, resolves the profile, tokenizes with the tokenizer of the checkpoint
 * folder. The message of SB_ERR_USAGE or SB_ERR_INPUT names the conflict. Call sb_request_free also
 * after a failure. */
sb_status sb_request_check(sb_request *request, const char *folder, sb_error *err);
void sb_request_free(sb_request *request);

/* The same without the prompts and --threads, for a request from JSON. */
sb_status sb_request_check_settings(sb_request *request, sb_error *err);

/* The selected words of --accept-mode and --rollback. */
const char *sb_request_mode(const sb_request *request);
const char *sb_request_way(const sb_request *request);

/* True if drafts are accepted by their distributions. */
int sb_request_is_residual(const sb_request *request);

/* Item `round` of a pattern, which repeats after its end; `none` if there is no pattern. */
int sb_pattern_at(const sb_sequence *pattern, size_t round, int none);

/* sb_request_json: everything that determines the result, in a fixed order. sb_request_from_json
 * reads a request back; its texts live as long as `stored`. `path` names the file in messages. */
json_t *sb_request_json(const sb_request *request);
sb_status sb_request_from_json(const json_t *stored, const char *path, sb_request *request,
                               sb_error *err);

/* Adds {"profile": "exact", "knobs": {"act": "f32", ...}, "sampling": {...}} to a document, and the
 * drafting with --draft. Nonzero if memory is out. */
int sb_request_describe(const sb_request *request, json_t *document);

#endif
