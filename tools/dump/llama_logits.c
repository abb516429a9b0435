/* llama_logits.c - the logits of the last position from llama.cpp's model-conversion examples:
 * pytorch-NAME.bin and llamacpp-NAME.bin, or the same as text, with NAME-tokens.bin next to
 * them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/base/text.h"
#include "ref/container/file.h"
#include "ref/container/show.h"
#include "tools/dump/logprobs.h"
#include "tools/dump/store.h"

enum { MAX_TEXT = 1 << 30 };

typedef struct single {
    const char *path;
    float *logits; /* (vocabulary) of the last token */
    size_t vocabulary;
    uint32_t *ids;
    size_t count;
} single;

static int is_single(const char *path)
{
    const char *name = sb_path_last(path);
    int named = (sb_starts(name, "pytorch-") || sb_starts(name, "llamacpp-")) &&
                ((sb_ends(name, ".bin") && !sb_ends(name, "-tokens.bin")) ||
                 (sb_ends(name, ".txt") && !sb_ends(name, "-prompt.txt")));
    int other = sb_dump_begins(path, "PK\3\4", 4) || sb_dump_begins(path, "_logits_", 8);
    return named && sb_dump_begins(path, "", 0) && !other; /* other: an archive, a KLD base file */
}

/* --- tokens ----------------------------------------------------------------------------------- */

/* "data/pytorch-M.txt" gives "data/pytorch-M-tokens.bin"; NULL if memory is out. */
static char *tokens_path(const char *path)
{
    size_t stem = strlen(path) - strlen(".bin"), room = stem + sizeof "-tokens.bin";
    char *out = sb_alloc(room, 1);
    if (out)
        snprintf(out, room, "%.*s-tokens.bin", (int)stem, path);
    return out;
}

static sb_status read_tokens(single *s, const char *path, sb_error *err)
{
    unsigned char *bytes = NULL;
    size_t size = 0;
    sb_status status = sb_read_file(path, 4 * (size_t)SB_POSITION_LIMIT, &bytes, &size, err);
    if (!status && (size % 4 != 0 || size == 0))
        status = sb_fail(err, SB_ERR_INPUT, "%s: has %zu bytes, expected 4 for each token",
                         SB_SHOW(path), size);
    if (!status) {
        s->count = size / 4;
        s->ids = sb_alloc(s->count, sizeof *s->ids);
        if (!s->ids)
            status = sb_fail(err, SB_ERR_MEMORY, "out of memory for token ids");
    }
    for (size_t i = 0; i < s->count && !status; i++) {
        s->ids[i] = sb_load_u32(bytes + 4 * i);
        if (s->ids[i] >= s->vocabulary)
            status = sb_fail(err, SB_ERR_INPUT,
                             "%s: token %zu is %ld, expected an id below %zu, the number of logits",
                             SB_SHOW(path), i, (long)(int32_t)s->ids[i], s->vocabulary);
    }
    free(bytes);
    return status;
}

/* Takes the token ids of the command line if there is no file of token ids. */
static sb_status take_given(single *s, const char *beside, const sb_dump_options *options,
                            sb_error *err)
{
    const uint32_t *given = sb_dump_given_ids(options, 0, &s->count);
    if (!given)
        return sb_fail(err, SB_ERR_USAGE,
                       "%s: does not contain the fed tokens, and there is no %s: expected --tokens",
                       SB_SHOW(s->path), SB_SHOW(sb_path_last(beside)));
    s->ids = sb_alloc(s->count, sizeof *s->ids);
    if (!s->ids)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for token ids");
    memcpy(s->ids, given, s->count * sizeof *s->ids);
    return SB_OK;
}

static sb_status load_tokens(single *s, const sb_dump_options *options, sb_error *err)
{
    struct stat st;
    char *beside = tokens_path(s->path);
    sb_status status = beside ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "out of memory for a path");
    if (!status && stat(beside, &st) == 0)
        status = read_tokens(s, beside, err);
    else if (!status)
        status = take_given(s, beside, options, err);
    if (!status)
        status = sb_dump_check_ids(options, 0, s->ids, s->count, s->path, err);
    size_t given = 0;
    if (!status && sb_dump_given_ids(options, 0, &given) && given != s->count)
        status = sb_fail(err, SB_ERR_INPUT, "%s: was fed %zu tokens, but %zu are given",
                         SB_SHOW(s->path), s->count, given);
    free(beside);
    return status;
}

/* --- logits ----------------------------------------------------------------------------------- */

