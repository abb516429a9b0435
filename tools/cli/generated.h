/* generated.h - output of a run for one sequence: text and JSON. */
#ifndef SB_CLI_GENERATED_H
#define SB_CLI_GENERATED_H

#include <jansson.h>

#include "tools/cli/generate.h"

/* {"tokens": [...], "logits_digest": [...], "state_digest": {"target": ..., "mtp": ...}}, with
 * "rounds" and "acceptance" for a speculative run, and "text" if tokenizer is not NULL. */
json_t *sb_generated_json(const sb_generated *generated, const sb_tokenizer *tokenizer);

void sb_generated_print(const sb_generated *generated, const sb_tokenizer *tokenizer);

#endif
