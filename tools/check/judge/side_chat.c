/* side_chat.c - check 51: the chat template, which may be in one of several places. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/file.h"
#include "tools/check/judge/side_files.h"
#include "tools/check/judge/side_template.h"

static int has_template(const char *folder, const json_t *tokenizer_config)
{
    const json_t *key = json_object_get(tokenizer_config, "chat_template");
    return sb_side_exists(folder, "chat_template.jinja") ||
           sb_side_exists(folder, "chat_template.json") ||
           sb_side_exists(folder, "chat_templates") || (key && !json_is_null(key));
}

/* The template that transformers renders: a separate file has priority over the key. NULL: there is
 * none, or several with names. The caller frees it. */
static char *template_of(sb_check *check, const char *folder, const json_t *config,
                         const char **where)
{
    unsigned char *bytes = NULL;
    size_t count = 0;
    sb_error unused;
    const char *key = json_string_value(json_object_get(config, "chat_template"));
    char *path = sb_path_join(folder, "chat_template.jinja"), *text = NULL;
    *where = "chat_template.jinja";
    if (!path)
        check->findings.lost = 1;
    else if (sb_side_exists(folder, "chat_template.jinja")) {
        if (sb_read_file(path, 1 << 24, &bytes, &count, &unused) == SB_OK) {
            text = sb_alloc(count + 1, 1);
            if (text)
                memcpy(text, bytes, count);
            check->findings.lost |= !text;
            free(bytes);
        }
    } else if (key) {
        *where = "tokenizer_config.json: chat_template";
        text = sb_strdup(key);
        check->findings.lost |= !text;
    }
    free(path);
    return text;
}

/* Compares without white space at the end. */
static int is_same(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    while (n && strchr(" \r\n", a[n - 1]))
        n--;
    while (m && strchr(" \r\n", b[m - 1]))
        m--;
    return n == m && memcmp(a, b, n) == 0;
}

/* V-151: "A chat template" */
void sb_side_chat(sb_check *check, const char *folder, const char *original,
                  const sb_side_trees *trees)
{
    const char *where, *there;
    char why[160], *text = template_of(check, folder, trees->config, &where);
    if (text) {
        check->side_files += check->side_files == 0;
        if (!sb_template_is_whole(text, why, sizeof why))
            sb_check_find(check, 51, SB_LEVEL_error, "",
                          "%s: cannot be read as a template: %s; engines refuse every chat", where,
                          why);
    }
    if (original && trees->table->json) {
        json_t *config = sb_side_json(check, original, "tokenizer_config.json", 0);
        char *other = template_of(check, original, config, &there);
        if (!has_template(folder, trees->config) && has_template(original, config))
            sb_check_find(check, 51, SB_LEVEL_warn, "",
                          "there is no chat template (chat_template.jinja, or a key of "
                          "tokenizer_config.json); the original has one");
        else if (text && other && !is_same(text, other))
            sb_check_find(check, 51, SB_LEVEL_warn, "",
                          "%s is not the template of the original: chats are written differently",
                          where);
        free(other);
        json_decref(config);
    }
    free(text);
}
