#include "tools/cli/diff_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ref/base/hash.h"
#include "ref/base/mem.h"
#include "ref/base/text.h"
#include "ref/container/digest.h"
#include "ref/container/file.h"
#include "ref/container/json_out.h"
#include "ref/container/show.h"
#include "tools/report/diff/html.h"
#include "tools/report/diff/jsonl.h"
#include "tools/report/diff/markdown.h"
#include "tools/report/part/document.h"
#include "tools/report/part/tar.h"

static int is_pack(const sb_diff_files *f)
{
    return f->bundle && sb_ends(f->bundle, ".tar");
}

sb_status sb_diff_files_begin(sb_diff_files *f, sb_error *err)
{
    static const char end[] = ".replay";
    f->replay = f->bundle;
    if (!is_pack(f))
        return SB_OK;
    size_t room = strlen(f->bundle) + sizeof end;
    f->own = sb_alloc(room, 1);
    if (!f->own)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a name");
    snprintf(f->own, room, "%s%s", f->bundle, end);
    f->replay = f->own;
    unlink(f->own); /* left by a killed run */
    return SB_OK;
}

void sb_diff_files_end(sb_diff_files *f)
{
    if (f->own)
        unlink(f->own);
    free(f->own);
    f->own = NULL;
}

/* --- the pack --------------------------------------------------------------------------------- */

enum { PACK_MEMBERS = 7 };

typedef struct pack {
    sb_tar_member members[PACK_MEMBERS];
    char *texts[PACK_MEMBERS];
    size_t count;
} pack;

static sb_status add(pack *p, const char *name, sb_print_fn print, const void *ctx, sb_error *err)
{
    char *text;
    size_t size;
    sb_status status = sb_print_memory(print, ctx, name, &text, &size, err);
    if (status)
        return status;
    p->texts[p->count] = text;
    p->members[p->count++] = (sb_tar_member){name, text, size};
    return SB_OK;
}

static int print_document(FILE *out, const void *document)
{
    return sb_json_dumpf(document, out, JSON_INDENT(2)) && fputc('\n', out) != EOF;
}

/* O-4: "the digest of each file before it" - XXH3-128, like all digests. */
static int print_digests(FILE *out, const void *ctx)
{
    const pack *p = ctx;
    for (size_t i = 0; i < p->count; i++) {
        sb_hash *hash = sb_hash_new();
        if (!hash)
            return 0;
        sb_hash_bytes(hash, p->members[i].bytes, p->members[i].count);
        fprintf(out, "%s  %s\n", sb_hash_end(hash).hex, p->members[i].name);
        sb_hash_free(hash);
    }
    return 1;
}

/* Adds the failed op, if there is one; the run wrote its file. */
static sb_status add_replay(pack *p, const char *path, sb_error *err)
{
    unsigned char *bytes = NULL;
    size_t size = 0;
    if (access(path, F_OK) != 0)
        return SB_OK;
    sb_status status = sb_read_file(path, SIZE_MAX, &bytes, &size, err);
    if (status)
        return status;
    p->texts[p->count] = (char *)bytes;
    p->members[p->count++] = (sb_tar_member){"replay.safetensors", bytes, size};
    return SB_OK;
}

static sb_status write_pack(const sb_diff_files *f, const sb_diff_reports *r,
                            const json_t *document, sb_error *err)
{
    const sb_diff_lines lines = {document, r};
    pack p = {.count = 0};
    sb_status status = add(&p, "report.html", sb_diff_html, r, err);
    if (!status)
        status = add(&p, "report.json", print_document, document, err);
    if (!status)
        status = add(&p, "report.jsonl", sb_diff_jsonl, &lines, err);
    if (!status)
        status = add_replay(&p, f->own, err);
    if (!status)
        status = add(&p, "command.txt", sb_diff_command, r, err);
    if (!status)
        status = add(&p, "issue.md", sb_diff_markdown, r, err);
    if (!status)
        status = add(&p, "digests.txt", print_digests, &p, err);
    if (!status)
        status = sb_tar_write(f->bundle, p.members, p.count, err);
    for (size_t i = 0; i < p.count; i++)
        free(p.texts[i]);
    return status;
}

sb_status sb_diff_files_write(const sb_diff_files *f, sb_diff_reports *r, const json_t *document,
                              const sb_model *model, sb_error *err)
{
    sb_digest digest = {""};
    sb_status status = SB_OK;
    if (!document)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for the report");
    if (f->report || f->jsonl || is_pack(f))
        status = sb_checkpoint_digest(model->checkpoint, &digest, err);
    r->digest = digest.hex;
    if (!status && f->junit)
        status = sb_diff_junit(r, f->junit, err);
    if (!status && f->jsonl)
        status = sb_print_file(f->jsonl, sb_diff_jsonl, &(sb_diff_lines){document, r},
                               "report in lines", err);
    if (!status && f->report)
        status = sb_print_file(f->report, sb_diff_html, r, "page", err);
    if (!status && is_pack(f))
        status = write_pack(f, r, document, err);
    r->digest = "";
    return status;
}