static sb_status room_for(single *s, size_t count, sb_error *err)
{
    if (count == 0 || count > SB_DUMP_MAX_VOCAB)
        return sb_fail(err, SB_ERR_INPUT, "%s: has %zu logits, expected 1 to %d", SB_SHOW(s->path),
                       count, SB_DUMP_MAX_VOCAB);
    s->vocabulary = count;
    s->logits = sb_alloc(count, sizeof *s->logits);
    return s->logits ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "out of memory for logits");
}

static sb_status parse_binary(single *s, const unsigned char *bytes, size_t size, sb_error *err)
{
    if (size % 4 != 0)
        return sb_fail(err, SB_ERR_INPUT, "%s: has %zu bytes, expected 4 for each logit",
                       SB_SHOW(s->path), size);
    sb_status status = room_for(s, size / 4, err);
    for (size_t i = 0; i < s->vocabulary && !status; i++)
        s->logits[i] = sb_f32_from_bits(sb_load_u32(bytes + 4 * i));
    return status;
}

/* Reads "17: -1.250000" at *at and moves *at after it; 0 for anything else. strtof sees only
 * digits, a point, a sign and an exponent, or the words for infinity and NaN. */
static int parse_line(const char **at, size_t index, float *out)
{
    char want[32], *end = NULL;
    int n = snprintf(want, sizeof want, "%zu: ", index);
    if (strncmp(*at, want, (size_t)n) != 0)
        return 0;
    const char *number = *at + n;
    size_t length = strspn(number, "0123456789+-.eEnaif");
    *out = length ? strtof(number, &end) : 0;
    if (!length || end != number + length || (*end && *end != '\n'))
        return 0;
    *at = *end ? end + 1 : end;
    return 1;
}

static sb_status parse_text(single *s, const char *text, size_t size, sb_error *err)
{
    size_t lines = 0, i = 0;
    for (size_t k = 0; k < size; k++)
        lines += text[k] == '\n';
    lines += size && text[size - 1] != '\n';
    if (strlen(text) != size)
        return sb_fail(err, SB_ERR_INPUT, "%s: is not text: byte %zu is 0", SB_SHOW(s->path),
                       strlen(text));
    sb_status status = room_for(s, lines, err);
    for (; i < s->vocabulary && !status; i++)
        if (!parse_line(&text, i, &s->logits[i]))
            status = sb_fail(err, SB_ERR_INPUT,
                             "%s:%zu: is not a line of logits, expected \"%zu: VALUE\"",
                             SB_SHOW(s->path), i + 1, i);
    return status;
}

static void close_single(void *state)
{
    single *s = state;
    if (!s)
        return;
    free(s->logits);
    free(s->ids);
    free(s);
}

static sb_status open_single(const char *path, const sb_dump_options *options, sb_trace_head *head,
                             void **state, sb_error *err)
{
    unsigned char *bytes = NULL;
    size_t size = 0;
    single *s = sb_alloc(1, sizeof *s);
    if (!s)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for %s", SB_SHOW(path));
    *state = s; /* the caller closes it also after a failure */
    s->path = path;
    if (strlen(path) < 4)
        return sb_fail(err, SB_ERR_INPUT, "%s: expected a file name that ends in .bin or .txt",
                       SB_SHOW(path));
    sb_status status = sb_read_file(path, MAX_TEXT, &bytes, &size, err);
    if (!status)
        status = sb_ends(path, ".txt") ? parse_text(s, (const char *)bytes, size, err)
                                       : parse_binary(s, bytes, size, err);
    free(bytes);
    if (!status)
        status = load_tokens(s, options, err);
    head->vocab_size = (uint32_t)s->vocabulary;
    snprintf(head->engine, sizeof head->engine, "%s",
             sb_starts(sb_path_last(path), "pytorch-") ? "transformers (last logits)"
                                                       : "llama.cpp (last logits)");
    return status;
}

/* J-33: "the logits of one prompt, of its last row only" */
static sb_status play_single(void *state, sb_step_fn take, void *ctx, sb_error *err)
{
    const single *s = state;
    sb_step step;
    float *data = NULL;
    sb_status status = sb_step_of_ids(0, 0, s->ids, s->count, SB_CALL_prompt, &step, err);
    if (!status)
        status = sb_dump_logits_rows(&step, s->count - 1, 1, err);
    if (!status)
        status = sb_dump_add(&step, "logits", 1, s->vocabulary, &data, err);
    if (!status) {
        memcpy(data, s->logits, s->vocabulary * sizeof *data);
        status = take(ctx, &step, err);
    }
    sb_step_clear(&step);
    return status;
}

const sb_dump_reader sb_dump_llama_logits = {
    .name = "llama_logits",
    .what = "pytorch-NAME.bin, llamacpp-NAME.bin or .txt of llama.cpp's model conversion",
    .is = is_single,
    .open = open_single,
    .play = play_single,
    .close = close_single};
