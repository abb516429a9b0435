/* request.h - what a run is asked for: the options that run and golden share, checked, and the same
 * as JSON, so that a golden file can repeat it. */
#ifndef SB_CLI_REQUEST_H
#define SB_CLI_REQUEST_H

#include <jansson.h>

#include "ref/ops/knobs.h"
#include "ref/run/round.h"
#include "tools/cli/opts.h"
#include "tools/cli/prompt.h"

/* sb_request_opts is the table of the options that fill in the first part, sb_request_check makes
 * the second part of it. */
typedef struct sb_request {
    const char *tokens, *tokens_file, *prompt, *profile, *backend, *logits_file;
    const char *state_in, *state_out, *trace, *taps;           /* of run alone: its options */
    const char *draft_file;                                    /* likewise */
    const char *draft, *force_accept, *accept_mode, *rollback; /* NULL: not given */
    sb_repeated settings;
    uint64_t generate; /* -n */
    uint64_t threads;
    uint64_t seed, top_k;
    float temperature, top_p, min_p;

    sb_tokenizer *tokenizer; /* of --prompt; NULL: ids came in */
    sb_sequence *sequences;
    size_t sequence_count;
    const sb_backend *engine; /* of --backend */
    sb_knobs knobs;
    sb_sequence drafts; /* per round, over and over; none: not speculative */
    sb_sequence *given; /* of --draft-file, per round, over and over; NULL: the head drafts */
    size_t given_count;
    sb_sequence forced;      /* likewise how many are accepted; none: what the rows say */
    sb_round_options rounds; /* but for `sampling` */
    sb_sampling sampling;    /* but for `sequence` */
} sb_request;

enum { SB_REQUEST_OPTS = 18 };
void sb_request_opts(sb_request *request, sb_opt opts[SB_REQUEST_OPTS]);

/* Reads tokens and patterns, resolves the profile, tokenizes as the checkpoint folder says;
 * SB_ERR_USAGE or SB_ERR_INPUT says what does not fit. Release with sb_request_free also where it
 * fails. */
sb_status sb_request_check(sb_request *request, const char *folder, sb_error *err);
void sb_request_free(sb_request *request);

/* All of that but the prompts and --threads: what a request from JSON still needs. */
sb_status sb_request_check_settings(sb_request *request, sb_error *err);

/* The words of --accept-mode and --rollback that were chosen. */
const char *sb_request_mode(const sb_request *request);
const char *sb_request_way(const sb_request *request);

/* Item `round` of a pattern, which begins anew behind its end; `none` if there is no pattern. */
int sb_pattern_at(const sb_sequence *pattern, size_t round, int none);

/* The drafts that --draft-file has for a round; NULL: there is no such file. */
const uint32_t *sb_request_given(const sb_request *request, size_t round);

/* What decides the result, in a fixed order; and a request from it, whose text lives as long as
 * `stored`. `path` names the file in messages. */
json_t *sb_request_json(const sb_request *request);
sb_status sb_request_from_json(const json_t *stored, const char *path, sb_request *request,
                               sb_error *err);

/* {"profile": "exact", "knobs": {"act": "f32", ...}, "sampling": {...}}, and with --draft how, are
 * added to a document. Nonzero if memory is out. */
int sb_request_describe(const sb_request *request, json_t *document);

#endif
