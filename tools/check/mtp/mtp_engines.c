/* mtp_engines.c - engines by the names that users type, and the commands that fetch their
 * counters. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "tools/check/mtp/mtp_parts.h"
#include "tools/check/read/word.h"

/* docs/accept.md lists the engines whose counters are read, and the formats. vmlx-swift runs on
 * MLX. */
static const sb_mtp_engine engines[] = {
    {"vllm", {"vLLM", NULL}, "curl -s http://HOST:PORT/metrics > metrics.txt"},
    {"sglang",
     {"SGLang", NULL},
     "curl -s http://HOST:PORT/generate -d '{...}' | jq -s . > metrics.txt"},
    {"llamacpp",
     {"llama.cpp", NULL},
     "curl -s http://HOST:PORT/completion -d '{...}' | jq -s . > metrics.txt"},
    {"ollama", {"Ollama", NULL}, NULL},
    {"mlx", {"vmlx-swift", NULL}, NULL},
    {"vmlx-swift", {"vmlx-swift", NULL}, NULL},
    {"imp", {"imp", NULL}, NULL},
};

enum { ENGINES = sizeof engines / sizeof *engines };

/* The next letter or digit, in lower case; 0 at the end. */
static int next_of(const char **at)
{
    while (**at && !isalnum((unsigned char)**at))
        ++*at;
    return **at ? tolower((unsigned char)*(*at)++) : 0;
}

static int is_called(const char *name, const char *asked)
{
    int a, b;
    do {
        a = next_of(&name);
        b = next_of(&asked);
    } while (a && a == b);
    return a == b;
}

const sb_mtp_engine *sb_mtp_engine_named(const char *name)
{
    for (size_t i = 0; i < ENGINES; i++)
        if (is_called(engines[i].name, name))
            return &engines[i];
    return NULL;
}

void sb_mtp_engine_names(char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < ENGINES && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "", engines[i].name);
}

/* For an engine without readable counters, the commands for vLLM are still useful. */
void sb_mtp_fill_settle(const char *path, sb_mtp_audit *audit)
{
    const char *fetch = audit->engine ? audit->engine->fetch : engines[0].fetch;
    if (fetch)
        snprintf(audit->settle[0], sizeof audit->settle[0], "%s", fetch);
    snprintf(audit->settle[fetch != NULL], sizeof audit->settle[0],
             "samebit accept %s --tokens-file TEXT -K DRAFTS%s", SB_WORD(path),
             fetch ? " --observed metrics.txt" : "");
}
