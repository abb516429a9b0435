/* prompt.h - text input and output with the tokenizer of a checkpoint folder. */
#ifndef SB_CLI_PROMPT_H
#define SB_CLI_PROMPT_H

#include "tools/cli/opts.h"
#include "tools/cli/tokens.h"
#include "tools/text/tokenizer.h"

/* The options that give a command its token ids; NULL: not given. */
typedef struct sb_prompts {
    const char *tokens, *tokens_file; /* ids: one list, or a file with one list per line */
    const char *prompt, *text;        /* text: itself, or the name of a file; one sequence */
} sb_prompts;

/* The rows of these options. `what` is a literal, such as "the prompt". */
#define SB_PROMPT_OPTS(from, what)                                                                 \
    {"tokens", 0, SB_OPT_STRING, &(from)->tokens, "1,2,3", what " as token ids"},                  \
        {"tokens-file",        0,   SB_OPT_INPUT,                                                  \
         &(from)->tokens_file, "F", "token ids from a file, one sequence per line"},               \
        {"prompt",        0,      SB_OPT_STRING,                                                   \
         &(from)->prompt, "TEXT", what " as text (needs tokenizer.json in CKPT)"},                 \
    {                                                                                              \
        "text", 0, SB_OPT_INPUT, &(from)->text, "F", "the same text, read from a file (UTF-8)"     \
    }

/* The number of options that were given. */
int sb_prompts_given(const sb_prompts *from);

/* SB_ERR_USAGE unless exactly one was given. */
sb_status sb_prompts_check(const sb_prompts *from, sb_error *err);

/* A name for messages: of the file, or "--tokens" or "--prompt". */
const char *sb_prompts_name(const sb_prompts *from);

/* The sequences of the option that was given. folder: where the tokenizer is; NULL: text is an
 * error. If text was given, *tokenizer (may be NULL) becomes the tokenizer, else NULL. The caller
 * frees everything also after a failure. */
sb_status sb_prompts_read(const sb_prompts *from, const char *folder, sb_tokenizer **tokenizer,
                          sb_sequence **out, size_t *count, sb_error *err);

/* Checks that there are ids and all are in the vocabulary of the model. */
sb_status sb_prompts_check_ids(const sb_prompts *from, const sb_sequence *items, size_t count,
                               uint32_t vocabulary, sb_error *err);

/* The tokenizer.json of a folder, or of the path of a .json file. */
sb_status sb_prompt_tokenizer(const char *path, sb_tokenizer **out, sb_error *err);

/* The text of ids as a JSON string. A byte that is part of no character becomes U+FFFD; an id
 * without a token gives nothing. NULL if memory is out. */
json_t *sb_prompt_text(const sb_tokenizer *tokenizer, const uint32_t *ids, size_t count);

#endif
