/* answers.c - server answers as JSON: one document, a list of documents, or one per line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ref/base/mem.h"
#include "ref/container/map.h"
#include "ref/container/show.h"
#include "tools/dump/answers.h"
#include "tools/dump/telling.h"
#include "tools/judge/trace/trace_file.h"

enum { PEEK = 512 };

struct sb_answers {
    const char *path;
    const sb_dump_options *options;
    sb_map map; /* size 0 if the text belongs to the caller */
    const char *text;
    size_t size;
    sb_token_texts *texts;
};

/* A pass over the documents; take NULL: only checks them. */
typedef struct pass {
    sb_answers *a;
    sb_step_fn take;
    void *ctx;
    size_t documents, sequences;
    sb_error *err;
} pass;

static const sb_answer_format *const formats[] = {&sb_answer_openai, &sb_answer_llama_server,
                                                  &sb_answer_sglang};

/* --- one document ----------------------------------------------------------------------------- */

static sb_status check_experts(sb_telling *t)
{
    const sb_spoken *s = t->out;
    uint64_t rows = s->experts.count ? s->experts.items[0].shape[0] : 0;
    if (!rows || rows == s->count || rows + 1 == s->count)
        return SB_OK;
    return sb_tell_fail(t, "routed_experts has %llu rows, expected %zu, one per token",
                        (unsigned long long)rows, s->count);
}

static sb_status check_all_ids(sb_telling *t)
{
    const sb_spoken *s = t->out;
    char where[400];
    sb_status status = SB_OK;
    snprintf(where, sizeof where, "%s: document %zu", SB_SHOW(t->file), t->document);
    for (size_t i = 0; i < s->count && !status; i++) {
        size_t given = 0;
        const uint32_t *own = sb_dump_given_ids(t->options, t->sequence, &given);
        if (i < given && own[i] != s->told[i].id)
            status = sb_fail(t->err, SB_ERR_INPUT,
                             "%s: token %zu is %u, but %u in --tokens or --tokens-file", where, i,
                             (unsigned)s->told[i].id, (unsigned)own[i]);
    }
    return status;
}

static sb_status take_sequence(pass *p, const sb_answer_format *format, const json_t *document,
                               size_t i)
{
    sb_spoken spoken = {.count = 0};
    sb_telling t = {.file = p->a->path,
                    .document = p->documents,
                    .options = p->a->options,
                    .texts = &p->a->texts,
                    .sequence = p->sequences,
                    .out = &spoken,
                    .err = p->err};
    sb_status status = format->tell(&t, document, i);
    if (!status)
        status = check_all_ids(&t);
    if (!status)
        status = check_experts(&t);
    if (!status)
        sb_spoken_finish(&spoken);
    if (!status && p->take)
        status = sb_spoken_play(&spoken, (uint32_t)p->sequences, p->a->options->vocab_size, p->take,
                                p->ctx, p->err);
    sb_spoken_clear(&spoken);
    p->sequences++;
    if (!status && p->sequences >= SB_DUMP_MAX_SEQUENCES)
        status = sb_tell_fail(&t, "more than %d sequences", SB_DUMP_MAX_SEQUENCES);
    return status;
}

/* J-43: "its answer is under `response`, and in that under `body`" */
static const json_t *unwrapped(const json_t *document)
{
    const json_t *inner = sb_tell_get(document, "response");
    if (json_is_object(inner))
        document = inner;
    inner = sb_tell_get(document, "body");
    return json_is_object(inner) ? inner : document;
}

/* Refuses a document, with a hint about what the document is instead. */
static sb_status no_answer(const pass *p, const json_t *answer)
{
    const char *key = json_object_iter_key(json_object_iter((json_t *)(uintptr_t)answer));
    const char *format = json_string_value(json_object_get(answer, "format"));
    const char *hint = format && strcmp(format, SB_TRACE_FORMAT) == 0
                           ? ": this is the list of a trace; pass the trace folder instead"
                       : json_object_get(answer, "architectures")
                           ? ": this is the config.json of a checkpoint"
                           : "";
    return sb_fail(p->err, SB_ERR_INPUT,
                   "%s: document %zu: is not an answer of a server: expected choices, "
                   "completion_probabilities or meta_info, found %s%s%s%s",
                   SB_SHOW(p->a->path), p->documents, key ? "the key \"" : "none of these keys",
                   key ? SB_SHOW(key) : "", key ? "\" first" : "", hint);
}

static sb_status take_document(pass *p, const json_t *document)
{
    const json_t *answer = unwrapped(document);
    sb_status status = SB_OK;
    p->documents++;
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
        size_t n = formats[f]->sequences(answer);
        for (size_t i = 0; i < n && !status; i++)
            status = take_sequence(p, formats[f], answer, i);
        if (n)
            return status;
    }
    return no_answer(p, answer);
}

/* J-43: "a text may have the character 0; such a text counts as one that cannot be shown" - 0 would
 * end a text here. The caller frees *copy; NULL if nothing had to be changed. */
