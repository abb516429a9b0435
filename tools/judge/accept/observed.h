/* observed.h - an engine's counters, converted to one definition.
 *
 * Three forms are recognised by their content: vLLM's metrics in the text form of Prometheus, and
 * the JSON responses of SGLang and of llama-server. See docs/accept.md. The file is untrusted:
 * sizes are limited and everything is checked. */
#ifndef SB_ACCEPT_OBSERVED_H
#define SB_ACCEPT_OBSERVED_H

#include <stddef.h>
#include <stdint.h>

#include "ref/base/status.h"

typedef enum sb_engine { SB_ENGINE_vllm, SB_ENGINE_sglang, SB_ENGINE_llama } sb_engine;

const char *sb_engine_name(sb_engine engine); /* "vLLM" */

enum {
    SB_OBSERVED_DEPTHS = 64,
    SB_OBSERVED_PARTS = 100000,      /* requests, or series of a metric */
    SB_OBSERVED_MAX_BYTES = 64 << 20 /* of the file */
};
#define SB_OBSERVED_MAX_COUNT (UINT64_C(1) << 48) /* limit of counts and of their sums */

/* Sums over all parts. `accepted` never counts the bonus token, even if the engine does. */
typedef struct sb_observed {
    sb_engine engine;
    size_t parts; /* requests, or series of one metric */
    int has_rounds, has_drafted, has_accepted, has_emitted;
    uint64_t rounds;                       /* rounds with drafts */
    uint64_t drafted;                      /* tokens */
    uint64_t accepted;                     /* accepted drafts */
    uint64_t emitted;                      /* tokens of the responses */
    size_t depths;                         /* known entries of by_depth, 0: none */
    uint64_t by_depth[SB_OBSERVED_DEPTHS]; /* [j]: rounds that accepted more than j drafts */
    int has_rate;
    double accepted_share; /* E-12: the sum of rounds times accepted / drafted */
} sb_observed;

/* file: the text's name in messages. SB_ERR_INPUT: none of the three forms, or counters that
 * contradict each other. A missing counter is no error. */
sb_status sb_observed_parse(const char *text, size_t n, const char *file, sb_observed *out,
                            sb_error *err);
sb_status sb_observed_load(const char *path, sb_observed *out, sb_error *err);

#endif
