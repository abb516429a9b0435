/* observed.h - what an engine counted, brought to one definition.
 *
 * Three forms are known, by their content: the metrics of vLLM in Prometheus' text form, the
 * responses of SGLang and those of llama-server in JSON. Documented in docs/accept.md. The file may
 * be anything: sizes are limited and nothing is believed. */
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
#define SB_OBSERVED_MAX_COUNT (UINT64_C(1) << 48) /* a count, and every sum of them */

/* Sums over all parts. Without the bonus token, whatever the engine calls accepted. */
typedef struct sb_observed {
    sb_engine engine;
    size_t parts; /* requests, or series of one metric */
    int has_rounds, has_drafted, has_accepted, has_emitted;
    uint64_t rounds;                       /* that had drafts */
    uint64_t drafted;                      /* tokens */
    uint64_t accepted;                     /* of them */
    uint64_t emitted;                      /* tokens of the responses */
    size_t depths;                         /* positions of by_depth that are known, 0: none */
    uint64_t by_depth[SB_OBSERVED_DEPTHS]; /* rounds that accepted so many drafts or more */
    int has_rate;
    double accepted_share; /* the sum of rounds times accepted / drafted: E-12 */
} sb_observed;

/* `file` names the text in messages. SB_ERR_INPUT: it is none of the three, or its counters
 * contradict each other. A counter that is not there is no error. */
sb_status sb_observed_parse(const char *text, size_t n, const char *file, sb_observed *out,
                            sb_error *err);
sb_status sb_observed_load(const char *path, sb_observed *out, sb_error *err);

#endif
