/* cmd_tokenize.c - text to ids and back: the N- clauses of docs/tokenizer.md. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/container/file.h"
#include "ref/container/show.h"
#include "tools/cli/cli.h"
#include "tools/cli/opts.h"
#include "tools/cli/prompt.h"
#include "tools/report/part/document.h"

/* Bytes and ids of the same text. */
typedef struct both {
    char *bytes;
    uint32_t *ids;
    size_t size, count, unknown;
} both;

static sb_status from_text(const sb_tokenizer *t, const char *text, const char *path, both *out,
                           sb_error *err)
{
    unsigned char *read = NULL;
    sb_status status = SB_OK;
    if (path)
        status = sb_read_file(path, SB_TOKENIZER_MAX_TEXT, &read, &out->size, err);
    else
        out->size = strlen(text);
    if (!status)
        status = sb_tokenizer_encode(t, read ? (const char *)read : text, out->size, &out->ids,
                                     &out->count, err);
    free(read);
    if (!status) /* the text of the ids, which normalization may have changed */
        status = sb_tokenizer_decode(t, out->ids, out->count, &out->bytes, &out->size,
                                     &out->unknown, err);
    return status;
}

static sb_status from_ids(const sb_tokenizer *t, const char *ids, both *out, sb_error *err)
{
    sb_sequence sequence = {0};
    sb_status status = sb_tokens_parse(ids, "--decode", &sequence, err);
    if (status)
        return status;
    out->ids = sequence.ids;
    out->count = sequence.count;
    return sb_tokenizer_decode(t, out->ids, out->count, &out->bytes, &out->size, &out->unknown,
                               err);
}

/* Prints one line per id; bytes that are no printable ASCII appear as \xHH. */
static void print_pieces(const sb_tokenizer *t, const both *b)
{
    for (size_t i = 0; i < b->count; i++) {
        size_t size = 0;
        const char *bytes = sb_tokenizer_bytes(t, b->ids[i], &size);
        printf("%8u  %s", (unsigned)b->ids[i], bytes ? "\"" : "no token");
        for (size_t at = 0; at < size; at++) {
            unsigned char c = (unsigned char)bytes[at];
            if (c >= 0x20 && c < 0x7f && c != '"' && c != '\\')
                putchar(c);
            else
                printf("\\x%02x", c);
        }
        printf("%s\n", bytes ? "\"" : "");
    }
}

static sb_status print_json(const both *b, sb_error *err)
{
    json_t *document = sb_document("tokenize"), *ids = json_array();
    json_t *text = json_stringn(b->bytes, b->size); /* NULL if the bytes are no UTF-8 */
    for (size_t i = 0; i < b->count; i++)
        SB_ADD(ids, b->ids[i]);
    SB_PUT(document, "tokens", ids);
    SB_PUT(document, "text", text ? text : json_null());
    SB_PUT(document, "unknown", b->unknown);
    return sb_print_document(document, err);
}

static sb_status print(const sb_tokenizer *t, const both *b, int decoded, int pieces, int as_json,
                       sb_error *err)
{
    if (as_json)
        return print_json(b, err);
    if (pieces) {
        print_pieces(t, b);
    } else if (!decoded) {
        sb_ids_print("tokens", b->ids, b->count);
        printf("\n");
    } else if (fwrite(b->bytes, 1, b->size, stdout) != b->size || putchar('\n') == EOF) {
        return sb_fail(err, SB_ERR_IO, "the text could not be written to stdout");
    }
    if (b->unknown)
        fprintf(stderr, "samebit: %zu of %zu ids have no token\n", b->unknown, b->count);
    return fflush(stdout) == 0
               ? SB_OK
               : sb_fail(err, SB_ERR_IO, "the tokens could not be written to stdout");
}

sb_status sb_cmd_tokenize(int argc, char **argv, sb_error *err)
{
    const char *path = NULL, *ids = NULL;
    int pieces = 0, as_json = 0;
    const sb_opt opts[] = {
        {"file", 0, SB_OPT_INPUT, &path, "F", "read the text from this file"},
        {"decode", 0, SB_OPT_STRING, &ids, "1,2,3", "print the text of these ids"},
        {"pieces", 0, SB_OPT_FLAG, &pieces, NULL, "print one line for each id, with its bytes"},
        SB_OPT_JSON(&as_json),
    };
    sb_command_line line = {
        .usage = "tokenize CKPT (TEXT | --file F | --decode 1,2,3) [options]",
        .about =
            "Prints the token ids of a text, using the tokenizer.json of the checkpoint (CKPT is a\n"
            "folder, or the path of a .json file): byte-level BPE with added tokens. A feature of the\n"
            "file that is not supported is refused by name. No chat template is applied: write\n"
            "<|im_start|> and the like into the text.",
        .opts = opts,
        .opt_count = sizeof opts / sizeof *opts,
        .more = "example:\n  samebit make /tmp/t1 --preset T1 --tokenizer\n"
                "  samebit tokenize /tmp/t1 'the same bits' --pieces\n"
                "  samebit tokenize /tmp/t1 --decode 265,258\n",
        .min_operands = 1,
        .max_operands = 2};
    sb_status status = sb_parse(&line, argc, argv, err);
    if (status || line.helped)
        return status;
    if ((line.operands == 2) + (path != NULL) + (ids != NULL) != 1)
        return sb_fail(err, SB_ERR_USAGE,
                       "expected exactly one of a text, --file and --decode; usage: samebit %s",
                       line.usage);
    sb_tokenizer *t = NULL;
    both b = {0};
    status = sb_prompt_tokenizer(line.operand[0], &t, err);
    if (!status)
        status = ids ? from_ids(t, ids, &b, err) : from_text(t, line.operand[1], path, &b, err);
    if (!status)
        status = print(t, &b, ids != NULL, pieces, as_json, err);
    free(b.bytes);
    free(b.ids);
    sb_tokenizer_free(t);
    return status;
}