static sb_status without_zeros(const char *text, size_t size, char **copy, sb_error *err)
{
    static const char zero[] = "\\u0000", shown[] = "\\ufffd";
    size_t escape = sizeof zero - 1;
    *copy = NULL;
    for (size_t i = 0; i + escape <= size; i++) {
        if (text[i] != '\\')
            continue;
        if (memcmp(text + i, zero, escape) != 0) {
            i++; /* skips the escaped character */
            continue;
        }
        if (!*copy) {
            *copy = sb_alloc(size, 1);
            if (!*copy)
                return sb_fail(err, SB_ERR_MEMORY, "out of memory for an answer");
            memcpy(*copy, text, size);
        }
        memcpy(*copy + i, shown, escape);
    }
    return SB_OK;
}

static sb_status take_text(pass *p, const char *text, size_t size, const char *name)
{
    json_t *root = NULL;
    char *copy = NULL;
    sb_status status = without_zeros(text, size, &copy, p->err);
    if (!status)
        status = sb_json_parse_rich(copy ? copy : text, size, name, &root, p->err);
    free(copy);
    if (!status && json_is_array(root))
        for (size_t i = 0; i < json_array_size(root) && !status; i++)
            status = take_document(p, json_array_get(root, i));
    else if (!status)
        status = take_document(p, root);
    json_decref(root);
    return status;
}

/* --- the file --------------------------------------------------------------------------------- */

static size_t line_length(const char *text, size_t size)
{
    const char *end = memchr(text, '\n', size);
    return end ? (size_t)(end - text) : size;
}

static int is_blank(const char *text, size_t size)
{
    size_t i = 0;
    while (i < size && strchr(" \t\r\n", text[i]) && text[i])
        i++;
    return i == size;
}

/* True for one document per line: the first line ends like a document, and more text follows. */
static int has_lines(const char *text, size_t size)
{
    size_t n = line_length(text, size), end = n;
    while (end && strchr(" \t\r", text[end - 1]) && text[end - 1])
        end--;
    int closed = end && ((text[0] == '{' && text[end - 1] == '}') ||
                         (text[0] == '[' && text[end - 1] == ']'));
    return closed && !is_blank(text + n, size - n);
}

static sb_status run(pass *p)
{
    const char *text = p->a->text;
    size_t size = p->a->size, line = 0;
    sb_status status = SB_OK;
    if (!has_lines(text, size))
        return take_text(p, text, size, p->a->path);
    for (size_t at = 0, n; at < size && !status; at += n + 1) {
        char name[320];
        n = line_length(text + at, size - at);
        snprintf(name, sizeof name, "%s:%zu", SB_SHOW(p->a->path), ++line);
        if (!is_blank(text + at, n))
            status = take_text(p, text + at, n, name);
    }
    return status;
}

static int is_answers(const char *path)
{
    char bytes[PEEK] = "";
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return 0;
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(bytes, 1, sizeof bytes, f) : 0, i = 0;
    if (f)
        fclose(f);
    while (i < n && strchr(" \t\r\n", bytes[i]) && bytes[i])
        i++;
    return i < n && (bytes[i] == '{' || bytes[i] == '[') && !memchr(bytes, 0, n);
}

void sb_answers_free(void *state)
{
    sb_answers *a = state;
    if (!a)
        return;
    sb_token_texts_free(a->texts);
    sb_map_close(&a->map);
    free(a);
}

sb_status sb_answers_play(void *state, sb_step_fn take, void *ctx, sb_error *err)
{
    pass p = {.a = state, .take = take, .ctx = ctx, .err = err};
    return run(&p);
}

sb_status sb_answers_parse(const char *text, size_t size, const char *file,
                           const sb_dump_options *options, sb_answers **out, sb_error *err)
{
    sb_answers *a = sb_alloc(1, sizeof *a);
    if (!a)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for %s", SB_SHOW(file));
    *a = (sb_answers){.path = file, .options = options, .text = text, .size = size};
    sb_status status = sb_answers_play(a, NULL, NULL, err);
    if (status)
        sb_answers_free(a);
    else
        *out = a;
    return status;
}

static sb_status open_answers(const char *path, const sb_dump_options *options, sb_trace_head *head,
                              void **state, sb_error *err)
{
    sb_map map = {.size = 0};
    sb_answers *a = NULL;
    sb_status status = sb_map_open(path, &map, err);
    if (status)
        return status;
    status = sb_answers_parse((const char *)map.data, map.size, path, options, &a, err);
    if (status)
        sb_map_close(&map);
    else
        a->map = map;
    *state = a;
    snprintf(head->engine, sizeof head->engine, "answers of a server");
    return status;
}

const sb_dump_reader sb_dump_answers = {
    .name = "answers",
    .what = "JSON of vLLM, SGLang, llama-server or any OpenAI-style server, with logprobs",
    .is = is_answers,
    .open = open_answers,
    .play = sb_answers_play,
    .close = sb_answers_free};
