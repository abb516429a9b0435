/* generated.h - what a run prints of a sequence: text, and JSON. */
#ifndef SB_CLI_GENERATED_H
#define SB_CLI_GENERATED_H

#include <jansson.h>

#include "tools/cli/generate.h"

/* {"tokens": [...], "logits_digest": [...], "state_digest": {"target": ..., "mtp": ...}}, and of a
 * speculative run "rounds" and "acceptance", and with a tokenizer, which may be NULL, "text". */
json_t *sb_generated_json(const sb_generated *generated, const sb_tokenizer *tokenizer);

void sb_generated_print(const sb_generated *generated, const sb_tokenizer *tokenizer);

#endif
